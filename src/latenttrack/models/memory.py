"""What a recurrent model remembers of the stream, and when it hears of it.

    Paired   the paper's: a pair (x_s, y_s) enters when its label is due;  e = Enc([x_s, y_s])
    Prompt   x_t enters at once, and beside it the label that is due:      e = Enc([x_t, y_{t-D}, ...])

With delayed labels a paired memory is D steps behind in everything; a prompt one in labels only.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from latenttrack.models.base import AbstractTracker, State, Window
from latenttrack.models.summarisers import AbstractSummariser

Encoder = Callable[[Array], Float[Array, " E"]]


class AbstractMemory(eqx.Module):
    """A summary of the past with the contract's two entrances."""

    encoder: eqx.AbstractVar[Encoder]
    summariser: eqx.AbstractVar[AbstractSummariser[Any]]

    @abc.abstractmethod
    def init(self) -> State:
        """The memory of nothing."""

    @abc.abstractmethod
    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """The label of an earlier step is due."""

    @abc.abstractmethod
    def advance(self, state: State, x: Float[Array, " F"]) -> State:
        """This step's x is known."""

    @abc.abstractmethod
    def read(self, state: State) -> Float[Array, " H"]:
        """The vector h that the rest of the model sees."""

    @abc.abstractmethod
    def unroll(self, state: State, window: Window) -> State:
        """The W states from which the steps of a window are predicted, stacked."""

    @abc.abstractmethod
    def fold(self, states: State, window: Window) -> State:
        """The same W states, each with its own step's pair folded in: what the posterior sees."""


class AbstractRemembering(AbstractTracker):
    """A tracker whose belief is its memory."""

    memory: eqx.AbstractVar[AbstractMemory]

    def init(self) -> State:
        """The memory of nothing, h_0."""
        return self.memory.init()

    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """The memory hears of the label: h_t = S(h_{t-1}, Enc([x_t, y_t])), or when x comes."""
        return self.memory.update(state, x, y)

    def advance(self, state: State, x: Float[Array, " F"]) -> State:
        """The memory hears of x_t, if it is one that does."""
        return self.memory.advance(state, x)


class Paired(AbstractMemory):
    """h_t = S(h_{t-1}, Enc([x_t, y_t])): nothing is remembered of a step before its label is known."""

    encoder: Encoder
    summariser: AbstractSummariser[Any]
    delay: int = eqx.field(static=True)

    def init(self) -> State:
        """h_0."""
        return self.summariser.init()

    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """One step of the summariser."""
        return self.summariser(state, self._encode(x, y))

    def advance(self, state: State, x: Float[Array, " F"]) -> State:
        """Nothing changes."""
        del x
        return state

    def read(self, state: State) -> Float[Array, " H"]:
        """The summariser's h."""
        return self.summariser.read(state)

    def unroll(self, state: State, window: Window) -> State:
        """The recurrence over the pairs that are due; a step without one leaves the state as it is."""
        e = jax.vmap(self._encode)(window.due_x, window.due_y)
        return self.summariser.unroll(state, e, window.due_observed)

    def fold(self, states: State, window: Window) -> State:
        """With delay, one more step from each state; without, that is the state of the next step."""
        if self.delay > 1:
            return jax.vmap(self.update)(states, window.x, window.y)
        last = self.update(jax.tree.map(lambda leaf: leaf[-1], states), window.x[-1], window.y[-1])
        return jax.tree.map(lambda leaf, end: jnp.concatenate([leaf[1:], end[None]]), states, last)

    def _encode(self, x: Float[Array, " F"], y: Float[Array, ""]) -> Float[Array, " E"]:
        return self.encoder(jnp.append(x, y))


class PromptState(NamedTuple):
    """The summary, and the label that became due since the last step (0 and False if none did)."""

    summary: State
    label: Float[Array, ""]
    known: Float[Array, ""]


class Prompt(AbstractMemory):
    """h_t = S(h_{t-1}, Enc([x_t, c y, c (|y| - 0.7), c])), y the label due at step t, c = 1 if there is one.

    |y| - 0.7, about centred for a standardised label, lets one layer see how wild the stream is.
    """

    encoder: Encoder
    summariser: AbstractSummariser[Any]

    def init(self) -> PromptState:
        """h_0, and no label."""
        return PromptState(self.summariser.init(), jnp.zeros(()), jnp.zeros(()))

    def update(self, state: PromptState, x: Float[Array, " F"], y: Float[Array, ""]) -> PromptState:
        """The label waits for the next x."""
        del x
        return PromptState(state.summary, y, jnp.ones(()))

    def advance(self, state: PromptState, x: Float[Array, " F"]) -> PromptState:
        """One step of the summariser, with the label that waits."""
        summary = self.summariser(state.summary, self._encode(x, state.label, state.known))
        return PromptState(summary, jnp.zeros(()), jnp.zeros(()))

    def read(self, state: PromptState) -> Float[Array, " H"]:
        """The summariser's h."""
        return self.summariser.read(state.summary)

    def unroll(self, state: PromptState, window: Window) -> PromptState:
        """The recurrence over every step of the window."""
        known = window.due_observed.astype(jnp.float32)
        e = jax.vmap(self._encode)(window.x, window.due_y, known)
        always = jnp.ones_like(window.due_observed)
        nothing = jnp.zeros_like(known)
        return PromptState(self.summariser.unroll(state.summary, e, always), nothing, nothing)

    def fold(self, states: PromptState, window: Window) -> PromptState:
        """One more step of the summariser, with the step's own label in the place of a due one."""
        known = jnp.ones_like(window.y)
        e = jax.vmap(self._encode)(window.x, window.y, known)
        return states._replace(summary=jax.vmap(self.summariser)(states.summary, e))

    def _encode(self, x: Float[Array, " F"], y: Float[Array, ""], known: Float[Array, ""]) -> Array:
        y = jnp.where(known > 0, y, 0.0)
        return self.encoder(jnp.concatenate([x, jnp.stack([y, known * (jnp.abs(y) - 0.7), known])]))


def extra_inputs(prompt: bool) -> int:
    """How many numbers the encoder takes beside x."""
    return 3 if prompt else 1
