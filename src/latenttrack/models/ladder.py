"""Nodes around the mean of a mixture, the density there, and its running integral: the distribution function.

F is taken from densities with a cubic rule for each cell, far cheaper than as many distribution functions. It
is as good as the nodes are dense: about 1e-3 for ordinary mixtures. A component narrower than the distance of
the nodes may be missed.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Spacing(NamedTuple):
    """A grid that is dense around the mean of a mixture; its steps grow into the tails."""

    cells: int
    reach: float  # in standard deviations
    bend: float  # far out, neighbours are a factor of exp(2 bend / cells) apart


# Of everything that is compiled together: the densities are computed once.
SPACING = Spacing(cells=48, reach=40.0, bend=6.0)


class Ladder(NamedTuple):
    """A mixture at n = cells + 1 nodes u_i = mean + sd place_i."""

    u: Float[Array, " n"]
    away: Float[Array, " n"]  # u - mean
    step: Float[Array, " n"]  # du: the sum of f(u) step is the integral of f
    p: Float[Array, " n"]  # density
    F: Float[Array, " n"]  # P(U <= u), from 0 to 1
    S: Float[Array, " n"]  # P(U > u), from 1 to 0; 1 - F would be all rounding in the upper tail


def lay_ladder(
    densities: Callable[[Float[Array, " nodes"]], Float[Array, " nodes"]],
    mean: Float[Array, ""],
    sd: Float[Array, ""],
) -> Ladder:
    """The density at the nodes of `SPACING`, and its running integral.

    Args:
        densities: of the mixture.
        mean: of the mixture.
        sd: its standard deviation.
    """
    place, slope = lay_nodes(SPACING)
    p = densities(mean + sd * place)
    rise = cell_integrals(jnp.asarray(slope) * p)
    climb, fall = running_sum(rise), running_sum(rise[::-1])[::-1]
    # Nothing at all if every component is too narrow: then F and S are 0.
    whole = jnp.maximum(climb[-1], jnp.finfo(p.dtype).tiny)
    inner = slice(1, -1)
    away = sd * place[inner]
    F, S = jnp.pad(climb / whole, (1, 0)), jnp.pad(fall / whole, (0, 1))
    return Ladder(mean + away, away, sd * slope[inner], p[inner], F, S)


def cell_integrals(mass: Float[Array, " nodes"]) -> Float[Array, " cells"]:
    """What lies between neighbours, by the cubic through four nodes; `mass` is density times step.

    The first and the last node are only there for the cubics at the ends.
    """
    rise = (13.0 * (mass[1:-2] + mass[2:-1]) - mass[:-3] - mass[3:]) / 24.0
    return jnp.maximum(rise, 0.0)


def running_sum(values: Float[Array, " n"]) -> Float[Array, " n"]:
    """values[0], values[0] + values[1], ...: a small product with a triangle is faster than a scan."""
    return jnp.asarray(np.tri(values.shape[0]), values.dtype) @ values


def start_quantiles(ladder: Ladder, levels: Float[Array, " Q"]) -> Float[Array, " Q"]:
    """About where F(u) = q: F turned round within the cell that holds q, cubic, with slopes du/dF = 1 / p."""
    info = jnp.finfo(levels.dtype)
    u, p, F = ladder.u, ladder.p, ladder.F
    width, rise = jnp.diff(u), jnp.maximum(jnp.diff(F), info.tiny)
    # Slopes beyond three times the mean slope would make the cubic fall somewhere (Fritsch and Carlson).
    mean_slope = width / rise
    first, last = (
        jnp.minimum(rise / jnp.maximum(p_end * width, info.tiny), 3.0) for p_end in (p[:-1], p[1:])
    )
    cells = jnp.stack([u[:-1], F[:-1], mean_slope, width, first, last], axis=1)
    which = jnp.sum(F[1:-1] <= levels[:, None], axis=1)
    start, low, mean_slope, width, first, last = cells[which].T
    s = jnp.clip((levels - low) * mean_slope / width, 0.0, 1.0)
    bend = s * (1.0 - s) * ((1.0 - s) * (first - 1.0) - s * (last - 1.0))
    return start + width * (s + bend)


@functools.cache
def lay_nodes(spacing: Spacing) -> tuple[np.ndarray, np.ndarray]:
    """Where the nodes are, and their distances, in standard deviations; one more at each end than cells."""
    cells, reach, bend = spacing
    t = np.linspace(-1.0 - 2.0 / cells, 1.0 + 2.0 / cells, cells + 3)
    place = reach / np.sinh(bend) * np.sinh(bend * t)
    slope = reach / np.sinh(bend) * np.cosh(bend * t) * bend * 2.0 / cells
    return place.astype(np.float32), slope.astype(np.float32)
