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
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.models.base import AbstractTracker, State, Terms, Window, keep_if
from latenttrack.models.predictive import Predictive
from latenttrack.models.references import AbstractReference


class AnchoredState(NamedTuple):
    """Beliefs of the reference and of the inner tracker; the anchors of the last D steps, oldest first."""

    reference: State
    inner: State
    anchors: Float[Array, " D"]


class Anchored(AbstractTracker):
    """`inner` tracks the residuals of `reference`, divided by `scale`."""

    reference: AbstractReference
    inner: AbstractTracker
    scale: float = eqx.field(static=True)
    delay: int = eqx.field(static=True)

    def init(self) -> AnchoredState:
        """Both beliefs before any data."""
        return AnchoredState(self.reference.init(), self.inner.init(), jnp.zeros(self.delay))

    def update(self, state: AnchoredState, x: Float[Array, " F"], y: Float[Array, ""]) -> AnchoredState:
        """The reference learns from y, the inner tracker from the residual of that step."""
        residual = (y - state.anchors[0]) / self.scale
        return AnchoredState(
            self.reference.update(state.reference, x, y),
            self.inner.update(state.inner, x, residual),
            state.anchors,
        )

    def advance(self, state: AnchoredState, x: Float[Array, " F"]) -> AnchoredState:
        """The new step's anchor joins the ring."""
        reference = self.reference.advance(state.reference, x)
        anchor = self.reference.locate(reference, x)
        return AnchoredState(
            reference, self.inner.advance(state.inner, x), jnp.append(state.anchors[1:], anchor)
        )

    def predict(self, state: AnchoredState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The inner forecast, moved to the anchor and scaled."""
        return self.inner.predict(state.inner, x, key).affine(state.anchors[-1], jnp.asarray(self.scale))

    def window_terms(
        self, state: AnchoredState, window: Window, key: PRNGKeyArray
    ) -> tuple[Terms, AnchoredState]:
        """The reference runs over the window first; its residuals are the inner tracker's labels."""

        def body(carry: tuple[State, Array], row: Window) -> tuple[tuple[State, Array], tuple[Array, Array]]:
            reference, anchors = carry
            due = anchors[0]
            updated = self.reference.update(reference, row.due_x, row.due_y)
            reference = self.reference.advance(keep_if(row.due_observed, updated, reference), row.x)
            anchor = self.reference.locate(reference, row.x)
            return (reference, jnp.append(anchors[1:], anchor)), (anchor, due)

        (reference, anchors), (anchor, due) = jax.lax.scan(body, (state.reference, state.anchors), window)
        residual = window._replace(
            y=(window.y - anchor) / self.scale, due_y=(window.due_y - due) / self.scale
        )
        terms, inner = self.inner.window_terms(state.inner, residual, key)
        # Densities are per unit of y: a residual unit is `scale` of them.
        terms = terms._replace(
            log_likelihood=terms.log_likelihood - math.log(self.scale),
            log_predictive=terms.log_predictive - math.log(self.scale),
        )
        return terms, AnchoredState(reference, inner, anchors)
