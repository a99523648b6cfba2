"""Courses over time as plain arrays: bins of a day or a week, their means and extremes, decibels, clips.

A figure is some 1,200 pixels wide and a test part some 21,000 steps long: what is drawn is one value, or the
lowest and the highest, of each bin. Values that are not finite are left out; `not_finite` counts them.
"""

from typing import NamedTuple

import numpy as np

from latenttrack.evaluation.records import Records

_HOUR = 3_600_000_000_000  # nanoseconds
# Widths of bins that have a name, in nanoseconds.
_CLOCK = {
    "hourly": _HOUR,
    "six-hourly": 6 * _HOUR,
    "daily": 24 * _HOUR,
    "weekly": 168 * _HOUR,
    "four-weekly": 672 * _HOUR,
}


class Bins(NamedTuple):
    """Times cut into pieces of equal length."""

    time: np.ndarray  # [B] the middle of each bin, as drawn
    step: np.ndarray  # [N] the bin of each step
    name: str  # such as "weekly"


def make_bins(time: np.ndarray, points: int) -> Bins:
    """Cut times [N] into at most about `points` bins, of a length with a name.

    Args:
        time: datetime64, or step numbers.
        points: how many bins a figure has room for.
    """
    if time.dtype.kind == "M":
        ticks = time.astype("datetime64[ns]").astype(np.int64)
        span = int(ticks.max() - ticks.min())
        name, width = next(
            ((n, w) for n, w in _CLOCK.items() if span / w <= points), list(_CLOCK.items())[-1]
        )
        index = (ticks - ticks.min()) // width
        middle = ticks.min() + (2 * np.arange(index.max() + 1) + 1) * (width // 2)
        return Bins(middle.astype("datetime64[ns]"), index, name)
    start = float(time.min())
    steps = max(1.0, np.ceil((float(np.ptp(time)) + 1) / points))
    index = ((time - start) // steps).astype(np.int64)
    middle = start + (np.arange(index.max() + 1) + 0.5) * steps - 0.5
    return Bins(middle, index, f"{steps:g}-step")


def bin_means(values: np.ndarray, bins: Bins) -> np.ndarray:
    """Mean of the finite values [N] in each bin: [B], NaN where there is none."""
    fine = np.isfinite(values)
    total = np.bincount(bins.step[fine], values[fine].astype(float), len(bins.time))
    count = np.bincount(bins.step[fine], minlength=len(bins.time))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def bin_extremes(values: np.ndarray, bins: Bins) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest finite value [N] in each bin: [B] each, NaN where there is none."""
    fine = np.isfinite(values)
    low, high = np.full(len(bins.time), np.inf), np.full(len(bins.time), -np.inf)
    np.minimum.at(low, bins.step[fine], values[fine])
    np.maximum.at(high, bins.step[fine], values[fine])
    empty = low > high
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def decibel(values: np.ndarray) -> np.ndarray:
    """10 log10 of values in the label's unit squared; NaN for zero, which has no level."""
    positive = np.where(values > 0, values, np.nan)
    return np.asarray(10 * np.log10(positive))


def total_variance(records: Records) -> np.ndarray:
    """Aleatoric plus epistemic variance of the first seed, [N]."""
    return np.asarray(records.steps["aleatoric"][0].astype(float) + records.steps["epistemic"][0])


def not_finite(records: Records) -> int:
    """At how many labelled steps of the first seed the NLL is not finite."""
    return int((~np.isfinite(records.steps["nll"][0][~np.isnan(records.y)])).sum())


def label_range(y: np.ndarray) -> tuple[float, float]:
    """The range of labels [N] with a fifth of room on both sides: where means are clipped."""
    low, high = float(np.nanmin(y)), float(np.nanmax(y))
    room = 0.2 * (high - low) or 1.0
    return low - room, high + room


def typical_range(courses: list[np.ndarray], share: float = 0.98) -> tuple[float, float]:
    """A range of an axis that shows the inner part of every course [B] and cuts off spikes.

    Args:
        courses: what is drawn.
        share: of each course that must be visible, at least.
    """
    known = [course[np.isfinite(course)] for course in courses]
    known = [course for course in known if len(course)]
    if not known:
        return 0.0, 1.0
    low = min(float(np.quantile(course, (1 - share) / 2)) for course in known)
    high = max(float(np.quantile(course, (1 + share) / 2)) for course in known)
    room = 0.12 * (high - low) or 0.5
    return low - room, high + room


def window_around(rows: np.ndarray, scores: np.ndarray, key: np.ndarray, steps: int) -> np.ndarray:
    """The steps around an anomaly; if there are several far apart, around the one with the largest score.

    Args:
        rows: [M] anomalous rows, in order.
        scores: [N] how bad each row is.
        key: [N] streams; the window stays within one.
        steps: how many to show before and after.

    Returns:
        [W] rows.
    """
    groups = np.split(rows, np.flatnonzero(np.diff(rows) > steps) + 1)
    worst = max(groups, key=lambda group: float(np.nan_to_num(scores[group], nan=0.0, posinf=np.inf).max()))
    window = np.arange(max(0, worst[0] - steps), min(len(key), worst[-1] + steps + 1))
    return window[key[window] == key[worst[0]]]
