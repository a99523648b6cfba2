"""Emission heads: what the raw outputs of a predictor network mean.

A head says how many numbers it needs (`size`) and turns K rows of them into K distributions. A new kind of
label (categories, counts, values) is a new head and a new class of components; no model changes.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from latenttrack.models.components import AbstractComponents, Gaussian, StudentT, StudentTPair

# Labels are standardised: outside these log-scales a network has diverged, and exp() would overflow.
LOG_SCALE_RANGE = (-8.0, 8.0)


class AbstractHead(eqx.Module):
    """From raw network outputs to emission distributions."""

    size: eqx.AbstractClassVar[int]

    @abc.abstractmethod
    def __call__(self, raw: Float[Array, "K size"]) -> AbstractComponents:
        """K rows of raw outputs -> K distributions."""


class GaussianHead(AbstractHead):
    """Mean and log-variance."""

    size = 2

    def __call__(self, raw: Float[Array, "K size"]) -> Gaussian:
        """raw = [mean, log variance]."""
        return Gaussian(raw[:, 0], _scale(raw[:, 1]))


class StudentTHead(AbstractHead):
    """Mean and log squared scale; one learned number of degrees of freedom for all steps."""

    size = 2
    raw_df: Float[Array, ""]

    def __init__(self, df: float = 6.0):
        self.raw_df = jnp.log(jnp.expm1(jnp.float32(df - 2.0)))

    def __call__(self, raw: Float[Array, "K size"]) -> StudentT:
        """raw = [mean, log squared scale]; df = 2 + softplus(raw_df)."""
        df = 2.0 + jax.nn.softplus(self.raw_df)
        return StudentT(raw[:, 0], _scale(raw[:, 1]), jnp.full_like(raw[:, 0], df))


class StudentTPairHead(AbstractHead):
    """Two Student-t of equal weight for each draw: forecasts that lean to one side, or have two scales.

    The mixture over draws then has 2 K components. E_q log p of the ELBO becomes a bound on it, by Jensen.
    """

    size = 4
    single: StudentTHead

    def __init__(self, df: float = 6.0):
        self.single = StudentTHead(df)

    def __call__(self, raw: Float[Array, "K size"]) -> StudentTPair:
        """raw = [mean, log squared scale] of the first, and what the second has more of each."""
        both = self.single(jnp.concatenate([raw[:, :2], raw[:, :2] + raw[:, 2:]]))
        return StudentTPair(both.loc, both.scale, both.df, draws=raw.shape[0])


def _scale(log_square: Float[Array, " K"]) -> Float[Array, " K"]:
    return jnp.exp(jnp.clip(0.5 * log_square, *LOG_SCALE_RANGE))


HEADS: dict[str, Callable[[], AbstractHead]] = {
    "gaussian": GaussianHead,
    "student-t": StudentTHead,
    "student-t-pair": StudentTPairHead,
}
