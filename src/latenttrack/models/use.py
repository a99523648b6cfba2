"""A tracker as it is used: then the terms of a window equal the filter's scores."""

import dataclasses

import equinox as eqx

from latenttrack.models.anchored import Anchored
from latenttrack.models.base import AbstractTracker


def in_use(tracker: AbstractTracker) -> AbstractTracker:
    """Dropout off, and `draws` in place of `train_draws` where a tracker has them."""
    if isinstance(tracker, Anchored):
        return eqx.tree_at(lambda t: t.inner, tracker, in_use(tracker.inner))
    tracker = eqx.nn.inference_mode(tracker)
    if "train_draws" not in {field.name for field in dataclasses.fields(tracker)}:
        return tracker
    return eqx.tree_at(lambda t: t.train_draws, tracker, tracker.draws)  # type: ignore[attr-defined]
