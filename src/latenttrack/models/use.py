"""Trackers inside trackers: as they are used, and what is trained of them."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from latenttrack.models.anchored import Anchored
from latenttrack.models.averaged import Averaged
from latenttrack.models.base import AbstractTracker, Window, partition
from latenttrack.models.corrected import Corrected
from latenttrack.models.informed import Informed
from latenttrack.models.panel import Panel
from latenttrack.models.pooled import Pooled
from latenttrack.models.recalibrated import Recalibrated
from latenttrack.models.stack import Stack
from latenttrack.models.transformed import Transformed


def in_use(tracker: AbstractTracker) -> AbstractTracker:
    """Dropout off, and `draws` in place of `train_draws` where a tracker has them."""
    if isinstance(tracker, Averaged):
        return eqx.tree_at(lambda t: t.main, tracker, in_use(tracker.main))
    if isinstance(tracker, Anchored | Corrected | Informed | Recalibrated | Transformed):
        return eqx.tree_at(lambda t: t.inner, tracker, in_use(tracker.inner))
    if isinstance(tracker, Pooled):  # its members are one tracker with stacked arrays
        return eqx.tree_at(lambda t: t.members, tracker, in_use(tracker.members))
    if isinstance(tracker, Panel):
        return eqx.tree_at(lambda t: t.members, tracker, tuple(map(in_use, tracker.members)))
    tracker = eqx.nn.inference_mode(tracker)
    if "train_draws" not in {field.name for field in dataclasses.fields(tracker)}:
        return tracker
    return eqx.tree_at(lambda t: t.train_draws, tracker, tracker.draws)  # type: ignore[attr-defined]


def innermost(tracker: Any) -> Any:
    """The tracker that is trained: without what stands around it, from transform to correction.

    A pool or a panel of networks is trained as a whole. Works for everything of a tracker's shape, such as
    the tree of its parameters.
    """
    if isinstance(tracker, Averaged):
        return innermost(tracker.main)
    if isinstance(tracker, Anchored | Corrected | Informed | Recalibrated | Transformed):
        return innermost(tracker.inner)
    return tracker


def pool_stack(stack: Stack, size: int) -> Stack:
    """Mix the networks of each `size` consecutive seeds into one pool; wrappers stand around it once.

    Args:
        stack: S seeds, S a multiple of `size`; those that are pools already are joined into larger ones.
        size: seeds in a pool.
    """
    pools = []
    for first in range(0, len(stack), size):
        seeds = [stack[i] for i in range(first, first + size)]
        networks = [net for seed in seeds for net in _networks(innermost(seed))]
        # Outside the networks all seeds are alike.
        pools.append(partition(eqx.tree_at(innermost, seeds[0], Pooled.of(networks))))
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(params for params, _ in pools))
    return Stack(params, pools[0][1], len(pools))


def _networks(tracker: AbstractTracker) -> list[AbstractTracker]:
    """The tracker itself, or the members of a pool."""
    return tracker.each() if isinstance(tracker, Pooled) else [tracker]


def seen_inside(tracker: AbstractTracker, window: Window) -> Window:
    """A whole stream as the innermost tracker sees it.

    References have no weights, so that what they say of a stream can be said once, before training, from the
    stream's beginning on. In a short piece of the stream they would have to start anew.

    Args:
        tracker: possibly wrapped.
        window: [T, ...] from the beginning of the stream.
    """
    if isinstance(tracker, Averaged):
        return seen_inside(tracker.main, window)
    if isinstance(tracker, Corrected | Recalibrated):
        return seen_inside(tracker.inner, window)
    if isinstance(tracker, Anchored | Informed | Transformed):
        return seen_inside(tracker.inner, tracker.inside(window))
    return window


def log_unit(tracker: AbstractTracker, window: Window) -> Float[Array, " T"]:
    """The log of the innermost tracker's unit at each step: an NLL in its labels plus this is one in labels.

    A transform's unit depends on the label. It stands outside all other wrappers, so that the labels it sees
    are those of the stream.

    Args:
        tracker: possibly wrapped.
        window: [T, ...] of the stream.
    """
    if isinstance(tracker, Transformed):
        return log_unit(tracker.inner, window) - tracker.curve.log_slope(window.y)
    if isinstance(tracker, Averaged):
        return log_unit(tracker.main, window)
    if isinstance(tracker, Anchored):
        return math.log(tracker.scale) + log_unit(tracker.inner, window)
    if isinstance(tracker, Corrected | Informed | Recalibrated):
        return log_unit(tracker.inner, window)
    return jnp.zeros_like(window.y)
