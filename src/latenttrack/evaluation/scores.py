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
from latenttrack.models.predictive import Predictive


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
    """The continuous ranked probability score of a mixture."""
    return jnp.sum(predictive.weights * predictive.components.mean_distance(y)) - half_spread(predictive)


def half_spread(predictive: Predictive) -> Float[Array, ""]:
    """1/2 E|Y - Y'| of two independent draws: exact for Gaussian mixtures, by quadrature for others."""
    if isinstance(predictive.components, Gaussian):
        return _gaussian_half_spread(predictive.components, predictive.weights)
    return _integrated_half_spread(predictive)


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


def _integrated_half_spread(predictive: Predictive, cells: int = 256) -> Float[Array, ""]:
    """Int F (1 - F) du for any components, from densities on a grid and closed forms beyond it.

    The grid reaches 8 scales past the outermost components. On it F is the running integral of the density
    (cubic rule for each cell), which is far cheaper than as many distribution functions; beyond it F (1 - F)
    is the tail probability up to its square, and int P(Y > u) du = E(Y - b)_+ has a closed form. Components
    narrower than a five-hundredth of the grid are not resolved.
    """
    components, weights = predictive.components, predictive.weights
    a = jnp.min(components.loc - 8.0 * components.scale)
    b = jnp.max(components.loc + 8.0 * components.scale)
    h = (b - a) / cells
    density = jnp.exp(jax.vmap(predictive.log_prob)(a + h * np.arange(-1, cells + 2, dtype=np.float32)))
    rise = h * (13.0 * (density[1:-2] + density[2:-1]) - density[:-3] - density[3:]) / 24.0
    start, end = predictive.cdf(a), predictive.cdf(b)
    climb = jnp.concatenate([jnp.zeros(1), jnp.cumsum(rise)])
    F = start + climb * ((end - start) / climb[-1])
    simpson = np.tile([4.0, 2.0], cells // 2 + 1)[: cells + 1]
    simpson = np.concatenate([[1.0], simpson[: cells - 1], [1.0]]).astype(np.float32)
    middle = h / 3.0 * jnp.sum(simpson * F * (1.0 - F))
    above = 0.5 * (components.mean_distance(b) + components.mean() - b)
    below = 0.5 * (components.mean_distance(a) - components.mean() + a)
    return middle + jnp.sum(weights * (above + below))
