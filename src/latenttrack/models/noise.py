"""Residual distributions that the references learn online, in constant time."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from latenttrack.models.base import State
from latenttrack.models.components import Gaussian, StudentT
from latenttrack.models.predictive import Predictive

_SMALLEST_VARIANCE = 1e-10


class AbstractNoise(eqx.Module):
    """What is known of the residuals so far, and the forecast it gives around a location."""

    @abc.abstractmethod
    def init(self) -> State:
        """Before any residual: unit variance, as labels are standardised."""

    @abc.abstractmethod
    def update(self, state: State, residual: Float[Array, ""]) -> State:
        """Learn from one residual."""

    @abc.abstractmethod
    def around(self, state: State, loc: Float[Array, ""]) -> Predictive:
        """The forecast `loc` + residual."""


class GaussianNoise(AbstractNoise):
    """N(0, v) with v the exponentially weighted mean of squared residuals: v' = v + rate (r^2 - v)."""

    rate: float = eqx.field(static=True, default=0.02)

    def init(self) -> Float[Array, ""]:
        """v = 1."""
        return jnp.ones(())

    def update(self, state: Float[Array, ""], residual: Float[Array, ""]) -> Float[Array, ""]:
        """One step of the exponentially weighted mean."""
        return state + self.rate * (residual**2 - state)

    def around(self, state: Float[Array, ""], loc: Float[Array, ""]) -> Predictive:
        """N(loc, v)."""
        return Predictive.equal(Gaussian(loc[None], jnp.sqrt(state + _SMALLEST_VARIANCE)[None]))


class StudentTState(NamedTuple):
    """Running variance and the discounted log-likelihood of each candidate, [G]."""

    variance: Float[Array, ""]
    score: Float[Array, " G"]


class StudentTNoise(AbstractNoise):
    """Student-t residuals whose degrees of freedom and scale are learned online.

    Candidates are t distributions on a small grid of (degrees of freedom, scale relative to the running
    standard deviation); each is weighted by its discounted likelihood so far. The forecast is their mixture.
    """

    rate: float = eqx.field(static=True, default=0.02)
    memory: float = eqx.field(static=True, default=0.999)
    df: tuple[float, ...] = eqx.field(static=True, default=(3.0, 4.0, 6.0, 10.0, 30.0))
    ratio: tuple[float, ...] = eqx.field(static=True, default=(0.7, 0.85, 1.0, 1.2, 1.45))

    def init(self) -> StudentTState:
        """Unit variance, all candidates alike."""
        return StudentTState(jnp.ones(()), jnp.zeros(len(self.df) * len(self.ratio)))

    def update(self, state: StudentTState, residual: Float[Array, ""]) -> StudentTState:
        """score' = memory * score + log t(r); the variance as in `GaussianNoise`."""
        score = self.memory * state.score + self._candidates(state, jnp.zeros(())).log_prob(residual)
        return StudentTState(state.variance + self.rate * (residual**2 - state.variance), score)

    def around(self, state: StudentTState, loc: Float[Array, ""]) -> Predictive:
        """The candidates around `loc`, weighted by softmax(score)."""
        return Predictive(self._candidates(state, loc), jax.nn.log_softmax(state.score))

    def _candidates(self, state: StudentTState, loc: Float[Array, ""]) -> StudentT:
        df, ratio = (grid.ravel() for grid in np.meshgrid(self.df, self.ratio))
        unit = jnp.asarray(ratio * np.sqrt((df - 2.0) / df), jnp.float32)  # sd = ratio * running sd
        scale = unit * jnp.sqrt(state.variance + _SMALLEST_VARIANCE)
        return StudentT(jnp.full_like(scale, loc), scale, jnp.asarray(df, jnp.float32))
