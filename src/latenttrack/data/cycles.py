"""Which calendar cycles a stream is long enough for, and dense enough."""

from collections.abc import Mapping

import numpy as np

from latenttrack.data.intervals import find_interval
from latenttrack.data.matching import unknown_name
from latenttrack.data.series import Series
from latenttrack.data.stages import CYCLES
from latenttrack.errors import LatentTrackError

_OFTEN = 0.01  # of the steps
# Harmonics by default, each only where the training part spans its cycle twice.
_USUAL = {"day": 2, "week": 1, "year": 1, "season": 2}


def usual_cycles(train: Series) -> dict[str, int]:
    """The calendar cycles that are longer than two steps and fit twice into the training part: lengths."""
    span, step = _span(train)
    return {n: c for n, c in _known_cycles(train).items() if 2 * step < c and 2 * c <= span}


def usual_step(train: Series) -> float:
    """The median step of a stream, in nanoseconds with a clock, else in steps; 0 if no key has two rows."""
    return _span(train)[1]


def grid_step(series: Series) -> int | None:
    """The step of the grid on which all rows of all streams lie, in nanoseconds; None if there is none."""
    interval = find_interval(series.time, series.key)
    return None if interval is None or interval.off else int(interval.usual / np.timedelta64(1, "ns"))


def is_irregular(series: Series) -> bool:
    """Whether it has a clock, and so many rows off the grid that the time between them says something."""
    interval = find_interval(series.time, series.key)
    return interval is not None and interval.off > _OFTEN


def chosen_cycles(calendar: Mapping[str, int] | None, train: Series) -> tuple[tuple[str, int, int], ...]:
    """The cycles of a `Calendar` stage: (name, length, harmonics) of those asked for, or of the usual ones.

    Args:
        calendar: number of harmonics by the cycle's name; None for the usual ones.
        train: the training part.
    """
    known = _known_cycles(train)
    if calendar is None:
        return tuple((n, c, _USUAL[n]) for n, c in usual_cycles(train).items())
    for name, harmonics in calendar.items():
        if name not in known:
            raise unknown_name("calendar cycle", name, known)
        if harmonics < 1:
            raise LatentTrackError(f"calendar asks for {harmonics} harmonics of {name!r}: give at least 1.")
    return tuple((name, known[name], int(harmonics)) for name, harmonics in calendar.items())


def _known_cycles(train: Series) -> dict[str, int]:
    return CYCLES if train.has_clock else {"season": train.period} if train.period else {}


def _span(train: Series) -> tuple[float, float]:
    """Length of the training part and its usual step, in nanoseconds with a clock, else in steps."""
    time = train.time.astype(np.int64) if train.has_clock else train.time
    steps = np.diff(time)[np.diff(train.key) == 0]
    return float(time.max() - time.min()), float(np.median(steps)) if len(steps) else 0.0
