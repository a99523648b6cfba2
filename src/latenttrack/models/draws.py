"""Where the K standard-normal draws of a prediction come from.

`Sobol` points are drawn once, kept with the model and used at every step: predictions are deterministic,
carry less Monte-Carlo noise than as many independent draws, and no random number is made on the hot path.
`Independent` draws are the plain Monte Carlo of the paper.
"""

import abc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt32

from latenttrack.data.matching import choose
from latenttrack.errors import LatentTrackError
from latenttrack.models.base import Constant

_MOST_POINTS = 2**24  # numbers
_void = ContextVar("void", default=False)


@contextmanager
def void_points() -> Iterator[None]:
    """Within it `Sobol` points are zeros: a model whose points are in its file need not draw them first."""
    token = _void.set(True)
    try:
        yield
    finally:
        _void.reset(token)


class AbstractDraws(eqx.Module):
    """K points in R^dim, distributed as N(0, I)."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray) -> Float[Array, "K dim"]:
        """The K points for one step."""

    @abc.abstractmethod
    def below(self, key: PRNGKeyArray, p: float) -> Bool[Array, "K dim"]:
        """Which coordinates lie below the p quantile of N(0, 1): coins that show heads with probability p."""


class Independent(AbstractDraws):
    """K fresh independent draws at every step."""

    count: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray) -> Float[Array, "K dim"]:
        """N(0, I) draws from `key`: sqrt(2) erf^-1(u), u uniform in (-1, 1) from 23 random bits."""
        bits = _random_words(key, self.count * self.dim)
        one_to_two = jax.lax.bitcast_convert_type((bits >> 9) | jnp.uint32(0x3F800000), jnp.float32)
        u = jnp.maximum(2.0 * one_to_two - 3.0, np.nextafter(np.float32(-1.0), np.float32(0.0)))
        return (np.float32(np.sqrt(2.0)) * jax.lax.erf_inv(u)).reshape(self.count, self.dim)

    def below(self, key: PRNGKeyArray, p: float) -> Bool[Array, "K dim"]:
        """Sixteen random bits decide each coin: p is met to 2^-17."""
        count = self.count * self.dim
        bits = _random_words(key, -(-count // 2))
        halves = jnp.concatenate([bits & jnp.uint32(0xFFFF), bits >> 16])[:count]
        return (halves < jnp.uint32(round(p * 2**16))).reshape(self.count, self.dim)


def _random_words(key: PRNGKeyArray, count: int) -> UInt32[Array, " count"]:
    """Uniform 32-bit words: the generator behind `jax.random` by itself, which gives two words a call.

    `jax.random.bits` throws one of the two away, so that arrays may be split between devices. Random words
    are what plain Monte Carlo spends most of its time on.
    """
    return threefry_2x32(jax.random.key_data(key), jnp.arange(count, dtype=jnp.uint32))


class Sobol(AbstractDraws):
    """K fixed points: a scrambled Sobol set through the normal quantile function."""

    points: Constant

    def __init__(self, count: int, dim: int, seed: int = 0):
        if count * dim > _MOST_POINTS:
            raise LatentTrackError(f"K is {count}, with {dim} numbers a draw: give a smaller K.")
        points = np.zeros((count, dim)) if _void.get() else _normal_points(count, dim, seed)
        self.points = Constant(jnp.asarray(points, jnp.float32))

    def __call__(self, key: PRNGKeyArray) -> Float[Array, "K dim"]:
        """The same points whatever the key."""
        del key
        return self.points.value

    def below(self, key: PRNGKeyArray, p: float) -> Bool[Array, "K dim"]:
        """The points, compared with the quantile."""
        from scipy.special import ndtri

        return self(key) < float(ndtri(p))


def _normal_points(count: int, dim: int, seed: int) -> Float[np.ndarray, "K dim"]:
    from scipy.special import ndtri
    from scipy.stats import qmc  # here, because it takes as long to import as all the rest

    # A power of two keeps the set balanced; its first `count` points are used.
    uniform = qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(seed)).random_base2(
        max(count - 1, 0).bit_length()
    )[:count]
    points: np.ndarray = ndtri(np.clip(uniform, 1e-7, 1.0 - 1e-7))
    return points


def make_draws(kind: str, count: int, dim: int) -> AbstractDraws:
    """`kind` is "sobol" or "independent"."""
    return choose("kind of draws", kind, _KINDS)(count, dim)


_KINDS: dict[str, Callable[[int, int], AbstractDraws]] = {"sobol": Sobol, "independent": Independent}
