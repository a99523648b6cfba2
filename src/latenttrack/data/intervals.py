"""How far rows lie apart."""

from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """The most common step between neighbouring rows of one key.

    Attributes:
        usual: the step.
        share: of all steps that are this long.
        off: share of those that are no multiple of it: rows off the grid.
    """

    usual: np.timedelta64
    share: float
    off: float


def find_interval(time: np.ndarray, key: np.ndarray) -> Interval | None:
    """The interval of rows ordered by key and time; None without a clock, or without two rows of one key.

    Args:
        time: [N] datetime64, or step numbers.
        key: [N].
    """
    steps = np.diff(time)[np.diff(key) == 0]
    if time.dtype.kind != "M" or len(steps) == 0:
        return None
    values, counts = np.unique(steps, return_counts=True)
    usual: np.timedelta64 = values[np.argmax(counts)]
    off = np.mean(steps % usual != np.timedelta64(0, "ns"))
    return Interval(usual, float(counts.max() / counts.sum()), float(off))
