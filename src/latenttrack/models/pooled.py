"""Several networks of one kind as one tracker: their forecasts mixed with equal weights.

    p(y_t) = 1/S sum_s p_s(y_t)

Networks trained from different starts are wrong in different places, so that their mixture is usually better
than any one of them. They differ in their weights alone, and each keeps a belief of its own. A pool stands
innermost, in the place of one network: correction, anchor, informant, safety net and recalibration are there
once, around all of them.
"""

import math
import operator
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.models.base import AbstractTracker, State, Terms, Window
from latenttrack.models.predictive import Predictive


class Pooled(AbstractTracker):
    """S trackers of one architecture. Its state is theirs, leaves [S, ...]."""

    members: AbstractTracker  # one tracker whose arrays, constants as well, have a leading axis of length S
    count: int = eqx.field(static=True)

    @classmethod
    def of(cls, trackers: Sequence[AbstractTracker]) -> "Pooled":
        """The pool of some trackers that differ in their arrays alone."""
        arrays = [eqx.filter(tracker, eqx.is_array) for tracker in trackers]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
        return cls(eqx.combine(stacked, trackers[0]), len(trackers))

    def each(self) -> list[AbstractTracker]:
        """The S trackers one by one."""
        arrays, rest = eqx.partition(self.members, eqx.is_array)
        return [eqx.combine(jax.tree.map(operator.itemgetter(i), arrays), rest) for i in range(self.count)]

    def init(self) -> State:
        """Every member's belief before any data."""
        return eqx.filter_vmap(lambda member: member.init())(self.members)

    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """Every member learns from the pair."""
        return eqx.filter_vmap(lambda member, s: member.update(s, x, y))(self.members, state)

    def advance(self, state: State, x: Float[Array, " F"]) -> State:
        """Every member takes note of x."""
        return eqx.filter_vmap(lambda member, s: member.advance(s, x))(self.members, state)

    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The members' components, K of each, in one list of S K."""
        keys = jax.random.split(key, self.count)
        forecasts = eqx.filter_vmap(lambda member, s, k: member.predict(s, x, k))(self.members, state, keys)
        joined = jax.tree.map(lambda leaf: leaf.reshape(-1), forecasts)
        return Predictive(joined.components, joined.log_weights - math.log(self.count))

    def renew(self, state: State) -> State:
        """Every member forgets how well it predicted the training data."""
        return eqx.filter_vmap(lambda member, s: member.renew(s))(self.members, state)

    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """The means over the members; but `log_predictive` has the value of the pool's own score.

        Its gradient is that of the mean, so that every member is trained by itself: members that are trained
        on the score of their mixture leave hard steps to each other.
        """
        keys = jax.random.split(key, self.count)
        terms, states = eqx.filter_vmap(lambda member, s, k: member.window_terms(s, window, k))(
            self.members, state, keys
        )
        return each_by_itself(terms), states


def each_by_itself(terms: Terms) -> Terms:
    """The terms of S networks [S, W] as those of their mixture [W]: see `Pooled.window_terms`."""
    means = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), terms)
    score = logsumexp(terms.log_predictive, axis=0) - math.log(len(terms.log_predictive))
    value = means.log_predictive + jax.lax.stop_gradient(score - means.log_predictive)
    return means._replace(log_predictive=value)
