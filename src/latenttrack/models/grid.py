"""A mixture on a grid: what integrals over it are computed from that have no closed form."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from latenttrack.models.predictive import Predictive
from latenttrack.models.warped import Warped


class Spacing(NamedTuple):
    """A grid that is dense around the mean of a mixture; its steps grow into the tails."""

    cells: int
    reach: float  # in standard deviations
    bend: float  # far out, neighbours are a factor of exp(2 bend / cells) apart


class Grid(NamedTuple):
    """A mixture on a grid of u."""

    u: Float[Array, " nodes"]
    step: Float[Array, " nodes"]  # du: the sum of f(u) step is the integral of f
    mass: Float[Array, "nodes K"]  # p_k(u) du of each component
    F: Float[Array, " nodes"]  # P(U <= u) for the mixture
    S: Float[Array, " nodes"]  # P(U > u); 1 - F would be all rounding where a curve magnifies it most


def lay_grid(mixture: Predictive, spacing: Spacing) -> Grid:
    """The components' probabilities around the nodes of a grid, and the running integral of their sum.

    F is taken from densities with a cubic rule for each cell, far cheaper than as many distribution functions
    of Student-t mixtures. A component too narrow for the grid may miss it, but never counts more than once.
    """
    place, slope = _nodes(spacing)
    sd = jnp.sqrt(mixture.variance)
    u, step = mixture.mean + sd * place, sd * slope
    mass = step[:, None] * jnp.exp(jax.vmap(mixture.components.log_prob)(u))
    density = mass @ mixture.weights
    rise = (13.0 * (density[1:-2] + density[2:-1]) - density[:-3] - density[3:]) / 24.0
    rise = jnp.maximum(rise, 0.0)
    # [nodes + 1] of what is between neighbours; nothing if all components are too narrow.
    share = jnp.pad(rise / jnp.maximum(jnp.sum(rise), jnp.finfo(rise.dtype).tiny), (2, 2))
    F, S = jnp.cumsum(share)[:-1], jnp.cumsum(share[::-1])[-2::-1]
    return Grid(u, step, mass / jnp.maximum(jnp.sum(mass, axis=0), 1.0), F, S)


@functools.cache
def _nodes(spacing: Spacing) -> tuple[np.ndarray, np.ndarray]:
    """Where the nodes are, and their distances, in standard deviations; one more at each end than cells."""
    cells, reach, bend = spacing
    t = np.linspace(-1.0 - 2.0 / cells, 1.0 + 2.0 / cells, cells + 3)
    place = reach / np.sinh(bend) * np.sinh(bend * t)
    slope = reach / np.sinh(bend) * np.cosh(bend * t) * bend * 2.0 / cells
    return place.astype(np.float32), slope.astype(np.float32)


def warp_grid(base: Predictive, grid: Grid) -> tuple[Grid, Float[Array, " nodes"]]:
    """The grid of a mixture with the F and S of `base`, the same mixture, maybe warped; and D = H(F) - F."""
    if not isinstance(base, Warped):
        return grid, jnp.zeros_like(grid.F)
    mirrored = eqx.tree_at(lambda warped: warped.knots, base, 1.0 - base.knots[::-1])
    F, S = base.warp(grid.F), mirrored.warp(grid.S)
    return grid._replace(F=F, S=S), jnp.where(grid.F < 0.5, F - grid.F, grid.S - S)
