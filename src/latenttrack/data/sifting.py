"""Which columns of a table are worth having as inputs, which are not, and why."""

from typing import NamedTuple

import numpy as np

from latenttrack.data.columns import not_a_number
from latenttrack.data.reading import Table

_SAME = 0.99  # share of the telling rows in which a copy must equal the original
_ROUNDING = 1e-9
_UNEXPLAINED = 1e-6  # share of the variance: less is an identity, up to the digits of the file


class Dropped(NamedTuple):
    """A column that is no input."""

    name: str
    why: str


class Sifted(NamedTuple):
    """The columns that are inputs, and those that are not."""

    inputs: tuple[str, ...]
    dropped: tuple[Dropped, ...]


def sift(
    table: Table, target: str, *, clock: np.ndarray | None, without: tuple[str, ...], horizon: int, delay: int
) -> Sifted:
    """Choose the inputs.

    Args:
        table: with sentinels made missing.
        target: what is predicted.
        clock: [N] the time of every row; None without one.
        without: columns that have another use: time and key.
        horizon: steps ahead.
        delay: steps until a label is known.
    """
    inputs: list[str] = []
    dropped: list[Dropped] = []
    for name, column in table.columns.items():
        if name in without or (name == target and horizon == 0):
            continue
        if name == target:
            late = delay - horizon
            why = f"it is what is predicted, and known only {late} steps later" if late > 0 else None
        else:
            why = _useless(column, clock) or _copy(name, table, target, horizon, inputs)
        if why is None:
            inputs.append(name)
        else:
            dropped.append(Dropped(name, why))
    return Sifted(tuple(inputs), tuple(dropped))


def adds_up(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether the columns of x [N, F] give y [N] as a weighted sum: parts of a total, or another unit."""
    known = ~np.isnan(np.column_stack([x, y])).any(axis=1)
    x, y = x[known], y[known]
    if len(y) < 3 * (x.shape[1] + 1) or np.ptp(y) == 0:
        return False
    x = x[:, np.ptp(x, axis=0) > 0]
    terms = np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / np.ptp(x, axis=0)])
    rest = y - terms @ np.linalg.lstsq(terms, y, rcond=None)[0]
    return bool(rest.var() <= _UNEXPLAINED * y.var())


def _useless(column: np.ndarray, clock: np.ndarray | None) -> str | None:
    """Why a column says nothing, whatever is predicted."""
    if column.dtype.kind == "O":
        return f"text, such as {not_a_number(column)!r}"
    if column.dtype.kind == "M":
        return "holds times"
    known = column[~np.isnan(column)]
    if len(known) == 0:
        return "empty"
    if known.min() == known.max():
        return f"always {known[0]:g}"
    if len(known) < len(column) or len(column) < 3:
        return None
    if _is_line(column, np.arange(len(column), dtype=float)):
        return "numbers the rows"
    if clock is not None and _is_line(column, (clock - clock[0]).astype(float)):
        return "repeats the time"
    return None


def _is_line(column: np.ndarray, along: np.ndarray) -> bool:
    """Whether a column [N] is a straight line along another, which increases."""
    width = along[-1] - along[0]
    if not (np.isfinite(column).all() and width > 0):
        return False
    line = column[0] + (column[-1] - column[0]) * (along - along[0]) / width
    return bool(np.max(np.abs(column - line)) <= _ROUNDING * np.max(np.abs(column)))


def _copy(name: str, table: Table, target: str, horizon: int, inputs: list[str]) -> str | None:
    """Which other column a column repeats."""
    column, label = table.columns[name], table.columns[target]
    if label.dtype.kind == "f":
        if _same(column, label):
            return f"repeats {target}"
        if 0 < horizon < len(label) and _same(column[:-horizon], label[horizon:]):
            return (
                f"holds {target} {horizon} step{'s' if horizon > 1 else ''} ahead, and gives the answer away"
            )
    # The target may be among the inputs and hold text: that is refused elsewhere, with a reason.
    numeric = (other for other in inputs if table.columns[other].dtype.kind == "f")
    twin = next((other for other in numeric if _same(column, table.columns[other])), None)
    return None if twin is None else f"repeats {twin}"


def _same(column: np.ndarray, other: np.ndarray) -> bool:
    """Whether a column [N] is a copy of another, and knows nothing that the other does not.

    Rows in which both have the most usual value do not count: two columns that are nearly always 0 are not
    copies.
    """
    known, there = ~np.isnan(column), ~np.isnan(other)
    if not (known & there).any() or np.mean(known & ~there) > 1.0 - _SAME:
        return False
    usual = np.median(other[there])
    telling = known & there & ((column != usual) | (other != usual))
    return bool(telling.any() and np.mean(column[telling] == other[telling]) >= _SAME)
