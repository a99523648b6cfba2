"""Correction: what the inputs tell of a network's errors, learned online while its weights stay as they are.

A stream drifts, and the weights of a network are frozen: by how much it misses, and how surely, soon depends
on the hour, on the season, on what the informant says. With m_t and s_t the mean and the standard deviation
of its forecast, and phi_t = [1, x_t], x within 6, two things are learned from every label:

    r_t = (y_t - m_t) / s_t                      how far off the forecast was:   b_t = w_1 . phi_t
    q_t = (r'_t^2 / v - 1) / 2,  r' = r - a_1 b  how much too sure, as the logarithm of a width:
                                                 c_t = w_2 . phi_t

r and r' are each bounded by 3 where something is learned from them; v is the mean of r'^2 (below), and q one
step of Fisher scoring of the Gaussian likelihood in that logarithm. Least squares with directional forgetting
(`absorb` in models/references.py) fits both at once, as both have the same phi. The forecast is moved, and
stretched around its mean, by as much of that as has proved true:

    y' = m_t + a_1 s_t b_t + exp(a_2 c_t) (y - m_t),   y as the network has it,   |a_2 c_t| <= 1
    a_1 = sum r b / (D + sum b^2),   a_2 = sum q c / (D + sum c^2),   both within [0, 1]
    v = (100 D + sum r'^2) / (100 D + sum 1)

The sums are over the labels known at step t, with b and c as they were said before each, and forget with a
half-life of 500 D labels; D labels whose forecasts overlap are one piece of evidence. a is the regression of
what came on what was said, shrunk: where the inputs tell nothing it goes to 0, and the forecast stays as good
as it was. How wide forecasts should be on the whole is left to recalibration (models/recalibrated.py).
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from latenttrack.models.base import AbstractTracker, State, Terms, Window, keep_if
from latenttrack.models.predictive import Predictive
from latenttrack.models.references import absorb
from latenttrack.models.ring import Ring, empty_ring, oldest, push, step_key

_BOUND = 3.0  # standard deviations: one label far out says little of the next ones
_WIDEST = 6.0  # likewise of an input, which is of unit size
_PRIOR_SD = 0.03  # of each weight; inputs and r are of unit size, and most inputs tell nothing
_FORGETTING = 0.995
_HALF_LIFE = 500.0  # pieces of evidence
_USUAL = 100.0  # pieces of evidence that v is 1
_MOST_WIDTH = 1.0  # of its logarithm


class Evidence(NamedTuple):
    """What was learned of past errors."""

    weights: Float[Array, "2 P"]  # w_1 and w_2
    root: Float[Array, "P P"]  # of their covariance, which they share
    came: Float[Array, "2"]  # sum r b, sum q c
    said: Float[Array, "2"]  # sum b^2, sum c^2
    squares: Float[Array, "2"]  # sum 1, sum r'^2


class Said(NamedTuple):
    """Of one step, before its label: mean and standard deviation of the inner forecast, b and c."""

    mean: Float[Array, ""]
    sd: Float[Array, ""]
    errors: Float[Array, "2"]


class CorrectedState(NamedTuple):
    """The inner belief, what was learned of its errors, and what was said at the last D steps."""

    inner: State
    evidence: Evidence
    recent: Ring  # of `Said`
    steps: UInt32[Array, ""]  # so far: the ring is void before step D


class Corrected(AbstractTracker):
    """`inner` with its forecasts moved and stretched as its past errors ask for; training is `inner`'s."""

    inner: AbstractTracker
    size: int = eqx.field(static=True)  # number of input features F; P = F + 1
    delay: int = eqx.field(static=True)

    def init(self) -> CorrectedState:
        """Without labels the forecasts stay as they are."""
        like = Said(jnp.zeros(()), jnp.zeros(()), jnp.zeros(2))
        return CorrectedState(
            self.inner.init(), self._nothing(), empty_ring(like, self.delay), jnp.zeros((), jnp.uint32)
        )

    def update(self, state: CorrectedState, x: Float[Array, " F"], y: Float[Array, ""]) -> CorrectedState:
        """Learn how far off the inner forecast was, and how well that was said; then `inner` learns."""
        said = oldest(state.recent)
        r = (y - said.mean) / said.sd
        known = (state.steps >= self.delay) & jnp.isfinite(r)
        learned = self._learn(state, x, said.errors, jnp.where(known, r, 0.0))
        return state._replace(
            inner=self.inner.update(state.inner, x, y), evidence=keep_if(known, learned, state.evidence)
        )

    def advance(self, state: CorrectedState, x: Float[Array, " F"]) -> CorrectedState:
        """The inner tracker takes note of x; what is said of this step is kept until its label is due."""
        inner = self.inner.advance(state.inner, x)
        forecast = self.inner.predict(inner, x, step_key(state.steps))
        said = Said(forecast.mean, jnp.sqrt(forecast.variance), self.errors(state, x))
        return state._replace(inner=inner, recent=push(state.recent, said), steps=state.steps + 1)

    def predict(self, state: CorrectedState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The inner forecast, corrected. Compiled together with `advance`, it is computed once."""
        forecast = self.inner.predict(state.inner, x, key)
        far, wide = self.trust(state) * self.errors(state, x)
        stretch = jnp.exp(jnp.clip(wide, -_MOST_WIDTH, _MOST_WIDTH))
        move = (1.0 - stretch) * forecast.mean + jnp.sqrt(forecast.variance) * far
        return forecast.affine(move, stretch)

    def renew(self, state: CorrectedState) -> CorrectedState:
        """Nothing is known of the errors: on data that it was trained on, a network makes others.

        What was said of steps whose labels are still to come counts as nothing said.
        """
        ring = state.recent  # a row is mean, sd, b, c
        return state._replace(
            inner=self.inner.renew(state.inner),
            evidence=self._nothing(),
            recent=Ring(ring.rows.at[:, -2:].set(0.0), ring.structure, ring.shapes),
        )

    def window_terms(
        self, state: CorrectedState, window: Window, key: PRNGKeyArray
    ) -> tuple[Terms, CorrectedState]:
        """Those of `inner`; what was learned of its errors stays as it is, training has no use for it."""
        terms, inner = self.inner.window_terms(state.inner, window, key)
        return terms, state._replace(inner=inner)

    def errors(self, state: CorrectedState, x: Float[Array, " F"]) -> Float[Array, "2"]:
        """b and c of a step: how far off, and how much too sure, the inner forecast seems to be."""
        return state.evidence.weights @ _features(x)

    def trust(self, state: CorrectedState) -> Float[Array, "2"]:
        """a_1 and a_2: how much of what is said of the errors has proved true, from 0 to 1."""
        return jnp.clip(state.evidence.came / (self.delay + state.evidence.said), 0.0, 1.0)

    def _learn(
        self, state: CorrectedState, x: Float[Array, " F"], said: Float[Array, "2"], r: Float[Array, ""]
    ) -> Evidence:
        """One more label, `r` standard deviations off; `said` is what was said of it."""
        evidence = state.evidence
        bounded = jnp.clip(r, -_BOUND, _BOUND)
        rest = jnp.clip(r - self.trust(state)[0] * said[0], -_BOUND, _BOUND) ** 2
        count, total = evidence.squares + _USUAL * self.delay
        found = jnp.stack([bounded, 0.5 * (rest * count / total - 1.0)])
        phi = _features(x)
        gain, root = absorb(evidence.root, phi, forgetting=_FORGETTING, prior_sd=_PRIOR_SD)
        fading = 0.5 ** (1.0 / (_HALF_LIFE * self.delay))
        return Evidence(
            evidence.weights + jnp.outer(found - evidence.weights @ phi, gain),
            root,
            fading * evidence.came + found * said,
            fading * evidence.said + said**2,
            fading * evidence.squares + jnp.stack([jnp.ones(()), rest]),
        )

    def _nothing(self) -> Evidence:
        P, none = self.size + 1, jnp.zeros(2)
        return Evidence(jnp.zeros((2, P)), _PRIOR_SD * jnp.eye(P), none, none, none)


def _features(x: Float[Array, " F"]) -> Float[Array, " P"]:
    return jnp.concatenate([jnp.ones(1), jnp.clip(x, -_WIDEST, _WIDEST)])
