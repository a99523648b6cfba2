"""A mixture on a grid: what integrals over it are computed from that have no closed form."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from latenttrack.models.ladder import SPACING, Spacing, cell_integrals, lay_nodes
from latenttrack.models.predictive import Predictive
from latenttrack.models.warped import Warped, lift


class Grid(NamedTuple):
    """A mixture on a grid of u."""

    u: Float[Array, " nodes"]
    step: Float[Array, " nodes"]  # du: the sum of f(u) step is the integral of f
    mass: Float[Array, "nodes K"]  # p_k(u) du of each component
    F: Float[Array, " nodes"]  # P(U <= u) for the mixture
    S: Float[Array, " nodes"]  # P(U > u); 1 - F would be all rounding where a curve magnifies it most


def lay_grid(mixture: Predictive, spacing: Spacing = SPACING) -> Grid:
    """The components' probabilities around the nodes of a grid, and the running integral of their sum.

    F is taken from densities with a cubic rule for each cell, far cheaper than as many distribution functions
    of Student-t mixtures. A component too narrow for the grid may miss it, but never counts more than once.
    """
    place, slope = lay_nodes(spacing)
    sd = jnp.sqrt(mixture.variance)
    u, step = mixture.mean + sd * place, sd * slope
    mass = step[:, None] * jnp.exp(jax.vmap(mixture.components.log_prob)(u))
    density = mass @ mixture.weights
    rise = cell_integrals(density)
    # [nodes + 1] of what is between neighbours; nothing if all components are too narrow.
    share = jnp.pad(rise / jnp.maximum(jnp.sum(rise), jnp.finfo(rise.dtype).tiny), (2, 2))
    F, S = jnp.cumsum(share)[:-1], jnp.cumsum(share[::-1])[-2::-1]
    return Grid(u, step, mass / jnp.maximum(jnp.sum(mass, axis=0), 1.0), F, S)


def warp_grid(base: Predictive, grid: Grid) -> tuple[Grid, Float[Array, " nodes"]]:
    """The grid of a mixture with the F and S of `base`, the same mixture, maybe warped; and D = H(F) - F."""
    if not isinstance(base, Warped):
        return grid, jnp.zeros_like(grid.F)
    F, S, D = lift(grid.F, grid.S, base.knots)
    return grid._replace(F=F, S=S), D
