"""The newest label as an input: at step t that of step t - D, the newest that can be known."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError

KNOWN_LABEL = "known_label"
_SAME = 0.99  # share of the rows that tell, in which a column must repeat the known label to be left out


def check_labels(labels: bool, bend: Mapping[str, Any] | None, names: tuple[str, ...]) -> None:
    """Refuse choices of a pipeline that contradict each other; see `Pipeline.fit`."""
    if labels and KNOWN_LABEL in names:
        raise LatentTrackError(
            f"the column {KNOWN_LABEL!r} is called like the input that holds the newest known label: "
            "rename the column."
        )
    if bend is not None and not labels:
        raise LatentTrackError("bend is given without labels, and there is nothing to bend: set labels=True.")
    if bend is not None and set(bend) != {"kind", "low", "offset"}:
        raise LatentTrackError(f"bend has {', '.join(map(repr, bend))}: give 'kind', 'low' and 'offset'.")


def due_labels(y: np.ndarray, before: np.ndarray, delay: int) -> np.ndarray:
    """The label that is due at each of M consecutive steps of a stream: y, `delay` steps later.

    Args:
        y: [M] their labels.
        before: labels of the steps just before, as many as there are.
        delay: D of the stream.

    Returns:
        [M], NaN where the label is missing or no step is so early.
    """
    return np.concatenate([np.full(delay, np.nan), before, y])[-len(y) - delay :][: len(y)]


def can_be_known(series: Series) -> np.ndarray:
    """[N] whether a label can be due: not at the first D steps of a stream."""
    return np.arange(len(series)) - np.searchsorted(series.key, series.key) >= series.delay


def forget_unknown(past: Series) -> Series:
    """A training part without the labels that are not known yet where it ends: the last `delay - 1`."""
    y = past.y.copy()
    for k in np.unique(past.key):
        rows = np.flatnonzero(past.key == k)
        y[rows[len(rows) - min(past.delay - 1, len(rows)) :]] = np.nan
    return replace(past, y=y)


def unlike_label(rows: np.ndarray, series: Series, lags: Iterable[int] = ()) -> tuple[int, ...]:
    """The columns that are not copies of the last one, the known label, which is kept.

    A copy equals the label, or that of one of `lags` steps before, wherever it has a value and such a label
    can be known. Rows in which both have the most usual value do not count: two columns that are nearly
    always 0 are not copies.

    Args:
        rows: [N, F], the rows of `series` with the known label as the last column.
        series: their streams.
        lags: of the label that are inputs as well.
    """
    known = rows[:, -1][~np.isnan(rows[:, -1])]
    usual = np.median(known) if len(known) else np.nan
    age = np.arange(len(series)) - np.searchsorted(series.key, series.key)
    copies: set[int] = set()
    for lag in (0, *lags):
        label = np.concatenate([np.full(lag, np.nan), rows[:, -1]])[: len(rows)]
        possible = age >= series.delay + lag
        for i in set(range(rows.shape[1] - 1)) - copies:
            column = rows[:, i]
            telling = possible & ~np.isnan(column) & ((column != usual) | (label != usual))
            if telling.any() and np.mean(column[telling] == label[telling]) >= _SAME:
                copies.add(i)
    return tuple(i for i in range(rows.shape[1]) if i not in copies)
