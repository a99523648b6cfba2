"""A safety net: the online Bayesian average of a tracker with cheap references.

Every member m forecasts every step, p_m(y). The forecast of the average is their mixture,

    p(y_t) = sum_m w_m p_m(y_t)

and each label that comes due moves the weights by its likelihood under the forecasts that were made for its
step, tempered by a power 0 < eta <= 1, then lends a little to everyone ("fixed share", Herbster and Warmuth
1998):

    w'_m = (1 - share) w_m p_m(y)^eta / Z + share / M,    Z = sum_j w_j p_j(y)^eta

eta = 1 is Bayes' rule. Less is wiser here (Grünwald's "safe Bayes"), for two reasons. Forecasts for
overlapping horizons share their errors, so that with label delay D, D labels are about one piece of evidence.
And of models that are all wrong a mixture is usually better than the best one, with which Bayes' rule would
soon be left.

What it costs, without delay: x^eta is concave, so that Z <= p(y)^eta, and the mixture's loss -log p(y) is at
most -log(Z) / eta. As w'_m >= (1 - share) w_m p_m(y)^eta / Z for every m, the Z of N labels multiply to

    prod Z >= (1 - share)^N prod p_m(y)^eta / M

From equal weights, N labels later, the average is in all at most (log(M) - N log(1 - share)) / eta nats
behind its best member: share = .001 costs at worst .001 / eta nats a step. Should another member become the
better one, its weight has to grow from share / M, not from nothing: log(M / share) / eta nats, once for each
change.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from latenttrack.models.base import AbstractTracker, State, Terms, Window
from latenttrack.models.components import join
from latenttrack.models.predictive import Predictive
from latenttrack.models.references import AbstractReference
from latenttrack.models.ring import Ring, empty_ring, oldest, push, step_key
from latenttrack.models.warped import require_mixture

SAFETY_NET = ("rls-t", "seasonal-naive", "last-label")  # what stands beside a network unless told otherwise
SHARE = 0.001
POWER = 0.3  # eta for labels that are known at once; with label delay D it is POWER / D
_IMPOSSIBLE = -1e30  # log-likelihood of a member that did not give one; finite, as infinities would give NaN


class AveragedState(NamedTuple):
    """The members' beliefs, their log weights, and their forecasts of the last D steps."""

    main: State
    references: tuple[State, ...]
    log_weights: Float[Array, " M"]
    recent: Ring  # of tuples with one forecast for each member
    steps: UInt32[Array, ""]  # so far: the ring is void before step D


class Averaged(AbstractTracker):
    """`main` and some references, mixed with tempered, fixed-share weights.

    Training is `main`'s own: the references have nothing to learn from gradients.
    """

    main: AbstractTracker
    references: tuple[AbstractReference, ...]
    names: tuple[str, ...] = eqx.field(static=True)  # of the members, `main` first
    size: int = eqx.field(static=True)  # number of input features F
    delay: int = eqx.field(static=True)
    share: float = eqx.field(static=True, default=SHARE)
    power: float = eqx.field(static=True, default=1.0)  # eta
    start: tuple[float, ...] | None = eqx.field(static=True, default=None)  # weights; None: equal ones

    def init(self) -> AveragedState:
        """The members' beliefs before any data, and the first weights."""
        main, references = self.main.init(), tuple(r.init() for r in self.references)
        x = jnp.zeros(self.size)
        like = jax.eval_shape(lambda: self._forecasts(main, references, x, jax.random.key(0)))
        return AveragedState(
            main,
            references,
            self._first_weights(),
            empty_ring(like, self.delay),
            jnp.zeros((), jnp.uint32),
        )

    def update(self, state: AveragedState, x: Float[Array, " F"], y: Float[Array, ""]) -> AveragedState:
        """Weigh the members by what they had forecast for this label, then let each learn from it."""
        moved = reweigh(state.log_weights, oldest(state.recent), y, power=self.power, share=self.share)
        return AveragedState(
            self.main.update(state.main, x, y),
            tuple(r.update(s, x, y) for r, s in zip(self.references, state.references, strict=True)),
            jnp.where(state.steps >= self.delay, moved, state.log_weights),
            state.recent,
            state.steps,
        )

    def advance(self, state: AveragedState, x: Float[Array, " F"]) -> AveragedState:
        """Every member takes note of x; what they forecast is kept until the label is due."""
        main = self.main.advance(state.main, x)
        references = tuple(r.advance(s, x) for r, s in zip(self.references, state.references, strict=True))
        forecasts = self._forecasts(main, references, x, step_key(state.steps))
        return AveragedState(
            main, references, state.log_weights, push(state.recent, forecasts), state.steps + 1
        )

    def predict(self, state: AveragedState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The weighted mixture of the members' mixtures.

        Compiled together with `advance`, the forecasts are computed once.
        """
        return mix(state.log_weights, self._forecasts(state.main, state.references, x, key))

    def renew(self, state: AveragedState) -> AveragedState:
        """Back to the first weights."""
        return state._replace(main=self.main.renew(state.main), log_weights=self._first_weights())

    def window_terms(
        self, state: AveragedState, window: Window, key: PRNGKeyArray
    ) -> tuple[Terms, AveragedState]:
        """Those of `main`; weights and references stay as they are, training has no use for them."""
        terms, main = self.main.window_terms(state.main, window, key)
        return terms, state._replace(main=main)

    def weights(self, state: AveragedState) -> Float[Array, " M"]:
        """How much each member counts now, in the order of `names`; they sum to one."""
        return jnp.exp(state.log_weights - logsumexp(state.log_weights))

    def _first_weights(self) -> Float[Array, " M"]:
        start = jnp.ones(len(self.names)) if self.start is None else jnp.asarray(self.start, jnp.float32)
        # What is lent to everyone keeps a weight of 0 from staying there.
        return jnp.log(_lend(start / jnp.sum(start), self.share))

    def _forecasts(
        self, main: State, references: tuple[State, ...], x: Float[Array, " F"], key: PRNGKeyArray
    ) -> tuple[Predictive, ...]:
        """The members' forecasts of one step."""
        others = zip(self.references, references, strict=True)
        first = require_mixture(self.main.predict(main, x, key))
        return (first, *(r.predict(s, x, key) for r, s in others))


def reweigh(
    log_weights: Float[Array, " M"],
    forecasts: tuple[Predictive, ...],
    y: Float[Array, ""],
    *,
    power: float,
    share: float,
) -> Float[Array, " M"]:
    """The log weights of M members after a label, by what each had forecast for it.

    A label of which no member gave a likelihood says nothing about them: the weights stay.
    """
    scores = _log_probs(forecasts, y)
    given = jnp.isfinite(scores)
    scores = jnp.where(given, scores, _IMPOSSIBLE)
    moved = jnp.log(_lend(jax.nn.softmax(log_weights + power * scores), share))
    return jnp.where(jnp.any(given), moved, log_weights)


def mix(log_weights: Float[Array, " M"], forecasts: tuple[Predictive, ...]) -> Predictive:
    """The weighted mixture of M mixtures, exactly: all their components in one list."""
    parts = zip(log_weights, forecasts, strict=True)
    weights = jnp.concatenate([weight + forecast.log_weights for weight, forecast in parts])
    return Predictive(join([forecast.components for forecast in forecasts]), weights)


def _lend(weights: Float[Array, " M"], share: float) -> Float[Array, " M"]:
    return (1.0 - share) * weights + share / weights.shape[0]


def _log_probs(forecasts: tuple[Predictive, ...], y: Float[Array, ""]) -> Float[Array, " M"]:
    """log p_m(y) of M mixtures: a row of log densities for each, filled up with those of nothing.

    In one go this is a few operations, where one after another it is a few for each.
    """
    rows = [forecast.log_weights + forecast.components.log_prob(y) for forecast in forecasts]
    K = max(row.shape[0] for row in rows)
    filled = [jnp.pad(row, (0, K - row.shape[0]), constant_values=-jnp.inf) for row in rows]
    return logsumexp(jnp.stack(filled), axis=1)
