"""Whether rows are what a pipeline was fitted on."""

import math

import numpy as np

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError


def check_row(row: np.ndarray, inputs: tuple[str, ...], label: float) -> np.ndarray:
    """[F] a row as floats, with neither it nor its label infinite."""
    x = np.asarray(row, np.float64)
    if x.shape != (len(inputs),):
        raise LatentTrackError(
            f"the row has shape {x.shape} and the pipeline takes shape ({len(inputs)},): "
            f"give one value for each of {', '.join(inputs)}."
        )
    if np.isinf(x).any():
        culprit = inputs[int(np.flatnonzero(np.isinf(x))[0])]
        raise LatentTrackError(f"column {culprit!r} of the row is infinite: give NaN if it is missing.")
    if math.isinf(label):
        raise LatentTrackError(f"the label is {label}: give NaN if it is missing.")
    return x


def check_time(time: np.datetime64 | float, clock: bool) -> None:
    """Refuse a step number where a time is wanted, and the other way round."""
    if isinstance(time, np.datetime64) != clock or np.isnan(time):
        wants = "numpy.datetime64" if clock else "the number of the step"
        raise LatentTrackError(f"time is {time!r}: this pipeline was fitted on a stream that wants {wants}.")


def check_series(series: Series, inputs: tuple[str, ...], clock: bool) -> None:
    """Refuse a series with other columns, or another kind of time."""
    if series.names != inputs:
        missing = [n for n in inputs if n not in series.names]
        extra = [n for n in series.names if n not in inputs]
        raise LatentTrackError(
            f"the series has other columns than the pipeline was fitted on (missing {missing}, "
            f"unexpected {extra}): give {', '.join(inputs)} in this order."
        )
    if series.has_clock != clock:
        given = "dates and times" if series.has_clock else "step numbers"
        raise LatentTrackError(f"the series has {given} as time, unlike the one the pipeline was fitted on.")
