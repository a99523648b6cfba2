"""Where the K standard-normal draws of a prediction come from.

`Sobol` points are drawn once, kept with the model and used at every step: predictions are deterministic,
carry less Monte-Carlo noise than as many independent draws, and no random number is made on the hot path.
`Independent` draws are the plain Monte Carlo of the paper.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import ndtri
from scipy.stats import qmc

from latenttrack.models.base import Constant
from latenttrack.models.choices import choose


class AbstractDraws(eqx.Module):
    """K points in R^dim, distributed as N(0, I)."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray) -> Float[Array, "K dim"]:
        """The K points for one step."""


class Independent(AbstractDraws):
    """K fresh independent draws at every step."""

    count: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray) -> Float[Array, "K dim"]:
        """N(0, I) draws from `key`."""
        return jax.random.normal(key, (self.count, self.dim))


class Sobol(AbstractDraws):
    """K fixed points: a scrambled Sobol set through the normal quantile function."""

    points: Constant

    def __init__(self, count: int, dim: int, seed: int = 0):
        # A power of two keeps the set balanced; its first `count` points are used.
        uniform = qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(seed)).random_base2(
            max(count - 1, 0).bit_length()
        )[:count]
        inside = np.clip(uniform, 1e-7, 1.0 - 1e-7)
        self.points = Constant(jnp.asarray(ndtri(inside), jnp.float32))

    def __call__(self, key: PRNGKeyArray) -> Float[Array, "K dim"]:
        """The same points whatever the key."""
        del key
        return self.points.value


def make_draws(kind: str, count: int, dim: int) -> AbstractDraws:
    """`kind` is "sobol" or "independent"."""
    return choose("kind of draws", kind, _KINDS)(count, dim)


_KINDS: dict[str, Callable[[int, int], AbstractDraws]] = {"sobol": Sobol, "independent": Independent}
