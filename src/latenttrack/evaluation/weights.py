"""How much each member of a safety net counted while a stream was filtered."""

import functools
from typing import Any

import numpy as np
from jaxtyping import Array

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.offline import trace_series
from latenttrack.fitted.model import Model
from latenttrack.models.averaged import Averaged
from latenttrack.models.base import AbstractTracker, State
from latenttrack.models.recalibrated import Recalibrated
from latenttrack.models.transformed import Transformed


def mean_weights(model: Model, series: Series, *, past: Series | None = None) -> dict[str, float]:
    """The mean weight of every member over the rows of a series, for the model's first seed.

    Args:
        model: fitted with a `safety_net`.
        series: prepared as for `evaluate`.
        past: the rows before it.
    """
    tracker = model.stack[0]
    net, _ = _find(tracker, tracker.init())
    trained = past is not None and model.trained_on(past)
    look = functools.partial(_weights, tracker)
    weights = trace_series(tracker, series, look, past=past, trained=trained)
    return dict(zip(net.names, np.mean(weights, axis=0).astype(float).tolist(), strict=True))


def _weights(tracker: AbstractTracker, state: State) -> Array:
    net, inner = _find(tracker, state)
    return net.weights(inner)


def _find(tracker: Any, state: Any) -> tuple[Averaged, State]:
    """The safety net inside a tracker, and its part of the state."""
    if isinstance(tracker, Averaged):
        return tracker, state
    if isinstance(tracker, Recalibrated):
        return _find(tracker.inner, state.inner)
    if isinstance(tracker, Transformed):
        return _find(tracker.inner, state)
    raise LatentTrackError("the model has no safety net: fit it with one")
