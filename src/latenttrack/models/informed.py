"""A tracker that is told what a reference thinks: its forecast, how sure it is, and how wrong it just was.

The reference learns online beside the inner tracker, on the same labels, and four numbers join x_t:

    m_t            its point forecast
    log s_t        logarithm of the standard deviation of its forecast
    u, |u| - 0.7   u = (y_s - m_s) / s_s for the label that is due at step t, bounded by 6; 0 if none is

Inside an `Anchored` tracker labels are residuals, so that m_t is how far the reference is from the anchor.

The inner tracker may be shown some of the inputs only, and then hears of the others what the reference makes
of them. A reference goes on learning: where what an input means has changed, it notices, and a network whose
weights are frozen does not.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.models.base import AbstractTracker, State, Terms, Window, observe
from latenttrack.models.predictive import Predictive
from latenttrack.models.references import AbstractReference

NAMES = ("reference_mean", "reference_log_sd", "reference_surprise", "reference_wildness")
_BOUND = 6.0


class InformedState(NamedTuple):
    """Both beliefs; what was told at the last D steps, oldest first; the surprise to be told next."""

    reference: State
    inner: State
    told: Float[Array, "D 4"]
    surprise: Float[Array, " 2"]


class Informed(AbstractTracker):
    """`inner` sees x, or the inputs of it that are `shown`, and what `reference` has to say."""

    reference: AbstractReference
    inner: AbstractTracker
    delay: int = eqx.field(static=True)
    shown: tuple[int, ...] | None = eqx.field(static=True, default=None)  # None: all

    def init(self) -> InformedState:
        """Both beliefs before any data."""
        return InformedState(
            self.reference.init(), self.inner.init(), jnp.zeros((self.delay, len(NAMES))), jnp.zeros(2)
        )

    def update(self, state: InformedState, x: Float[Array, " F"], y: Float[Array, ""]) -> InformedState:
        """The reference learns, the inner tracker learns with what it was told then, and u is noted."""
        then = state.told[0]
        return InformedState(
            self.reference.update(state.reference, x, y),
            self.inner.update(state.inner, self._show(x, then), y),
            state.told,
            _surprise(then, y),
        )

    def advance(self, state: InformedState, x: Float[Array, " F"]) -> InformedState:
        """The reference speaks of the new step."""
        reference = self.reference.advance(state.reference, x)
        told = self._say(reference, x, state.surprise)
        inner = self.inner.advance(state.inner, self._show(x, told))
        return InformedState(reference, inner, jnp.concatenate([state.told[1:], told[None]]), jnp.zeros(2))

    def predict(self, state: InformedState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The inner forecast."""
        return self.inner.predict(state.inner, self._show(x, state.told[-1]), key)

    def renew(self, state: InformedState) -> InformedState:
        """The inner tracker forgets how well it predicted the training data."""
        return state._replace(inner=self.inner.renew(state.inner))

    def inside(self, window: Window) -> Window:
        """A whole stream as the inner tracker sees it, from an empty belief: wider inputs."""
        return self._listen(self.init(), window)[0]

    def window_terms(
        self, state: InformedState, window: Window, key: PRNGKeyArray
    ) -> tuple[Terms, InformedState]:
        """The reference runs over the window first; what it says becomes part of x."""
        informed, (reference, ring) = self._listen(state, window)
        terms, inner = self.inner.window_terms(state.inner, informed, key)
        return terms, InformedState(reference, inner, ring, jnp.zeros(2))

    def _listen(self, state: InformedState, window: Window) -> tuple[Window, tuple[State, Array]]:
        """Run the reference over W steps: the wider window, the reference's belief, what it said last."""

        def body(carry: tuple[State, Array], row: Window) -> tuple[tuple[State, Array], tuple[Array, Array]]:
            reference, ring = carry
            then = ring[0]
            reference = observe(self.reference, reference, row.due, row.x)
            surprise = jnp.where(row.due_observed, _surprise(then, row.due_y), 0.0)
            told = self._say(reference, row.x, surprise)
            return (reference, jnp.concatenate([ring[1:], told[None]])), (told, then)

        carry, (told, then) = jax.lax.scan(body, (state.reference, state.told), window)
        informed = window._replace(x=self._show(window.x, told), due_x=self._show(window.due_x, then))
        return informed, carry

    def _show(self, x: Float[Array, "*W F"], told: Float[Array, "*W 4"]) -> Float[Array, "*W G"]:
        """What the inner tracker sees of a step, or of W steps."""
        x = x if self.shown is None else x[..., jnp.array(self.shown, int)]
        return jnp.concatenate([x, told], axis=-1)

    def _say(
        self, reference: State, x: Float[Array, " F"], surprise: Float[Array, " 2"]
    ) -> Float[Array, " 4"]:
        # A reference draws nothing at random: any key does.
        forecast = self.reference.predict(reference, x, jax.random.key(0))
        known = jnp.stack([forecast.mean, 0.5 * jnp.log(forecast.variance)])
        return jax.lax.stop_gradient(jnp.concatenate([jnp.clip(known, -_BOUND, _BOUND), surprise]))


def _surprise(told: Float[Array, " 4"], y: Float[Array, ""]) -> Float[Array, " 2"]:
    u = jnp.clip((y - told[0]) / jnp.exp(told[1]), -_BOUND, _BOUND)
    return jnp.stack([u, jnp.abs(u) - 0.7])
