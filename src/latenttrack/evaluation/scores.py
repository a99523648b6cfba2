"""Proper scores of one forecast against one label; all in the label's own units.

NLL   -log p(y)
CRPS  E|Y - y| - 1/2 E|Y - Y'|  =  int (F(u) - 1{u >= y})^2 du
PIT   F(y), uniform if the forecast is right
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from latenttrack.models.components import Gaussian, gaussian_mean_distance
from latenttrack.models.grid import Grid, lay_grid, warp_grid
from latenttrack.models.ladder import Spacing
from latenttrack.models.predictive import Predictive
from latenttrack.models.transformed import TransformedPredictive
from latenttrack.models.warped import Warped


class Scores(NamedTuple):
    """One row of the records."""

    mean: Float[Array, ""]
    aleatoric: Float[Array, ""]
    epistemic: Float[Array, ""]
    lower: Float[Array, ""]  # 5 % quantile
    upper: Float[Array, ""]  # 95 % quantile
    nll: Float[Array, ""]
    squared_error: Float[Array, ""]
    crps: Float[Array, ""]
    pit: Float[Array, ""]


def score(predictive: Predictive, y: Float[Array, ""]) -> Scores:
    """Everything that is recorded of a step."""
    mean = predictive.mean
    lower, upper = predictive.interval(0.9)
    return Scores(
        mean=mean,
        aleatoric=predictive.aleatoric,
        epistemic=predictive.epistemic,
        lower=lower,
        upper=upper,
        nll=-predictive.log_prob(y),
        squared_error=(mean - y) ** 2,
        crps=crps(predictive, y),
        pit=predictive.cdf(y),
    )


def crps(predictive: Predictive, y: Float[Array, ""]) -> Float[Array, ""]:
    """The continuous ranked probability score of a forecast."""
    if isinstance(predictive, TransformedPredictive):
        return _transformed_crps(predictive, y)
    if isinstance(predictive, Warped):
        return _warped_crps(predictive, y)
    return _mean_distance(predictive, y) - half_spread(predictive)


def half_spread(predictive: Predictive) -> Float[Array, ""]:
    """1/2 E|Y - Y'| of two independent draws: exact for Gaussian mixtures, by quadrature for others."""
    if isinstance(predictive, TransformedPredictive):
        return _transformed_half_spread(predictive, lay_grid(predictive.mixture, _FAR))
    if isinstance(predictive, Warped):
        return _warped_half_spread(predictive, _tabulate(predictive.base))
    if isinstance(predictive.components, Gaussian):
        return _gaussian_half_spread(predictive.components, predictive.weights)
    table = _tabulate(predictive)
    return _simpson(table.h, table.F * (1.0 - table.F)) + table.below + table.above


def _gaussian_half_spread(components: Gaussian, weights: Float[Array, " K"]) -> Float[Array, ""]:
    """1/2 sum_ij w_i w_j E|N(m_i - m_j, s_i^2 + s_j^2)|.

    Pairs are visited by their distance in the list, 1 ... K / 2, so that each is computed once.
    """
    K = weights.shape[0]
    near = np.arange(1, K // 2 + 1)
    index = (np.arange(K)[None, :] + near[:, None]) % K  # [K/2, K]: the partner at each distance
    once = np.where(2 * near == K, 0.5, 1.0).astype(np.float32)[
        :, None
    ]  # half-way round, both ends see the pair
    distance = gaussian_mean_distance(
        components.loc[None, :] - components.loc[index],
        jnp.sqrt(components.scale[None, :] ** 2 + components.scale[index] ** 2),
    )
    own = jnp.sum(weights**2 * components.scale) / np.sqrt(np.pi)
    return own + jnp.sum(once * weights[None, :] * weights[index] * distance)


class _Table(NamedTuple):
    """The distribution function of a mixture on a grid from a to b in steps of h, and the tails beyond it."""

    a: Float[Array, ""]
    b: Float[Array, ""]
    h: Float[Array, ""]
    F: Float[Array, " nodes"]
    below: Float[Array, ""]  # int_-inf^a F du = E(a - Y)_+
    above: Float[Array, ""]  # int_b^inf (1 - F) du = E(Y - b)_+


def _tabulate(mixture: Predictive, cells: int = 256) -> _Table:
    """F for any components, from densities on a grid and closed forms beyond it.

    The grid reaches 8 scales past the outermost components that matter: those left out hold less than .003 of
    the probability together, so that beyond the grid F (1 - F) is the tail probability up to its square. On
    it F is the running integral of the density (cubic rule for each cell), which is far cheaper than as many
    distribution functions. Components narrower than a five-hundredth of the grid are not resolved.
    """
    components, weights = mixture.components, mixture.weights
    matters = weights > 0.003 / weights.shape[0]
    a = jnp.min(jnp.where(matters, components.loc - 8.0 * components.scale, jnp.inf))
    b = jnp.max(jnp.where(matters, components.loc + 8.0 * components.scale, -jnp.inf))
    h = (b - a) / cells
    density = jnp.exp(jax.vmap(mixture.log_prob)(a + h * np.arange(-1, cells + 2, dtype=np.float32)))
    rise = h * (13.0 * (density[1:-2] + density[2:-1]) - density[:-3] - density[3:]) / 24.0
    start, end = mixture.cdf(a), mixture.cdf(b)
    climb = jnp.concatenate([jnp.zeros(1), jnp.cumsum(rise)])
    F = start + climb * ((end - start) / climb[-1])
    return _Table(a, b, h, F, _shortfall(mixture, a), _excess(mixture, b))


def _simpson(h: Float[Array, ""], values: Float[Array, " nodes"]) -> Float[Array, ""]:
    """Simpson's rule for an even number of cells of width h."""
    weights = np.ones(values.shape[0], np.float32)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return h / 3.0 * jnp.sum(weights * values)


def _warped_half_spread(predictive: Warped, table: _Table) -> Float[Array, ""]:
    """Int H(F) (1 - H(F)) du; in the tails H is linear."""
    F, heights = predictive.warp(table.F), predictive.heights
    return _simpson(table.h, F * (1.0 - F)) + heights[0] * table.below + heights[-1] * table.above


def _warped_crps(predictive: Warped, y: Float[Array, ""]) -> Float[Array, ""]:
    """E'|Y - y| = E|Y - y| + int_-inf^y D du - int_y^inf D du with D = H(F) - F; and the half spread."""
    base = predictive.base
    table = _tabulate(base)
    D = predictive.warp(table.F) - table.F
    climb = jnp.concatenate([jnp.zeros(1), jnp.cumsum(0.5 * table.h * (D[1:] + D[:-1]))])
    # In the tails H is linear: D is (h - 1) F below the grid and (1 - h) (1 - F) above it.
    low, high = predictive.heights[0] - 1.0, 1.0 - predictive.heights[-1]
    cell = jnp.clip((y - table.a) / table.h, 0.0, float(D.shape[0] - 1))
    i = jnp.minimum(cell.astype(int), D.shape[0] - 2)
    part = cell - i.astype(cell.dtype)
    left = (
        low * _shortfall(base, jnp.minimum(y, table.a))
        + climb[i]
        + table.h * part * (D[i] + 0.5 * part * (D[i + 1] - D[i]))
        + high * (table.above - _excess(base, jnp.maximum(y, table.b)))
    )
    whole = low * table.below + climb[-1] + high * table.above
    return _mean_distance(base, y) + 2.0 * left - whole - _warped_half_spread(predictive, table)


# A curve may magnify the far tail, where little probability is left.
_FAR = Spacing(cells=256, reach=1000.0, bend=9.0)


def _transformed_half_spread(predictive: TransformedPredictive, grid: Grid) -> Float[Array, ""]:
    """Int F (1 - F) dy, dy = y'(u) du: the distribution function is that of u."""
    grid, _ = warp_grid(predictive.base, grid)
    return predictive.scale * jnp.sum(grid.step * predictive.curve.label_slope(grid.u) * grid.F * grid.S)


def _transformed_crps(predictive: TransformedPredictive, label: Float[Array, ""]) -> Float[Array, ""]:
    """E|y(U) - y| minus the half spread.

    With v the u of the label, y(u) - y = b (u - v) + r(u), where b is the slope there and r is flat, so that
    E|y(U) - y| = b E|U - v| + E[sign(U - v) r(U)]. A warp adds int_-inf^v D dy - int_v^inf D dy.
    """
    curve, mixture = predictive.curve, predictive.mixture
    grid = lay_grid(mixture, _FAR)
    v = predictive.to_inner(label)
    b = curve.label_slope(v)
    r = curve.to_label(grid.u) - curve.to_label(v) - b * (grid.u - v)
    density = grid.mass @ mixture.weights
    distance = b * _mean_distance(mixture, v) + jnp.sum(jnp.sign(grid.u - v) * r * density)
    D = grid.step * curve.label_slope(grid.u) * warp_grid(predictive.base, grid)[1]
    climb = jnp.cumsum(D) - 0.5 * D
    distance = distance + 2.0 * jnp.interp(v, grid.u, climb) - climb[-1]
    return predictive.scale * distance - _transformed_half_spread(predictive, grid)


def _mean_distance(mixture: Predictive, y: Float[Array, ""]) -> Float[Array, ""]:
    """E|Y - y|."""
    return jnp.sum(mixture.weights * mixture.components.mean_distance(y))


def _excess(mixture: Predictive, b: Float[Array, ""]) -> Float[Array, ""]:
    """E(Y - b)_+."""
    components = mixture.components
    return 0.5 * jnp.sum(mixture.weights * (components.mean_distance(b) + components.mean() - b))


def _shortfall(mixture: Predictive, a: Float[Array, ""]) -> Float[Array, ""]:
    """E(a - Y)_+."""
    components = mixture.components
    return 0.5 * jnp.sum(mixture.weights * (components.mean_distance(a) - components.mean() + a))
