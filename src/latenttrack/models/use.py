"""Trackers inside trackers: as they are used, and what is trained of them."""

import dataclasses
import math
from typing import Any

import equinox as eqx

from latenttrack.models.anchored import Anchored
from latenttrack.models.averaged import Averaged
from latenttrack.models.base import AbstractTracker, Window
from latenttrack.models.informed import Informed
from latenttrack.models.recalibrated import Recalibrated


def in_use(tracker: AbstractTracker) -> AbstractTracker:
    """Dropout off, and `draws` in place of `train_draws` where a tracker has them."""
    if isinstance(tracker, Averaged):
        return eqx.tree_at(lambda t: t.main, tracker, in_use(tracker.main))
    if isinstance(tracker, Anchored | Informed | Recalibrated):
        return eqx.tree_at(lambda t: t.inner, tracker, in_use(tracker.inner))
    tracker = eqx.nn.inference_mode(tracker)
    if "train_draws" not in {field.name for field in dataclasses.fields(tracker)}:
        return tracker
    return eqx.tree_at(lambda t: t.train_draws, tracker, tracker.draws)  # type: ignore[attr-defined]


def innermost(tracker: Any) -> Any:
    """The tracker that is trained: without safety net, recalibration, anchor and informant.

    Works for everything of a tracker's shape, such as the tree of its parameters.
    """
    if isinstance(tracker, Averaged):
        return innermost(tracker.main)
    if isinstance(tracker, Anchored | Informed | Recalibrated):
        return innermost(tracker.inner)
    return tracker


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
    if isinstance(tracker, Recalibrated):
        return seen_inside(tracker.inner, window)
    if isinstance(tracker, Anchored | Informed):
        return seen_inside(tracker.inner, tracker.inside(window))
    return window


def log_unit(tracker: AbstractTracker) -> float:
    """The log of the innermost tracker's unit: an NLL in its labels plus this is one in labels."""
    if isinstance(tracker, Averaged):
        return log_unit(tracker.main)
    if isinstance(tracker, Anchored):
        return math.log(tracker.scale) + log_unit(tracker.inner)
    if isinstance(tracker, Informed | Recalibrated):
        return log_unit(tracker.inner)
    return 0.0
