"""Recalibration: the causal last stage that learns how far a tracker's probabilities are off.

The PIT of a label, u = F(y) under the forecast made for its step, is uniform if the forecasts are right. What
is wrong with them is mostly that they are too narrow or too wide, and that is one number, known soon. With
z = Phi^-1(u) it is the root s of its mean square, and the PIT that is put right is

    v = Q(u) = Phi(z / s),    s^2 = (100 D + sum z^2) / (100 D + sum 1),    s >= 0.7

where both sums forget with a half-life of 600 D labels: D labels whose forecasts overlap are one piece of
evidence. What else is wrong a histogram of past v says. With B bins, every label that comes due moves the
counts

    c' = 2^(-1 / half_life) c + (1 in the bin of v)

and with `prior` pseudo-counts spread evenly, bin i holds the share

    g_i = (c_i + prior / B) / (sum_j c_j + prior)

of the labels. The forecast becomes F'(y) = H(F(y)), where H(i / B) = G(Q(i / B)) and H is linear in between;
G is linear within each bin and rises by g_i in bin i.

To stretch the forecast itself by s, and not its probabilities, would be exact for smooth ones. But where
labels are rounded or often 0, a good forecast has narrow peaks, and they would be moved off their place.
"""

import functools
from statistics import NormalDist
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt32

from latenttrack.models.base import AbstractTracker, State, Terms, Window, keep_if
from latenttrack.models.ladder import running_sum
from latenttrack.models.predictive import Predictive
from latenttrack.models.ring import Ring, empty_ring, oldest, push, step_key
from latenttrack.models.warped import Warped, find_bin, piecewise, require_mixture

_SPREAD_PRIOR = 100.0  # pieces of evidence that forecasts are as wide as they should be
_SPREAD_HALF_LIFE = 600.0  # likewise
_NARROWEST = 0.7  # s: what was too wide for long may be right again tomorrow
_RAREST = 1e-4  # probability: a label beyond counts as one there


class Tally(NamedTuple):
    """What was learned of past PITs."""

    counts: Float[Array, " B"]  # c, the histogram
    spread: Float[Array, "2"]  # sum 1, sum z^2


class RecalibratedState(NamedTuple):
    """The inner belief, what was learned of past PITs, and the inner forecasts of the last D steps."""

    inner: State
    tally: Tally
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
    start_spread: tuple[float, ...] | None = eqx.field(static=True, default=None)  # the same for spread

    def init(self) -> RecalibratedState:
        """Without first counts the forecasts stay as they are."""
        inner, x = self.inner.init(), jnp.zeros(self.size)
        like = jax.eval_shape(lambda: self.inner.predict(inner, x, jax.random.key(0)))
        return RecalibratedState(
            inner, self.first_tally(), empty_ring(like, self.delay), jnp.zeros((), jnp.uint32)
        )

    def update(
        self, state: RecalibratedState, x: Float[Array, " F"], y: Float[Array, ""]
    ) -> RecalibratedState:
        """Count the label's PIT, then let the inner tracker learn from it."""
        pit = oldest(state.recent).cdf(y)
        known = (state.steps >= self.delay) & jnp.isfinite(pit)
        return RecalibratedState(
            self.inner.update(state.inner, x, y),
            keep_if(known, self.count(state.tally, pit), state.tally),
            state.recent,
            state.steps,
        )

    def advance(self, state: RecalibratedState, x: Float[Array, " F"]) -> RecalibratedState:
        """The inner tracker takes note of x; what it forecasts is kept until the label is due."""
        inner = self.inner.advance(state.inner, x)
        forecast = self.inner.predict(inner, x, step_key(state.steps))
        return RecalibratedState(inner, state.tally, push(state.recent, forecast), state.steps + 1)

    def predict(self, state: RecalibratedState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The inner forecast, warped. Compiled together with `advance`, it is computed once."""
        return Warped.of(require_mixture(self.inner.predict(state.inner, x, key)), self.knots(state.tally))

    def renew(self, state: RecalibratedState) -> RecalibratedState:
        """Back to the first counts."""
        return state._replace(inner=self.inner.renew(state.inner), tally=self.first_tally())

    def window_terms(
        self, state: RecalibratedState, window: Window, key: PRNGKeyArray
    ) -> tuple[Terms, RecalibratedState]:
        """Those of `inner`; the histogram stays as it is, training has no use for it."""
        terms, inner = self.inner.window_terms(state.inner, window, key)
        return terms, state._replace(inner=inner)

    def first_tally(self) -> Tally:
        """Before any label."""
        return Tally(
            jnp.zeros(self.bins) if self.start is None else jnp.asarray(self.start, jnp.float32),
            jnp.zeros(2) if self.start_spread is None else jnp.asarray(self.start_spread, jnp.float32),
        )

    def count(self, tally: Tally, pit: Float[Array, ""]) -> Tally:
        """One more label."""
        z = ndtri(jnp.clip(pit, _RAREST, 1.0 - _RAREST))
        place = jax.nn.one_hot(find_bin(ndtr(z / self.width(tally)), self.bins), self.bins)
        return Tally(
            0.5 ** (1.0 / self.half_life) * tally.counts + place,
            0.5 ** (1.0 / (_SPREAD_HALF_LIFE * self.delay)) * tally.spread + jnp.stack([1.0, z**2]),
        )

    def width(self, tally: Tally) -> Float[Array, ""]:
        """s: how much wider forecasts should be."""
        labels, squares = tally.spread + _SPREAD_PRIOR * self.delay
        return jnp.maximum(jnp.sqrt(squares / labels), _NARROWEST)

    def knots(self, tally: Tally) -> Float[Array, " edges"]:
        """H at 0, 1 / B, ..., 1."""
        climb = running_sum(tally.counts + self.prior / self.bins)
        # The end is exactly 1, and not a rounding of it: in the far tail the moments weigh what is missing.
        G = jnp.concatenate([jnp.zeros(1), climb[:-1] / climb[-1], jnp.ones(1)])
        inner = piecewise(ndtr(_edges(self.bins) / self.width(tally)), G)
        return jnp.concatenate([jnp.zeros(1), inner, jnp.ones(1)])

    def replay(
        self, pits: Float[Array, " T"], observed: Bool[Array, " T"]
    ) -> tuple[Float[Array, " T"], Tally]:
        """What recalibration would have added to the log density at each of T steps, and the tally at last.

        Args:
            pits: of the inner forecasts; void where unobserved.
            observed: which steps have a label.
        """

        def body(carry: tuple[Tally, Array, Array], row: tuple[Array, Array]) -> tuple[Any, Array]:
            tally, waiting, known = carry
            tally = keep_if(known[0], self.count(tally, waiting[0]), tally)
            pit, seen = row
            height = self.bins * jnp.diff(self.knots(tally))[find_bin(pit, self.bins)]
            return (tally, jnp.append(waiting[1:], pit), jnp.append(known[1:], seen)), jnp.log(height)

        start = (self.first_tally(), jnp.zeros(self.delay), jnp.zeros(self.delay, bool))
        (tally, _, _), gains = jax.lax.scan(body, start, (pits, observed))
        return gains, tally


@functools.cache
def _edges(bins: int) -> Float[np.ndarray, " inner"]:
    """Phi^-1(i / B) between the bins: constants of what is compiled."""
    return np.array([NormalDist().inv_cdf(i / bins) for i in range(1, bins)], np.float32)
