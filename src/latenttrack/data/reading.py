"""From a table to a `Series`: which column is the label, which the clock, which the key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from latenttrack.data.columns import ambiguous_date, not_a_number, not_a_time
from latenttrack.data.epochs import look_like_dates, times_from_numbers
from latenttrack.data.intervals import find_interval
from latenttrack.data.matching import unknown_name
from latenttrack.data.series import Series, check_times, show_time
from latenttrack.data.tables import Table, read_table
from latenttrack.errors import LatentTrackError

__all__ = ["Table", "read_table", "to_series"]

DAY = np.timedelta64(1, "D").astype("timedelta64[ns]")
# A grid this many times longer than the file means that the rows are events, not samples.
MOST_GRID_ROWS_PER_ROW = 100


def to_series(
    table: object,
    *,
    target: str,
    time: str | Literal[False] | None = None,
    key: str | None = None,
    features: str | Sequence[str] | None = None,
    horizon: int = 0,
    delay: int | None = None,
    sentinels: float | Sequence[float] = (),
    grid: bool = False,
    period: int | None = None,
) -> Series:
    """Choose the columns of a table and make a `Series` of them.

    Rows of one key are brought together, but inside a key they are never reordered: times that are not
    strictly increasing are an error.

    Args:
        table: what `read_table` returned, or anything that it reads.
        target: the column to predict.
        time: the time column: dates and times, or numbers that count seconds (or milli-, micro- or
            nanoseconds, as their size tells) since 1970. None takes the only column of dates and times if
            there is one; without it, or with False, rows are numbered by step.
        key: the column that says which stream a row belongs to; None for one stream.
        features: the input columns, or the only one; None takes all numeric ones, the target's own among
            them when horizon > 0, since its present value is then known.
        horizon: h; the label of row t is the target in row t + h of the same key.
        delay: steps until a label is known; None takes max(h, 1).
        sentinels: the number, or numbers, that mean "missing", such as -9999, in any numeric column; what
            is not finite is missing by itself.
        grid: put each key on its regular time grid by inserting all-missing rows in gaps, so that
            h steps ahead means time and not rows.
        period: steps in the main season; None takes one day in steps (7 for daily data).

    Returns:
        The series, keys in order of first appearance.
    """
    if not isinstance(horizon, int | np.integer) or horizon < 0:
        raise LatentTrackError(f"horizon is {horizon!r}: it must be 0 or more whole steps.")
    features = [features] if isinstance(features, str) else features
    table = _mask_sentinels(read_table(table), sentinels)
    require_columns(table, [target, *([time] if time else []), *([key] if key else []), *(features or [])])
    clock = choose_time(table, time, exclude=(target, key))
    rows = _order_rows(table, key, clock, grid=grid)
    inputs = _choose_features(table, features, target=target, exclude=(clock, key), horizon=horizon)
    x = [_numeric(table, name, rows) for name in inputs]
    return Series(
        x=np.array(x).reshape(len(inputs), len(rows.time)).T,
        y=_ahead(_numeric(table, target, rows), rows.key, horizon),
        time=rows.time,
        names=tuple(inputs),
        target=target,
        keys=rows.keys,
        key=rows.key,
        delay=max(horizon, 1) if delay is None else delay,
        period=_day_in_steps(rows) if period is None else period,
        source=target,
        horizon=int(horizon),
        sentinels=tuple((float(value), None) for value in np.atleast_1d(sentinels)),
    )


def on_a_grid(table: Table, time: str | None = None, key: str | None = None) -> bool:
    """Whether the rows of each key lie on a regular grid of time, apart from gaps; see `to_series`."""
    try:
        clock = choose_time(table, time, exclude=())
        return clock is not None and len(_order_rows(table, key, clock, grid=True).time) > 0
    except LatentTrackError:
        return False


@dataclass(frozen=True)
class _Rows:
    """The order of rows: where in the table each stands (-1: inserted), its key and its time, [N] each."""

    source: np.ndarray
    key: np.ndarray
    keys: tuple[str, ...]
    time: np.ndarray


def require_columns(table: Table, names: Sequence[str]) -> None:
    """Refuse names that no column has."""
    for name in names:
        if name not in table.columns:
            raise unknown_name("column", name, table.columns)


def _mask_sentinels(table: Table, sentinels: float | Sequence[float]) -> Table:
    if not np.size(sentinels):
        return table
    if not np.all(np.isfinite(sentinels)):
        raise LatentTrackError(
            "a sentinel is not finite: leave it out, as infinite values and NaN are missing by themselves."
        )

    def mask(column: np.ndarray) -> np.ndarray:
        return np.where(np.isin(column, sentinels), np.nan, column) if column.dtype.kind == "f" else column

    return replace(table, columns={name: mask(column) for name, column in table.columns.items()})


def choose_time(table: Table, time: str | Literal[False] | None, exclude: Sequence[str | None]) -> str | None:
    """The name of the time column: the one given, or the only one of dates and times; None without one."""
    if time is not None:
        return time or None
    clocks = [n for n, c in table.columns.items() if c.dtype.kind == "M" and n not in exclude]
    if len(clocks) > 1:
        raise LatentTrackError(
            f"{table.source} has several time columns ({', '.join(map(repr, clocks))}): name one as time."
        )
    if not clocks:
        for name, column in table.columns.items():
            if name not in exclude:
                _refuse_ambiguous(name, column)
    return clocks[0] if clocks else None


def _refuse_ambiguous(name: str, column: np.ndarray) -> None:
    """Refuse dates whose days and months cannot be told apart: a guess would be wrong without a word."""
    date = ambiguous_date(column) if column.dtype.kind == "O" else None
    if date is not None:
        raise LatentTrackError(
            f"column {name!r} holds dates such as {date!r}, of which it cannot be told whether the day or "
            "the month comes first: write them like 2013-01-31."
        )


def parse_time(table: Table, name: str) -> np.ndarray:
    """[N] datetime64[ns]: a column of times, or of numbers that count since 1970 (data/epochs.py)."""
    column = table.columns[name]
    if column.dtype.kind == "O":
        _refuse_ambiguous(name, column)
        odd = not_a_time(column)
        row = table.number(np.flatnonzero(column == odd)[0])
        raise LatentTrackError(
            f"the time column {name!r} holds {odd!r} in row {row}, which is not a time that can be read: "
            "write times like 2013-01-31 06:00:00."
        )
    if column.dtype.kind == "f":
        return _count_time(table, name)
    if np.any(np.isnat(column)):
        row = table.number(np.flatnonzero(np.isnat(column))[0])
        raise LatentTrackError(
            f"the time column {name!r} is empty in row {row}: fill it in or remove the row."
        )
    return column


def _count_time(table: Table, name: str) -> np.ndarray:
    """[N] datetime64[ns] of a column of numbers."""
    column = table.columns[name]
    if not np.all(np.isfinite(column)):
        row = table.number(np.flatnonzero(~np.isfinite(column))[0])
        raise LatentTrackError(f"the time column {name!r} has no number in row {row}: fill it in.")
    if look_like_dates(column):
        raise LatentTrackError(
            f"the time column {name!r} holds numbers such as {column[0]:.15g}, which look like years or "
            "dates and would be read as seconds since 1970: write them like 2013-01-31, or leave the column "
            "out."
        )
    times = times_from_numbers(column)
    wrong = np.flatnonzero(np.isnat(times))
    if len(wrong):
        raise LatentTrackError(
            f"the time column {name!r} holds {column[wrong[0]]:.19g} in row {table.number(wrong[0])}, and "
            "not all of its numbers count seconds, milliseconds, microseconds or nanoseconds since 1970: "
            "write times like 2013-01-31 06:00:00."
        )
    return times


def _order_rows(table: Table, key: str | None, clock: str | None, *, grid: bool) -> _Rows:
    """The rows of each key together and, if wanted, on its regular grid."""
    keys, index = _key_index(table, key)
    source = np.argsort(index, kind="stable")
    grouped = index[source]
    what = "times"
    if clock is None:
        first = np.searchsorted(grouped, np.arange(len(keys)))
        time = (np.arange(len(source)) - first[grouped]).astype(np.float64)
    else:
        time, what = parse_time(table, clock)[source], f"times in column {clock!r}"
    check_times(time, grouped, keys, what)
    rows = _Rows(source, grouped, keys, time)
    return _regular(rows) if grid else rows


def _key_index(table: Table, key: str | None) -> tuple[tuple[str, ...], np.ndarray]:
    if key is None:
        return ("",), np.zeros(len(table), np.int32)
    column = table.columns[key]
    if column.dtype.kind == "f":
        texts = ["" if np.isnan(v) else f"{v:.15g}" for v in column.tolist()]
    else:
        texts = ["" if t in ("", "NaT") else str(t) for t in column.astype(str).tolist()]
    if "" in texts:
        row = table.number(texts.index(""))
        raise LatentTrackError(f"the key column {key!r} is empty in row {row}: fill it in or remove the row.")
    numbers = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return tuple(numbers), np.array([numbers[t] for t in texts], np.int32)


def _regular(rows: _Rows) -> _Rows:
    found = find_interval(rows.time, rows.key)
    if found is None:
        raise LatentTrackError("grid needs a time column and at least two rows of one key: name it as time.")
    interval = found.usual
    first = np.searchsorted(rows.key, np.arange(len(rows.keys)))
    elapsed = rows.time - rows.time[first][rows.key]
    off = np.flatnonzero(elapsed % interval != np.timedelta64(0, "ns"))
    if len(off):
        raise LatentTrackError(
            f"the time {show_time(rows.time[off[0]])} lies off the regular grid of "
            f"{interval / np.timedelta64(1, 's'):g} seconds ({len(off)} rows do): "
            "resample the rows or leave grid off."
        )
    step = (elapsed // interval).astype(np.int64)
    lengths = np.maximum.reduceat(step, first) + 1
    if lengths.sum() > MOST_GRID_ROWS_PER_ROW * len(step):
        raise LatentTrackError(
            f"a regular grid of these {len(step)} rows would need {lengths.sum()}: leave grid off."
        )
    start = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    key = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    source = np.full(len(key), -1)
    source[start[rows.key] + step] = rows.source
    time = rows.time[first][key] + (np.arange(len(key)) - start[key]) * interval
    return _Rows(source, key, rows.keys, time)


def _choose_features(
    table: Table, features: Sequence[str] | None, *, target: str, exclude: Sequence[str | None], horizon: int
) -> list[str]:
    if features is None:
        numeric = [n for n, c in table.columns.items() if c.dtype.kind == "f" and n not in exclude]
        return [n for n in numeric if horizon > 0 or n != target]
    if target in features and horizon == 0:
        raise LatentTrackError(
            f"the target {target!r} is also a feature, and at horizon 0 that gives the answer away: "
            "leave it out or predict ahead."
        )
    return list(features)


def _numeric(table: Table, name: str, rows: _Rows) -> np.ndarray:
    """A column of numbers in the order of the rows [N]; NaN in those that were put in."""
    column = table.columns[name]
    if column.dtype.kind == "O":
        raise LatentTrackError(
            f"column {name!r} is not numeric: it holds {not_a_number(column)!r}, "
            "so turn it into numbers or leave it out."
        )
    if column.dtype.kind == "M":
        raise LatentTrackError(f"column {name!r} holds times, not numbers: leave it out.")
    values = column[rows.source]
    # What is infinite was never measured; a live stream takes it as missing too.
    return np.where((rows.source >= 0) & np.isfinite(values), values, np.nan)


def _ahead(values: np.ndarray, key: np.ndarray, horizon: int) -> np.ndarray:
    """y_t = values_{t + horizon} where that row exists in the same key, else NaN."""
    ahead = np.minimum(np.arange(len(values)) + horizon, len(values) - 1)
    same = (key[ahead] == key) & (np.arange(len(values)) + horizon < len(values))
    return np.where(same, values[ahead], np.nan)


def _day_in_steps(rows: _Rows) -> int | None:
    interval = find_interval(rows.time, rows.key)
    if interval is None:
        return None
    if interval.usual == DAY:
        return 7
    steps = round(DAY / interval.usual)
    return steps if steps > 1 else None
