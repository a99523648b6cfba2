"""A tracker that predicts what a reference misses: y_t = anchor_t + scale * (inner tracker's label).

The anchor is the point forecast of a reference (the last label, the season, least squares), made online from
the same belief order. The network then works on residuals of unit size, in which even a small improvement is
visible to it.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from latenttrack.models.base import AbstractTracker, State, Terms, Window, keep_if, observe
from latenttrack.models.predictive import Predictive
from latenttrack.models.references import AbstractReference


class AnchoredState(NamedTuple):
    """Beliefs of the reference and of the inner tracker; the anchors of the last D steps, oldest first.

    An anchor is NaN where the reference had not seen a label yet (`started` False): it then forecasts the
    training mean, 0, and what is missing from that is no residual.
    """

    reference: State
    inner: State
    anchors: Float[Array, " D"]
    started: Bool[Array, ""]


_Anchors = tuple[State, Array, Array]  # of that state: reference, anchors, started


class Anchored(AbstractTracker):
    """`inner` tracks the residuals of `reference`, divided by `scale`.

    Only labels of steps that had an anchor reach `inner`. Where a stream begins, or a piece that training
    cuts out of it, the first D labels teach the reference alone.
    """

    reference: AbstractReference
    inner: AbstractTracker
    scale: float = eqx.field(static=True)
    delay: int = eqx.field(static=True)

    def init(self) -> AnchoredState:
        """Both beliefs before any data."""
        nothing = jnp.full(self.delay, jnp.nan, jnp.float32)
        return AnchoredState(self.reference.init(), self.inner.init(), nothing, jnp.array(False))

    def update(self, state: AnchoredState, x: Float[Array, " F"], y: Float[Array, ""]) -> AnchoredState:
        """The reference learns from y, the inner tracker from the residual of that step."""
        anchor = state.anchors[0]
        residual = (y - jnp.nan_to_num(anchor)) / self.scale
        return AnchoredState(
            self.reference.update(state.reference, x, y),
            keep_if(~jnp.isnan(anchor), self.inner.update(state.inner, x, residual), state.inner),
            state.anchors,
            jnp.array(True),
        )

    def advance(self, state: AnchoredState, x: Float[Array, " F"]) -> AnchoredState:
        """The new step's anchor joins the ring."""
        reference = self.reference.advance(state.reference, x)
        anchor = jnp.where(state.started, self.reference.locate(reference, x), jnp.nan)
        return AnchoredState(
            reference,
            self.inner.advance(state.inner, x),
            jnp.append(state.anchors[1:], anchor),
            state.started,
        )

    def predict(self, state: AnchoredState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The inner forecast, moved to the anchor and scaled."""
        anchor = jnp.nan_to_num(state.anchors[-1])
        return self.inner.predict(state.inner, x, key).affine(anchor, jnp.asarray(self.scale))

    def renew(self, state: AnchoredState) -> AnchoredState:
        """The inner tracker forgets how well it predicted the training data."""
        return state._replace(inner=self.inner.renew(state.inner))

    def inside(self, window: Window) -> Window:
        """A whole stream as the inner tracker sees it, from an empty belief: residuals for labels."""
        return self._listen(self.init(), window)[0]

    def window_terms(
        self, state: AnchoredState, window: Window, key: PRNGKeyArray
    ) -> tuple[Terms, AnchoredState]:
        """The reference runs over the window first; its residuals are the inner tracker's labels."""
        residual, (reference, anchors, started) = self._listen(state, window)
        terms, inner = self.inner.window_terms(state.inner, residual, key)
        # Densities are per unit of y: a residual unit is `scale` of them.
        terms = terms._replace(
            log_likelihood=terms.log_likelihood - math.log(self.scale),
            log_predictive=terms.log_predictive - math.log(self.scale),
        )
        return terms, AnchoredState(reference, inner, anchors, started)

    def _listen(self, state: AnchoredState, window: Window) -> tuple[Window, _Anchors]:
        """Run the reference over W steps: the window of residuals, and the reference's part of the state."""

        def body(carry: _Anchors, row: Window) -> tuple[_Anchors, tuple[Array, Array]]:
            reference, anchors, started = carry
            due = anchors[0]
            reference = observe(self.reference, reference, row.due, row.x)
            started = started | row.due_observed
            anchor = jnp.where(started, self.reference.locate(reference, row.x), jnp.nan)
            return (reference, jnp.append(anchors[1:], anchor), started), (anchor, due)

        carry = (state.reference, state.anchors, state.started)
        carry, (anchor, due) = jax.lax.scan(body, carry, window)
        residual = window._replace(
            y=(window.y - jnp.nan_to_num(anchor)) / self.scale,
            due_y=(window.due_y - jnp.nan_to_num(due)) / self.scale,
            due_observed=window.due_observed & ~jnp.isnan(due),
        )
        return residual, carry
