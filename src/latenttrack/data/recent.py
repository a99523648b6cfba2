"""Rows that came after a model was fitted, read from a file as the model's own data were."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from latenttrack.data.categories import spread
from latenttrack.data.clocks import in_order, in_words, read_clock
from latenttrack.data.feed import Feed
from latenttrack.data.reading import choose_time, to_series
from latenttrack.data.tables import Table, read_table
from latenttrack.errors import LatentTrackError


class Rows(NamedTuple):
    """N rows of one stream, in order of time.

    Attributes:
        time: [N] as `Feed.time` gives it; None if the rows have none, and follow one another.
        x: [N, F] the measurements of a feed, NaN where missing.
        y: [N] the target, NaN where it is not known.
        notes: what was done to the rows of the file, for people.
    """

    time: list[int | float] | None
    x: np.ndarray
    y: np.ndarray
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    def select(self, keep: np.ndarray) -> "Rows":
        """Some of the rows; `keep` is [N] bool."""
        time = None if self.time is None else [t for t, k in zip(self.time, keep, strict=True) if k]
        return Rows(time, self.x[keep], self.y[keep], self.notes)


def target_column(feed: Feed) -> str:
    """The column of a file that holds what is predicted."""
    return feed.source or feed.target


def read_rows(source: object, feed: Feed, *, clock: Sequence[str] = (), key: str | None = None) -> Rows:
    """Recent rows, with all columns that the model was fitted on.

    Args:
        source: what `read_table` reads.
        feed: how the model reads rows.
        clock: the columns that make the time (data/clocks.py); () takes the only one there is.
        key: the column that says which stream a row is of; all rows must be of one.
    """
    table = read_table(source)
    needed = dict.fromkeys((*(clock if feed.clock else ()), *feed.columns, target_column(feed)))
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise LatentTrackError(
            f"{table.source} has no column {', '.join(map(repr, missing))}, which the model was fitted on: "
            "give recent rows of the same kind."
        )
    rows = _rows(spread(table, feed.categories), feed, clock, key)
    if feed.clock and rows.time is None:
        raise LatentTrackError(
            f"{table.source} has no column of times, and the model was fitted on one: add it."
        )
    return rows


def read_covariates(source: object, feed: Feed, *, clock: Sequence[str] = ()) -> Rows:
    """What is known of the steps to come: any of the model's measurements, with or without times.

    Args:
        source: what `read_table` reads.
        feed: how the model reads rows.
        clock: as for `read_rows`.
    """
    table, target = spread(read_table(source), feed.categories), target_column(feed)
    others = [name for name in feed.inputs if name != target]
    if not any(name in table.columns for name in others):
        names = ", ".join(name for name in feed.columns if name != target) or "this model has none"
        raise LatentTrackError(
            f"{table.source} has none of the measurements whose future could be known "
            f"({names}): give at least one of them."
        )
    unknown = np.full(len(table), np.nan)
    columns = {**dict.fromkeys(others, unknown), **table.columns, target: unknown}
    known = clock if all(name in columns for name in clock) else ()
    return _rows(replace(table, columns=columns), feed, known, None)


def _rows(table: Table, feed: Feed, clock: Sequence[str], key: str | None) -> Rows:
    target = target_column(feed)
    others = [name for name in feed.inputs if name != target]
    time, notes = _clock(table, feed, clock), list[str]()
    if time is not None:
        name, moments = time
        ordered = in_order(replace(table, columns={**table.columns, name: moments}), name, key)
        table = ordered.table
        notes = [f"{table.source}: {words}" for _, words in in_words(ordered.moved, ordered.repeated)]
    series = to_series(
        table,
        target=target,
        time=False if time is None else time[0],
        key=key if key in table.columns else None,
        features=others,
    )
    if len(series.keys) > 1:
        raise LatentTrackError(
            f"{table.source} holds {len(series.keys)} streams and a forecast is of one: "
            f"select the rows of one {key!r}."
        )
    named = {**dict(zip(others, series.x.T, strict=True)), target: series.y}
    x = np.array([feed.row({name: c[i] for name, c in named.items()})[0] for i in range(len(series))])
    times = None if time is None else [feed.time(moment) for moment in series.time]
    return Rows(times, x, np.array([feed.label(float(y)) for y in series.y]), tuple(notes))


def _clock(table: Table, feed: Feed, parts: Sequence[str]) -> tuple[str, np.ndarray] | None:
    """Name and values of the column of times; None without one."""
    if not feed.clock:
        return None
    found = tuple(parts) or _only(choose_time(table, None, exclude=(target_column(feed),)))
    return (found[0], read_clock(table, found)) if found else None


def _only(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)
