"""Networks that see different inputs as one tracker: their forecasts mixed, with weights that labels move.

    p(y_t) = sum_m w_m p_m(y_t)

A network that sees all columns knows more; one that sees the label and the clock alone has less to learn by
heart, and does not suffer when what a column means has changed. Which of them a stream asks for may change
on the way: the weights follow, by the rule of the safety net (models/averaged.py), from equal ones on.

As a pool, a panel stands innermost, in the place of one network; each of its members is trained by itself.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from latenttrack.models.averaged import SHARE, mix, reweigh
from latenttrack.models.base import AbstractTracker, State, Terms, Window
from latenttrack.models.pooled import each_by_itself
from latenttrack.models.predictive import Predictive
from latenttrack.models.ring import Ring, empty_ring, oldest, push, step_key


class PanelState(NamedTuple):
    """The members' beliefs, their log weights, and their forecasts of the last D steps."""

    members: tuple[State, ...]
    log_weights: Float[Array, " M"]
    recent: Ring  # of tuples with one forecast for each member
    steps: UInt32[Array, ""]  # so far: the ring is void before step D


class Panel(AbstractTracker):
    """M trackers, each of which sees some columns of x."""

    members: tuple[AbstractTracker, ...]
    columns: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # that each member sees
    size: int = eqx.field(static=True)  # number of input features F
    delay: int = eqx.field(static=True)
    power: float = eqx.field(static=True)  # eta

    def init(self) -> PanelState:
        """The members' beliefs before any data, and equal weights."""
        members = tuple(member.init() for member in self.members)
        like = jax.eval_shape(lambda: self._forecasts(members, jnp.zeros(self.size), jax.random.key(0)))
        return PanelState(
            members, self._equal_weights(), empty_ring(like, self.delay), jnp.zeros((), jnp.uint32)
        )

    def update(self, state: PanelState, x: Float[Array, " F"], y: Float[Array, ""]) -> PanelState:
        """Weigh the members by what they had forecast for this label, then let each learn from it."""
        forecasts = oldest(state.recent)
        moved = reweigh(state.log_weights, forecasts, y, power=self.power, share=SHARE)
        return state._replace(
            members=tuple(m.update(s, x_m, y) for m, s, x_m in self._each(state.members, x)),
            log_weights=jnp.where(state.steps >= self.delay, moved, state.log_weights),
        )

    def advance(self, state: PanelState, x: Float[Array, " F"]) -> PanelState:
        """Every member takes note of x; what they forecast is kept until the label is due."""
        members = tuple(m.advance(s, x_m) for m, s, x_m in self._each(state.members, x))
        forecasts = self._forecasts(members, x, step_key(state.steps))
        return PanelState(members, state.log_weights, push(state.recent, forecasts), state.steps + 1)

    def predict(self, state: PanelState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The weighted mixture of the members' mixtures."""
        return mix(state.log_weights, self._forecasts(state.members, x, key))

    def renew(self, state: PanelState) -> PanelState:
        """Back to equal weights: training data are known by heart, and best to whoever sees most of them."""
        return state._replace(log_weights=self._equal_weights())

    def window_terms(self, state: PanelState, window: Window, key: PRNGKeyArray) -> tuple[Terms, PanelState]:
        """As those of a pool (see `Pooled.window_terms`); training leaves the weights equal."""
        found = []
        keys = jax.random.split(key, len(self.members))
        for member, inner, columns, k in zip(self.members, state.members, self.columns, keys, strict=True):
            seen = window._replace(x=_select(window.x, columns), due_x=_select(window.due_x, columns))
            found.append(member.window_terms(inner, seen, k))
        terms = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(terms for terms, _ in found))
        return each_by_itself(terms), state._replace(members=tuple(after for _, after in found))

    def _equal_weights(self) -> Float[Array, " M"]:
        return jnp.full(len(self.members), -math.log(len(self.members)), jnp.float32)

    def _each(
        self, states: tuple[State, ...], x: Float[Array, " F"]
    ) -> list[tuple[AbstractTracker, State, Array]]:
        """The members, their beliefs, and what each sees of x."""
        parts = zip(self.members, states, self.columns, strict=True)
        return [(member, state, _select(x, columns)) for member, state, columns in parts]

    def _forecasts(
        self, states: tuple[State, ...], x: Float[Array, " F"], key: PRNGKeyArray
    ) -> tuple[Predictive, ...]:
        """The members' forecasts of one step."""
        keys = jax.random.split(key, len(self.members))
        each = zip(self._each(states, x), keys, strict=True)
        return tuple(member.predict(state, x_m, k) for (member, state, x_m), k in each)


def _select(x: Float[Array, "*W F"], columns: tuple[int, ...]) -> Float[Array, "*W G"]:
    return x[..., jnp.array(columns, int)]
