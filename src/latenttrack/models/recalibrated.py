"""Recalibration: the causal last stage that learns how far a tracker's probabilities are off.

The PIT of a label, u = F(y) under the forecast made for its step, is uniform if the forecasts are right. A
histogram of past PITs says by how much they are not. With B bins, every label that comes due moves the counts

    c' = 2^(-1 / half_life) c + (1 in the bin of u)

and with `prior` pseudo-counts spread evenly, bin i holds the share

    g_i = (c_i + prior / B) / (sum_j c_j + prior)

of the labels. The forecast becomes F'(y) = H(F(y)), H linear within each bin and rising by g_i in bin i.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt32

from latenttrack.models.base import AbstractTracker, State, Terms, Window
from latenttrack.models.ladder import running_sum
from latenttrack.models.predictive import Predictive
from latenttrack.models.ring import Ring, empty_ring, oldest, push, step_key
from latenttrack.models.warped import Warped, find_bin, require_mixture


class RecalibratedState(NamedTuple):
    """The inner belief, the histogram, and the inner forecasts of the last D steps."""

    inner: State
    counts: Float[Array, " B"]
    recent: Ring
    steps: UInt32[Array, ""]  # so far: the ring is void before step D


class Recalibrated(AbstractTracker):
    """`inner` with its probabilities corrected by the histogram of its past PITs; training is `inner`'s."""

    inner: AbstractTracker
    size: int = eqx.field(static=True)  # number of input features F
    delay: int = eqx.field(static=True)
    bins: int = eqx.field(static=True, default=20)
    half_life: float = eqx.field(static=True, default=1000.0)  # in labels
    prior: float = eqx.field(static=True, default=1000.0)  # pseudo-counts
    start: tuple[float, ...] | None = eqx.field(static=True, default=None)  # counts; None: nothing counted

    def init(self) -> RecalibratedState:
        """Without first counts the forecasts stay as they are."""
        inner, x = self.inner.init(), jnp.zeros(self.size)
        like = jax.eval_shape(lambda: self.inner.predict(inner, x, jax.random.key(0)))
        return RecalibratedState(
            inner, self._first_counts(), empty_ring(like, self.delay), jnp.zeros((), jnp.uint32)
        )

    def update(
        self, state: RecalibratedState, x: Float[Array, " F"], y: Float[Array, ""]
    ) -> RecalibratedState:
        """Count the label's PIT, then let the inner tracker learn from it."""
        pit = oldest(state.recent).cdf(y)
        counts = self.count(state.counts, pit)
        known = (state.steps >= self.delay) & jnp.isfinite(pit)
        return RecalibratedState(
            self.inner.update(state.inner, x, y),
            jnp.where(known, counts, state.counts),
            state.recent,
            state.steps,
        )

    def advance(self, state: RecalibratedState, x: Float[Array, " F"]) -> RecalibratedState:
        """The inner tracker takes note of x; what it forecasts is kept until the label is due."""
        inner = self.inner.advance(state.inner, x)
        forecast = self.inner.predict(inner, x, step_key(state.steps))
        return RecalibratedState(inner, state.counts, push(state.recent, forecast), state.steps + 1)

    def predict(self, state: RecalibratedState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The inner forecast, warped. Compiled together with `advance`, it is computed once."""
        return Warped.of(require_mixture(self.inner.predict(state.inner, x, key)), self.knots(state.counts))

    def renew(self, state: RecalibratedState) -> RecalibratedState:
        """Back to the first counts."""
        return state._replace(inner=self.inner.renew(state.inner), counts=self._first_counts())

    def window_terms(
        self, state: RecalibratedState, window: Window, key: PRNGKeyArray
    ) -> tuple[Terms, RecalibratedState]:
        """Those of `inner`; the histogram stays as it is, training has no use for it."""
        terms, inner = self.inner.window_terms(state.inner, window, key)
        return terms, state._replace(inner=inner)

    def _first_counts(self) -> Float[Array, " B"]:
        return jnp.zeros(self.bins) if self.start is None else jnp.asarray(self.start, jnp.float32)

    def count(self, counts: Float[Array, " B"], pit: Float[Array, ""]) -> Float[Array, " B"]:
        """c' = 2^(-1 / half_life) c + (1 in the bin of the PIT)."""
        place = jax.nn.one_hot(find_bin(pit, self.bins), self.bins)
        return 0.5 ** (1.0 / self.half_life) * counts + place

    def knots(self, counts: Float[Array, " B"]) -> Float[Array, " edges"]:
        """H at 0, 1 / B, ..., 1: the running sums of the bins' shares."""
        climb = running_sum(counts + self.prior / self.bins)
        # The end is exactly 1, and not a rounding of it: in the far tail the moments weigh what is missing.
        return jnp.concatenate([jnp.zeros(1), climb[:-1] / climb[-1], jnp.ones(1)])

    def replay(
        self, pits: Float[Array, " T"], observed: Bool[Array, " T"]
    ) -> tuple[Float[Array, " T"], Float[Array, " B"]]:
        """What recalibration would have added to the log density at each of T steps, and the counts at last.

        Args:
            pits: of the inner forecasts; void where unobserved.
            observed: which steps have a label.
        """

        def body(ring: tuple[Array, Array, Array], row: tuple[Array, Array]) -> tuple[Any, Array]:
            counts, waiting, known = ring
            counts = jnp.where(known[0], self.count(counts, waiting[0]), counts)
            pit, seen = row
            height = self.bins * jnp.diff(self.knots(counts))[find_bin(pit, self.bins)]
            return (counts, jnp.append(waiting[1:], pit), jnp.append(known[1:], seen)), jnp.log(height)

        start = (self._first_counts(), jnp.zeros(self.delay), jnp.zeros(self.delay, bool))
        (counts, _, _), gains = jax.lax.scan(body, start, (pits, observed))
        return gains, counts
