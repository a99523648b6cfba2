"""Numbers that may stand for "missing": those a user declares, and those that look like it.

A sentinel such as -9999 repeats exactly and lies far outside everything else in its column; a number that
stands there once must lie much farther out, as a slip such as 1e30 does. Nothing is ever
masked on suspicion: whether a number is a measurement only the user can know.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from latenttrack.data.matching import unknown_name
from latenttrack.data.tables import Table
from latenttrack.errors import LatentTrackError

_FAR = 3.0  # ranges of the rest of the column between it and a suspect
_FAR_ALONE = 1000.0  # the same for a number that stands there once
_FAR_CODE = 0.1  # the same for numbers that are usual codes
_FEWEST = 3  # distinct values that the rest must have: a column of yes and no has no outside
_MOST_AT_ONCE = 2  # suspects on one side that may hide each other: -9999 is not far out beside -8888
# Limits of whole numbers in 16 and 32 bits, and what netCDF writes where there is nothing.
_LIMITS = {32767.0, 32768.0, 65535.0, 2147483647.0, 2147483648.0, 9.969209968386869e36}


class Sentinel(NamedTuple):
    """A number that means "missing": in one column, or in all of them."""

    value: float
    column: str | None = None

    def __str__(self) -> str:
        return f"{self.value:.15g}" if self.column is None else f"{self.column}={self.value:.15g}"


class Suspect(NamedTuple):
    """A number that may be a sentinel, and how often it stands in the column."""

    column: str
    value: float
    rows: int


def parse_sentinel(text: str) -> Sentinel:
    """Read `-9999`, or `pressure=0` for one column alone."""
    column, equals, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        raise LatentTrackError(
            f"the sentinel {text!r} is no number: write -9999, or COLUMN=-9999 for one column alone."
        ) from None
    if not math.isfinite(value):
        raise LatentTrackError(
            f"the sentinel {text!r} is not finite: leave it out, as infinite values and NaN are missing by "
            "themselves."
        )
    return Sentinel(value, column if equals else None)


def mask_sentinels(table: Table, sentinels: Iterable[Sentinel]) -> Table:
    """The table with sentinels made missing, in numeric columns."""
    columns = dict(table.columns)
    for value, only in sentinels:
        if only is not None and only not in columns:
            raise unknown_name("column", only, columns)
        for name in columns if only is None else [only]:
            if columns[name].dtype.kind == "f":
                columns[name] = np.where(columns[name] == value, np.nan, columns[name])
    return replace(table, columns=columns)


def mask_infinite(table: Table) -> tuple[Table, dict[str, int]]:
    """The table with infinite values made missing, and how many each column had, if any."""
    numeric = {name: column for name, column in table.columns.items() if column.dtype.kind == "f"}
    counts = {name: int(np.sum(np.isinf(column))) for name, column in numeric.items()}
    found = {name: count for name, count in counts.items() if count}
    masked = {name: np.where(np.isinf(numeric[name]), np.nan, numeric[name]) for name in found}
    return replace(table, columns=table.columns | masked), found


def find_suspects(table: Table, names: Sequence[str]) -> tuple[Suspect, ...]:
    """Look for undeclared sentinels in some numeric columns."""
    return tuple(suspect for name in names for suspect in _in_column(name, table.columns[name]))


def remedies(suspects: Sequence[Suspect], table: Table) -> dict[Sentinel, tuple[Suspect, ...]]:
    """Which sentinel to declare for which suspects.

    One for all columns; but where a column has the same number as a measurement, one for each suspect's.
    """
    found: dict[Sentinel, tuple[Suspect, ...]] = {}
    for suspect in suspects:
        alike = {other.column for other in suspects if other.value == suspect.value}
        harmless = all(
            name in alike or column.dtype.kind != "f" or not np.any(column == suspect.value)
            for name, column in table.columns.items()
        )
        sentinel = Sentinel(suspect.value, None if harmless else suspect.column)
        found[sentinel] = (*found.get(sentinel, ()), suspect)
    return found


def _in_column(name: str, column: np.ndarray) -> Iterator[Suspect]:
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    while True:
        at = _outside(values, counts)
        if not at:
            return
        yield from (Suspect(name, float(values[i]), int(counts[i])) for i in at)
        values, counts = np.delete(values, at), np.delete(counts, at)


def _outside(values: np.ndarray, counts: np.ndarray) -> list[int]:
    """The fewest of the lowest and highest values [V], sorted, that lie far from all the others."""
    sides = range(_MOST_AT_ONCE + 1)
    for low, high in sorted(product(sides, sides), key=lambda pair: (sum(pair), pair)):
        rest = values[low : len(values) - high]
        if low + high == 0 or len(rest) < _FEWEST:
            continue
        at = [*range(low), *range(len(values) - high, len(values))]
        width = rest[-1] - rest[0]
        far = [np.maximum(rest[0] - values[i], values[i] - rest[-1]) / width for i in at]
        if all(_is_odd(values[i], counts[i], d) for i, d in zip(at, far, strict=True)):
            return at
    return []


def _is_odd(value: float, count: int, far: float) -> bool:
    return bool(far > (_FAR if count > 1 else _FAR_ALONE)) or bool(far > _FAR_CODE and _is_code(value))


def _is_code(value: float) -> bool:
    """Whether a number is usual for "missing": -999, 9999, 999.9 and the limits of machine numbers."""
    digits = f"{abs(value):.12g}".replace(".", "")
    return abs(value) in _LIMITS or (len(digits) >= 3 and set(digits) == {"9"})
