"""The clock of a table: which columns make the time of a row, and rows put in its order.

A file has its times in one column; or dates and, beside them, hours or times of the day; or years, months
and days, with or without hours and minutes, in columns that are called so. Hours run from 0 to 23 or from 1
to 24.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from latenttrack.data.columns import FIRST_YEAR, LAST_YEAR, from_text, not_a_number
from latenttrack.data.daytimes import is_time_of_day, times_of_day
from latenttrack.data.reading import choose_time, parse_time
from latenttrack.data.tables import Table
from latenttrack.errors import LatentTrackError

_HOUR = np.timedelta64(3_600_000_000_000, "ns")
_MINUTE = np.timedelta64(60_000_000_000, "ns")
# The 24th hour is the midnight that ends the day.
_PARTS = {
    "year": (FIRST_YEAR, LAST_YEAR),
    "month": (1, 12),
    "day": (1, 31),
    "hour": (0, 24),
    "minute": (0, 59),
}
_DAY = 3  # parts that make a date
# Rows with the time of another: up to this share they are slips, beyond it there are several streams.
_SLIPS = 0.25
# In order of time, rows of several streams come in turn from different stretches of the file. So do a late
# row and the hour that a clock was set back, but less often: for each stretch, and for all times there are.
_TURNS, _TURNING = 10, 0.1


class Clock(NamedTuple):
    """A table whose `name` column is its time, and the columns of the file that made it."""

    table: Table
    name: str
    parts: tuple[str, ...]


class Ordered(NamedTuple):
    """A table in order of time.

    Attributes:
        table: times increase inside each key, unless too many repeat.
        moved: whether rows were put in order.
        repeated: rows that were left out because an earlier row has their time.
    """

    table: Table
    moved: bool = False
    repeated: int = 0


def find_clock(
    table: Table, time: str | None, key: str | None, exclude: Sequence[str | None] = ()
) -> tuple[Clock | None, str]:
    """The columns that make the time; None without any, and why if some are called as if they made one.

    Args:
        table: the file.
        time: the column that the user names; None: the only one of dates and times, or columns that are
            called year, month, day.
        key: the column that says which stream a row belongs to.
        exclude: columns that are something else.
    """
    name = choose_time(table, time, exclude=exclude)
    if name is not None:
        parts = _with_hours(table, name, key)
    else:
        parts, why = _named_parts(table, key, exclude)
        if not parts:
            return None, why
        name = parts[0]
    times = read_clock(table, parts)
    return Clock(replace(table, columns=table.columns | {name: times}), name, parts), ""


def read_clock(table: Table, parts: Sequence[str]) -> np.ndarray:
    """[N] the times that columns make: one as it is; dates and hours, or times of the day; years, months, ...

    Raises:
        LatentTrackError: names the column and the row that have no such number.
    """
    first, *others = parts
    if not others:
        return table.columns[first]
    if len(others) == 1:
        times: np.ndarray = parse_time(table, first) + _since_midnight(table, others[0])
        return times
    year, month, day, *rest = (_whole(table, name, part) for name, part in zip(parts, _PARTS, strict=False))
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    days = months.astype("datetime64[D]") + (day - 1)
    wrong = np.flatnonzero(days.astype("datetime64[M]") != months)
    if len(wrong):
        raise LatentTrackError(
            f"column {parts[2]!r} holds {day[wrong[0]]} in row {table.number(wrong[0])}, and the month "
            f"{months[wrong[0]]} has no such day: correct it or remove the row."
        )
    times = days.astype("datetime64[ns]")
    for values, unit in zip(rest, (_HOUR, _MINUTE), strict=False):
        times = times + values * unit
    return times


def in_order(table: Table, name: str, key: str | None) -> Ordered:
    """Sort rows by time and leave out those whose time an earlier row has.

    Where more than a quarter would be left out, the rows belong to several streams or to no clock, and the
    table is given back as it is: whoever reads it further says so.

    Args:
        table: the file.
        name: its column of times.
        key: the column that says which stream a row belongs to.

    Raises:
        LatentTrackError: several streams stand one after another, and no key tells them apart.
    """
    times, group = table.columns[name], _groups(table, key)
    if times.dtype.kind == "O" or np.any(np.isnan(times) if times.dtype.kind == "f" else np.isnat(times)):
        return Ordered(table)
    _require_one_stream(table, times, key)
    kept = _first_of_each(times, group)
    if len(kept) < (1.0 - _SLIPS) * len(times):
        return Ordered(table)
    # Streams stay where they stand in the file: only within one are rows moved.
    places = np.sort(kept)
    rows = np.empty_like(kept)
    rows[np.argsort(group[places], kind="stable")] = kept
    moved = bool(np.any(rows != places))
    if not moved and len(rows) == len(times):
        return Ordered(table)
    columns = {column: values[rows] for column, values in table.columns.items()}
    if len(rows) < len(times):
        # What was text only in rows that are left out is read as if the file had not had them.
        texts = {column: values for column, values in columns.items() if values.dtype.kind == "O"}
        columns |= {column: from_text(values.tolist()) for column, values in texts.items() if column != key}
    places = rows if table.places is None else table.places[rows]
    return Ordered(Table(columns, table.source, places), moved, len(times) - len(rows))


def in_words(moved: bool, repeated: int) -> list[tuple[str, str]]:
    """For people: what `in_order` did, each under a heading."""
    told = [("time", "the rows were not in order of time, and are put in order")] if moved else []
    if repeated == 1:
        told.append(("repeated", "1 row has the time of an earlier one, and is left out"))
    elif repeated:
        told.append(("repeated", f"{repeated:,} rows have the time of an earlier one, and are left out"))
    return told


def _with_hours(table: Table, name: str, key: str | None) -> tuple[str, ...]:
    """The time column; or, if it holds dates that repeat, with the column that tells their rows apart.

    That is one of hours, which must make them unique; or, where most dates repeat, of times of the day. Where
    few do, such a column says something else of the day: when the sun rises.
    """
    dates = table.columns.get(name)
    if dates is None or dates.dtype.kind != "M" or np.any(np.isnat(dates)):
        return (name,)
    distinct, few = _distinct(dates, table, key), (1.0 - _SLIPS) * len(table)
    if distinct == len(table) or np.any(dates != dates.astype("datetime64[D]")):
        return (name,)
    for other in table.columns:
        daytimes = _holds_daytimes(table, other)
        if daytimes and distinct >= few:
            continue
        least = few if daytimes else len(table)
        with suppress(LatentTrackError):
            if _distinct(read_clock(table, (name, other)), table, key) >= least:
                return name, other
    return (name,)


def _named_parts(table: Table, key: str | None, exclude: Sequence[str | None]) -> tuple[tuple[str, ...], str]:
    """Columns called year, month, day, hour, minute, as far as they go; () if they make no time, and why."""
    called = {name.strip().lower(): name for name in table.columns if name not in exclude}
    parts, why = [called[part] for part in takewhile(called.__contains__, _PARTS)], ""
    while len(parts) >= _DAY:
        try:
            times = read_clock(table, parts)
        except LatentTrackError as error:
            why = str(error).rstrip(".")
            parts.pop()
            continue
        _require_one_stream(table, times, key)
        if _distinct(times, table, key) >= (1.0 - _SLIPS) * len(times):
            return tuple(parts), ""
        repeated = f"many rows have the same {', '.join(parts)}: add what tells them apart"
        return (), why or f"{repeated}, or name the column of their streams with --key"
    return (), why


def _since_midnight(table: Table, name: str) -> np.ndarray:
    """[N] how far into its day each row is, from hours or from times of the day."""
    if _holds_daytimes(table, name):
        return times_of_day(table.columns[name], name, table.numbers)
    hours: np.ndarray = _whole(table, name, "hour") * _HOUR
    return hours


def _holds_daytimes(table: Table, name: str) -> bool:
    """Whether a column is one of times of the day: the first value that is not missing is."""
    column = table.columns[name]
    return column.dtype.kind == "O" and is_time_of_day(next((text for text in column if text), ""))


def _whole(table: Table, name: str, part: str) -> np.ndarray:
    """[N] a column of whole numbers, all of which a part of the time may have."""
    column, (low, high) = table.columns[name], _PARTS[part]
    if column.dtype.kind == "f":
        wrong = ~((column >= low) & (column <= high) & (column == np.floor(column)))
        if not wrong.any():
            return column.astype(np.int64)
    else:
        wrong = column == not_a_number(column) if column.dtype.kind == "O" else np.full(len(table), True)
    row = int(np.argmax(wrong))
    if column.dtype.kind == "f":
        found = "is empty" if np.isnan(column[row]) else f"holds {column[row]:g}"
    else:
        found = f"holds {str(column[row])!r}"
    raise LatentTrackError(
        f"column {name!r} {found} in row {table.number(row)}: "
        f"give {part}s as whole numbers from {low} to {high}, or remove the row."
    )


def _require_one_stream(table: Table, times: np.ndarray, key: str | None) -> None:
    """Refuse rows of several streams, one after another, that no key tells apart."""
    group = _groups(table, key)
    for rows in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        start = _begins_anew(times[rows])
        if start is not None:
            same = f" of the same {key!r}" if key else ""
            raise LatentTrackError(
                f"the times of {table.source} begin anew in row {table.number(rows[start])}, as if several "
                f"streams{same} stood one after another: give the rows of one (`fit` takes several with "
                "--key), or sort them by time if they are of one."
            )


def _begins_anew(times: np.ndarray) -> int | None:
    """Where in rows [N] a second stream begins; None if they are of one, in whatever order."""
    ticks = times if times.dtype.kind == "f" else times.astype(np.int64)
    for along in (ticks, -ticks):  # each stream may have its newest row first
        stretch = np.cumsum(np.append(True, along[1:] < along[:-1]))
        order = np.argsort(along, kind="stable")
        turns = np.count_nonzero(np.diff(stretch[order]))
        distinct = 1 + np.count_nonzero(np.diff(along[order]))
        if turns > _TURNS * stretch[-1] and turns > _TURNING * distinct:
            return int(np.argmin(np.diff(along))) + 1
    return None


def _distinct(times: np.ndarray, table: Table, key: str | None) -> int:
    """How many times there are, one that occurs twice inside a key counted once."""
    return len(_first_of_each(times, _groups(table, key)))


def _first_of_each(times: np.ndarray, group: np.ndarray) -> np.ndarray:
    """[M] the rows in order of key and time, of those with one time only the first."""
    order = np.lexsort((times, group))  # stable: of rows with one time the first stays first
    later = (times[order][1:] > times[order][:-1]) | (np.diff(group[order]) > 0)
    rows: np.ndarray = order[np.append(True, later)]
    return rows


def _groups(table: Table, key: str | None) -> np.ndarray:
    """[N] a number for each key."""
    if key is None or key not in table.columns:
        return np.zeros(len(table), np.int64)
    groups: np.ndarray = np.unique(table.columns[key].astype(str), return_inverse=True)[1]
    return groups
