"""References in the same contract: what a user would try first. Untrained, they learn label by label."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from latenttrack.models.base import AbstractTracker, State, Terms, Window, observe
from latenttrack.models.noise import AbstractNoise
from latenttrack.models.predictive import Predictive

_LEAST_DOUBT = 1e-6  # variance of w.phi, in units of the noise's, that is divided by
_LONGEST = 0.9999  # forgetting of what is not heard of: a memory of 10,000 labels


class AbstractReference(AbstractTracker):
    """A tracker without parameters: its terms are simply its scores as a filter."""

    noise: eqx.AbstractVar[AbstractNoise]

    @abc.abstractmethod
    def locate(self, state: State, x: Float[Array, " F"]) -> Float[Array, ""]:
        """The point forecast."""

    @abc.abstractmethod
    def noise_state(self, state: State) -> State:
        """The part of the state that belongs to `noise`."""

    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The point forecast with the residual distribution learned so far around it."""
        del key
        return self.noise.around(self.noise_state(state), self.locate(state, x))

    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """Scores of the filter itself, step by step."""

        def body(state: State, row: Window) -> tuple[State, Array]:
            state = observe(self, state, row.due, row.x)
            return state, self.predict(state, row.x, key).log_prob(row.y)

        state, scores = jax.lax.scan(body, state, window)
        return Terms(scores, jnp.zeros_like(scores), scores), state


def point_errors(reference: AbstractReference, window: Window) -> Float[Array, "B T"]:
    """y - point forecast at every step of B streams from an empty belief; void where unobserved."""

    def one(stream: Window) -> Array:
        def body(state: State, row: Window) -> tuple[State, Array]:
            state = observe(reference, state, row.due, row.x)
            return state, row.y - reference.locate(state, row.x)

        return jax.lax.scan(body, reference.init(), stream)[1]

    return jax.vmap(one)(window)


def _file(labels: Float[Array, " L"], y: Float[Array, ""], back: int) -> Float[Array, " L"]:
    """The ring with the label of `back` steps ago; a choice compiles better than writing into an array."""
    return jnp.where(np.arange(len(labels)) == len(labels) - back, y, labels)


def _begin_step(labels: Float[Array, " L"]) -> Float[Array, " L"]:
    """The ring at the next step, whose label is not known."""
    return jnp.concatenate([labels[1:], jnp.full(1, jnp.nan, labels.dtype)])


class RepeatState(NamedTuple):
    """A ring of labels by step (NaN where not known), newest last; the last known label; the noise."""

    labels: Float[Array, " L"]
    last: Float[Array, ""]
    noise: State


class Repeat(AbstractReference):
    """Repeats the label of `lag` steps ago: `lag = delay` is the last label, a season is seasonal-naive.

    Where that label never came, the last known one stands in.
    """

    noise: AbstractNoise
    lag: int = eqx.field(static=True)
    delay: int = eqx.field(static=True)

    def init(self) -> RepeatState:
        """No labels; 0 is the training mean."""
        return RepeatState(
            jnp.full(self.delay + self.lag, jnp.nan, jnp.float32), jnp.zeros(()), self.noise.init()
        )

    def update(self, state: RepeatState, x: Float[Array, " F"], y: Float[Array, ""]) -> RepeatState:
        """File the label under its step, `delay` steps ago, and learn by how much repeating missed it."""
        del x
        repeated = state.labels[-self.delay - self.lag]
        residual = y - jnp.where(jnp.isnan(repeated), state.last, repeated)
        labels = _file(state.labels, y, self.delay)
        return RepeatState(labels, y, self.noise.update(state.noise, residual))

    def advance(self, state: RepeatState, x: Float[Array, " F"]) -> RepeatState:
        """A new step begins; its label is not known."""
        del x
        return state._replace(labels=_begin_step(state.labels))

    def locate(self, state: RepeatState, x: Float[Array, " F"]) -> Float[Array, ""]:
        """The label of `lag` steps before this one."""
        del x
        repeated = state.labels[-1 - self.lag]
        return jnp.where(jnp.isnan(repeated), state.last, repeated)

    def noise_state(self, state: RepeatState) -> State:
        """The residuals of repeating."""
        return state.noise


class SeasonalDifferenceState(NamedTuple):
    """Labels by step, the last known one and how old it is, the last D point forecasts, the noise.

    `labels` is a ring, newest last, NaN where not known; so are `points`, oldest first.
    """

    labels: Float[Array, " L"]
    last: Float[Array, ""]
    age: Int[Array, ""]  # steps since the step of `last`
    points: Float[Array, " D"]
    noise: State


class SeasonalDifference(AbstractReference):
    """The last label, and the change that the same hours of the last season saw, damped.

        m_t = y_s + weight (y_{t-P} - y_{s-P}),   s the newest step whose label is known

    With every label there, t - s is the delay. P is `lag`: whole seasons, so many that y_{t-P} is known.
    Where one of the two labels a season ago never came, the change counts as 0: the last label is repeated.
    """

    noise: AbstractNoise
    lag: int = eqx.field(static=True)
    delay: int = eqx.field(static=True)
    weight: float | Float[Array, ""] = 0.6  # a leaf, so that several can be tried at once

    def init(self) -> SeasonalDifferenceState:
        """No labels; 0 is the training mean."""
        # If y_{t-P} is known then s >= t - P, so that s - P lies at most 2 P back.
        nothing = jnp.full(2 * self.lag + 1, jnp.nan, jnp.float32)
        age = jnp.zeros((), jnp.int32)
        return SeasonalDifferenceState(nothing, jnp.zeros(()), age, jnp.zeros(self.delay), self.noise.init())

    def update(
        self, state: SeasonalDifferenceState, x: Float[Array, " F"], y: Float[Array, ""]
    ) -> SeasonalDifferenceState:
        """File the label under its step, `delay` before the one to come, and learn how it was missed."""
        del x
        return SeasonalDifferenceState(
            _file(state.labels, y, self.delay),
            y,
            jnp.full_like(state.age, self.delay - 1),
            state.points,
            self.noise.update(state.noise, y - state.points[0]),
        )

    def advance(self, state: SeasonalDifferenceState, x: Float[Array, " F"]) -> SeasonalDifferenceState:
        """A new step begins; its label is not known, its point forecast is."""
        del x
        labels = _begin_step(state.labels)
        age = state.age + 1
        change = labels[self.lag] - labels[jnp.maximum(self.lag - age, 0)]
        point = state.last + self.weight * jnp.where(jnp.isnan(change), 0.0, change)
        return SeasonalDifferenceState(
            labels, state.last, age, jnp.append(state.points[1:], point), state.noise
        )

    def locate(self, state: SeasonalDifferenceState, x: Float[Array, " F"]) -> Float[Array, ""]:
        """m_t, as `advance` found it."""
        del x
        return state.points[-1]

    def noise_state(self, state: SeasonalDifferenceState) -> State:
        """The residuals of the point forecasts."""
        return state.noise


def absorb(
    root: Float[Array, "P P"],
    phi: Float[Array, " P"],
    *,
    forgetting: float | Float[Array, ""],
    prior_sd: float,
) -> tuple[Float[Array, " P"], Float[Array, "P P"]]:
    """What a label y of w.phi does: the gain in w' = w + gain (y - w.phi), and S' (see `RLS`)."""
    f = root.T @ phi
    r = f @ f
    gain = root @ f
    s = jnp.sqrt(forgetting * (1.0 + r))
    c = (forgetting - (1.0 - forgetting) / jnp.maximum(r, _LEAST_DOUBT)) / (s * (1.0 + s))
    root = root - c * jnp.outer(gain, f)
    doubt = jnp.where(jnp.sum(root**2, axis=1) < prior_sd**2, jnp.maximum(forgetting, _LONGEST) ** -0.5, 1.0)
    return gain / (1.0 + r), doubt[:, None] * root


class RLSState(NamedTuple):
    """Weights [F+1], a square root of their covariance [F+1, F+1], and the noise."""

    weights: Float[Array, " P"]
    root: Float[Array, "P P"]
    noise: State


class RLS(AbstractReference):
    """Recursive least squares on [1, x] that forgets soon what it hears of anew, in square-root form.

        f = S^T phi;   r = f.f;   w' = w + S f (y - w.phi) / (1 + r)
        S' = D (S - c S f f^T),   c = (lambda - (1 - lambda) / r) / (s (1 + s)),   s = sqrt(lambda (1 + r))

    with S S^T the weights' covariance, in units of the noise. Of w.phi a label tells as much as one
    measurement, and only what was known of w.phi is discounted: 1/r' = lambda (1/r + 1). This is directional
    forgetting (Kulhavy and Karny 1984). Where everything is discounted at every step, the weight of an input
    that is silent for long becomes as good as unknown, and its next move throws the forecast far off; here it
    is kept, so that memories may be short.

    By itself it would be ever surer of the weights, as a label discounts one direction and the constant in
    phi takes most of that: the older the stream, the slower it would follow. So a little of everything is
    forgotten as well: D multiplies the rows of S by mu^-1/2, mu = max(lambda, 0.9999), except those of
    weights that are no surer than they were at first.
    """

    noise: AbstractNoise
    columns: tuple[int, ...] = eqx.field(static=True)
    forgetting: float | Float[Array, ""] = 0.98  # a leaf, so that several can be tried at once
    prior_sd: float = eqx.field(static=True, default=1.0)

    def init(self) -> RLSState:
        """w = 0, S = prior_sd I."""
        size = len(self.columns) + 1
        return RLSState(jnp.zeros(size), self.prior_sd * jnp.eye(size), self.noise.init())

    def update(self, state: RLSState, x: Float[Array, " F"], y: Float[Array, ""]) -> RLSState:
        """One step of the recursion in the class docstring."""
        phi = self._features(x)
        residual = y - state.weights @ phi
        gain, root = absorb(state.root, phi, forgetting=self.forgetting, prior_sd=self.prior_sd)
        return RLSState(state.weights + gain * residual, root, self.noise.update(state.noise, residual))

    def locate(self, state: RLSState, x: Float[Array, " F"]) -> Float[Array, ""]:
        """w . [1, x]."""
        return state.weights @ self._features(x)

    def noise_state(self, state: RLSState) -> State:
        """The residuals of the regression."""
        return state.noise

    def _features(self, x: Float[Array, " F"]) -> Float[Array, " P"]:
        return jnp.concatenate([jnp.ones(1), x[jnp.asarray(self.columns, int)]])
