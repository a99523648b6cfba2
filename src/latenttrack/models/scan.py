"""One stream through a tracker: the scan over time that training and filtering share."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from latenttrack.models.base import AbstractTracker, State, Window, observe, step
from latenttrack.models.predictive import Predictive


def warm_up(tracker: AbstractTracker, state: State, window: Window) -> State:
    """Fold T steps into the belief without predicting them."""

    def body(state: State, row: Window) -> tuple[State, None]:
        return observe(tracker, state, row.due, row.x), None

    return jax.lax.scan(body, state, window)[0]


def filter_stream(
    tracker: AbstractTracker,
    head: Window,
    rest: Window,
    key: PRNGKeyArray,
    keep: Callable[[Predictive, State, Window], PyTree[Array]],
    *,
    trained: bool,
) -> tuple[PyTree[Array], State]:
    """One stream from its beginning: fold `head` into the belief, then predict every step of `rest`.

    Args:
        tracker: the model.
        head: steps that are not predicted.
        rest: T steps that are.
        key: step t of `rest` draws with fold t of it.
        keep: (forecast, belief that it was made from, step) -> what is kept of each step.
        trained: whether the weights were trained on `head`: how well it was predicted is then forgotten.

    Returns:
        What was kept, leaves [T, ...], and the belief after the last step.
    """

    def body(state: State, inputs: tuple[Window, Array]) -> tuple[State, PyTree[Array]]:
        row, t = inputs
        forecast, state = step(tracker, state, row.due, row.x, jax.random.fold_in(key, t))
        return state, keep(forecast, state, row)

    state = warm_up(tracker, tracker.init(), head)
    state = tracker.renew(state) if trained else state
    state, kept = jax.lax.scan(body, state, (rest, jnp.arange(rest.y.shape[0])))
    return kept, state
