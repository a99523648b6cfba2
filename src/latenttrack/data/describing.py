"""What a user's file holds: read, understood, and told in a few plain lines before anything is done."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latenttrack.data import wording
from latenttrack.data.categories import Categories, find_kinds, indicator, spread, used
from latenttrack.data.clocks import Clock, Ordered, find_clock, in_order, in_words
from latenttrack.data.intervals import find_interval
from latenttrack.data.reading import on_a_grid, read_table, require_columns, to_series
from latenttrack.data.series import Series
from latenttrack.data.sifting import Dropped, Sifted, adds_up, sift
from latenttrack.data.suspects import (
    Sentinel,
    Suspect,
    find_suspects,
    mask_infinite,
    mask_sentinels,
    remedies,
)
from latenttrack.data.tables import Table
from latenttrack.errors import LatentTrackError


@dataclass(frozen=True)
class Selection:
    """What of a file is predicted, and from what.

    Attributes:
        source: a path, or anything else that `read_table` reads.
        target: the column to predict.
        time: the column of times; None: the only one, if there is one.
        key: the column that says which stream a row belongs to; None for one stream.
        features: the input columns; None: all that are worth having.
        horizon: steps ahead.
        delay: steps until a label is known; None: it is known when it is measured.
        sentinels: numbers that mean "missing".
    """

    source: str | Path | Table
    target: str
    time: str | None = None
    key: str | None = None
    features: tuple[str, ...] | None = None
    horizon: int = 1
    delay: int | None = None
    sentinels: tuple[Sentinel, ...] = ()

    def __post_init__(self) -> None:
        if self.delay is not None and self.delay < self.horizon:
            raise LatentTrackError(
                f"the delay is {self.delay}, but what is {self.horizon} steps ahead is measured only then: "
                f"give a delay of {self.horizon} or more, or leave it out."
            )

    @property
    def known_after(self) -> int:
        """Steps until a label is known."""
        return max(self.horizon, 1) if self.delay is None else self.delay


class Gaps(NamedTuple):
    """Rows that a regular grid has and the file has not."""

    runs: int = 0
    rows: int = 0  # in all
    longest: int = 0  # rows of the longest run


@dataclass(frozen=True)
class Description:
    """Plain facts about a file.

    Attributes:
        selection: what was asked for.
        rows: of the file.
        keys: names of the streams; one without a name if there is no key.
        clock: the columns that make the time; none without one.
        utc: whether times had an offset, and are in UTC now.
        no_clock: why columns that are called as if they did make none.
        times: of the rows that are used, without those that are put in.
        span: first and last time; None without a clock.
        interval: the most common difference between neighbouring times; None without a clock.
        usual: share of the differences that are the interval.
        regular: whether all times lie on a grid of that interval.
        gaps: in that grid.
        moved: whether the rows were not in order of time.
        repeated: rows with the time of an earlier one, which are left out.
        inputs: the columns that are inputs.
        dropped: the others, and why.
        missing: values missing in the rows of the file, by input or target; only where there are some.
        infinite: how many of these are infinite in the file, by column; only where there are some.
        masked: how many values each declared sentinel made missing.
        suspects: sentinels that might be declared, and where they stand.
        doubtful: numbers whose point may mark thousands, by column, as the file has them.
        given_away: whether, at horizon 0, the inputs of a row add up to its label.
    """

    selection: Selection
    rows: int
    keys: tuple[str, ...]
    clock: tuple[str, ...]
    times: np.ndarray
    span: tuple[np.datetime64, np.datetime64] | None
    interval: np.timedelta64 | None
    usual: float
    regular: bool
    gaps: Gaps
    inputs: tuple[str, ...]
    dropped: tuple[Dropped, ...] = ()
    missing: dict[str, int] = field(default_factory=dict)
    infinite: dict[str, int] = field(default_factory=dict)
    masked: dict[Sentinel, int] = field(default_factory=dict)
    suspects: dict[Sentinel, tuple[Suspect, ...]] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)
    given_away: bool = False
    moved: bool = False
    repeated: int = 0
    no_clock: str = ""
    utc: bool = False

    def lines(self) -> list[tuple[str, str]]:
        """For people: (what, facts), in the order in which they are told."""
        told = [("rows", self._rows()), ("time", self._time())]
        if self.utc:
            told.append(("time", "in UTC, as the file gives offsets from it"))
        told += in_words(self.moved, self.repeated)
        told += [
            ("predicted", self._predicted()),
            ("inputs", ", ".join(self.inputs) or "only the label's past"),
        ]
        told += [("dropped", f"{name}: {why}") for name, why in self.dropped]
        nothing = "nothing else" if self.gaps.runs else "nothing"
        told.append(("missing", wording.counts(self.missing) if self.missing else nothing))
        if self.infinite:
            told.append(("infinite", f"{wording.counts(self.infinite)}, counted as missing"))
        told += [("sentinel", f"{one}, made missing {wording.times(n)}") for one, n in self.masked.items()]
        told += [("suspicious", _suspicion(one, where)) for one, where in self.suspects.items()]
        for name, text in self.doubtful.items():
            point = "the decimal mark: if it marks thousands, write numbers without it"
            told.append(("suspicious", f"the point in numbers of {name} such as {text} is taken as {point}"))
        if self.given_away:
            known = "name with --features what is known before it"
            told.append(("suspicious", f"the inputs of a row add up to its {self.selection.target}: {known}"))
        return told

    def to_dict(self) -> dict[str, Any]:
        """In plain JSON values: what a program must know to read the next rows of the same file."""
        chosen = self.selection
        source = chosen.source
        return {
            # The name alone: a model file is passed on, and where its data lay is nobody's business.
            "source": source.source if isinstance(source, Table) else Path(source).name,
            "rows": self.rows,
            "target": chosen.target,
            "time": list(self.clock),
            "key": chosen.key,
            "inputs": list(self.inputs),
            "horizon": chosen.horizon,
            "delay": chosen.known_after,
            "sentinels": [[one.value, one.column] for one in chosen.sentinels],
            "regular": self.regular,
            "interval": None if self.interval is None else float(self.interval / wording.SECOND),
            "span": None if self.span is None else [wording.moment(time) for time in self.span],
        }

    def _rows(self) -> str:
        words = f"{self.rows:,}"
        words += f" in {len(self.keys):,} streams" if len(self.keys) > 1 else ""
        return (
            words
            if self.span is None
            else f"{words}, {wording.moment(self.span[0])} to {wording.moment(self.span[1])}"
        )

    def _time(self) -> str:
        if self.no_clock:
            return f"a row is a step, as {self.no_clock}"
        if self.interval is None:
            return "no column of times, so a row is a step; if there is one, name it with --time"
        name, every = wording.listed(self.clock), wording.duration(self.interval)
        if not self.regular:
            usual = wording.share(self.usual)
            return f"{name}: irregular ({usual} of the rows {every} apart), so a row is a step"
        every = every.removeprefix("1 ")
        if not self.gaps.runs:
            return f"{name}: every {every}, no gaps"
        runs, rows, longest = self.gaps
        return (
            f"{name}: every {every}, {runs:,} gap{'s' * (runs > 1)} (the longest "
            f"{wording.duration(longest * self.interval)}); {rows:,} missing row{'s' * (rows > 1)} put in"
        )

    def _predicted(self) -> str:
        horizon, delay = self.selection.horizon, self.selection.known_after
        ahead = f"{self._steps(horizon)} ahead" if horizon else "of the same row, from the other columns"
        when = "when it is measured" if delay == horizon else f"{self._steps(delay)} after its row"
        return f"{self.selection.target}, {ahead}; a label is known {when}"

    def _steps(self, count: int) -> str:
        words = f"{count} step{'s' * (count > 1)}"
        if self.interval is None or not self.regular:
            return words
        return f"{words} ({wording.duration(count * self.interval)})"


class Understood(NamedTuple):
    """A file as a series, and what there is to say about it."""

    series: Series
    description: Description


def understand(selection: Selection) -> Understood:
    """Read a file, find its clock, its interval and the inputs worth having, and make a series of it.

    Args:
        selection: the file and what is asked of it.

    Returns:
        The series, on its regular grid of time if there is one, and the facts.
    """
    raw = read_table(selection.source)
    clock, no_clock = _clock(raw, selection)
    ordered = in_order(clock.table, clock.name, selection.key) if clock else Ordered(raw)
    masked, infinite = mask_infinite(mask_sentinels(ordered.table, selection.sentinels))
    require_columns(masked, [selection.target, *([selection.key] if selection.key else [])])
    categories, whole = _categories(masked, clock, selection), masked
    masked = spread(masked, categories)
    sifted = _inputs(masked, clock, selection, dict(categories))
    categories = used(categories, sifted.inputs)
    choices: dict[str, Any] = {
        "target": selection.target,
        "time": clock.name if clock else False,
        "key": selection.key,
        "features": sifted.inputs,
        "horizon": selection.horizon,
        "delay": selection.known_after,
    }
    series = to_series(masked, **choices)
    rows, regular = series, on_a_grid(masked, clock.name, selection.key) if clock else False
    interval = find_interval(rows.time, rows.key)
    gaps = _gaps(rows, interval.usual) if regular and interval is not None else Gaps()
    if gaps.runs:
        series = to_series(masked, **choices, grid=True)
    sentinels = tuple((one.value, one.column) for one in selection.sentinels)
    used_columns = (selection.target, *sifted.inputs, *dict(categories))
    return Understood(
        replace(series, sentinels=sentinels, categories=categories),
        Description(
            selection=selection,
            rows=len(raw),
            keys=series.keys,
            clock=clock.parts if clock else (),
            times=rows.time,
            span=(rows.time.min(), rows.time.max()) if clock else None,
            interval=None if interval is None else interval.usual,
            usual=0.0 if interval is None else interval.share,
            regular=regular,
            gaps=gaps,
            inputs=sifted.inputs,
            dropped=sifted.dropped,
            missing=_missing(whole, used_columns),
            infinite={name: count for name, count in infinite.items() if name in used_columns},
            masked=_masked(ordered.table, selection.sentinels),
            suspects=_suspects(masked, (selection.target, *sifted.inputs)),
            doubtful={name: text for name, text in raw.doubtful.items() if name in used_columns},
            given_away=selection.horizon == 0 and adds_up(rows.x, rows.y),
            moved=ordered.moved,
            repeated=ordered.repeated,
            no_clock=no_clock,
            utc=clock is not None and clock.name in raw.utc,
        ),
    )


def _clock(table: Table, selection: Selection) -> tuple[Clock | None, str]:
    if selection.time is not None:
        require_columns(table, [selection.time])
    return find_clock(table, selection.time, selection.key, exclude=(selection.target, selection.key))


def _categories(table: Table, clock: Clock | None, selection: Selection) -> Categories:
    """The columns of text that have kinds, of those that may be inputs."""
    taken = {selection.target, selection.key, *(clock.parts if clock else ())}
    wanted = table.columns if selection.features is None else selection.features
    require_columns(table, tuple(wanted))
    texts = [name for name in dict.fromkeys(wanted) if table.columns[name].dtype.kind == "O"]
    found = [(name, find_kinds(table.columns[name])) for name in texts if name not in taken]
    # A column that is called as a kind would be is left alone, and the text with it.
    return tuple(
        (name, kinds)
        for name, kinds in found
        if kinds and not any(indicator(name, kind) in table.columns for kind in kinds)
    )


def _inputs(
    table: Table, clock: Clock | None, selection: Selection, categories: dict[str, tuple[str, ...]]
) -> Sifted:
    """Those that the user names, or all that are worth having."""
    target, horizon, delay = selection.target, selection.horizon, selection.known_after
    if selection.features is not None:
        if target in selection.features and delay > horizon > 0:
            raise LatentTrackError(
                f"the target {target!r} is also a feature, and with a delay of {delay} steps its present "
                f"value is not known yet: leave it out, or give a delay of at most {horizon}."
            )
        named: list[str] = []
        for name in selection.features:
            named += [indicator(name, kind) for kind in categories[name]] if name in categories else [name]
        return Sifted(tuple(dict.fromkeys(named)), ())
    parts = clock.parts if clock else ()
    time = table.columns[clock.name] if clock else None
    return sift(
        table,
        target,
        clock=time if time is None or time.dtype.kind == "M" else None,
        without=(*parts, *([selection.key] if selection.key else [])),
        horizon=horizon,
        delay=delay,
    )


def _gaps(rows: Series, interval: np.timedelta64) -> Gaps:
    steps = (np.diff(rows.time)[np.diff(rows.key) == 0] // interval).astype(np.int64) - 1
    void = steps[steps > 0]
    return Gaps(len(void), int(void.sum()), int(void.max())) if len(void) else Gaps()


def _missing(table: Table, names: Sequence[str]) -> dict[str, int]:
    counts = {}
    for name in dict.fromkeys(names):
        column = table.columns.get(name)
        if column is not None:  # the kinds of a text are not in the file
            counts[name] = int(np.sum(column == "" if column.dtype.kind == "O" else np.isnan(column)))
    return {name: count for name, count in counts.items() if count}


def _masked(table: Table, sentinels: Sequence[Sentinel]) -> dict[Sentinel, int]:
    """How often each declared sentinel stands in the file: 0 shows a slip of the pen."""

    def count(sentinel: Sentinel) -> int:
        names = table.columns if sentinel.column is None else [sentinel.column]
        numeric = [table.columns[name] for name in names if table.columns[name].dtype.kind == "f"]
        return sum(int(np.sum(column == sentinel.value)) for column in numeric)

    return {sentinel: count(sentinel) for sentinel in sentinels}


def _suspects(table: Table, names: Sequence[str]) -> dict[Sentinel, tuple[Suspect, ...]]:
    return remedies(find_suspects(table, tuple(dict.fromkeys(names))), table)


def _suspicion(sentinel: Sentinel, where: Sequence[Suspect]) -> str:
    columns = wording.counts({suspect.column: suspect.rows for suspect in where})
    remedy = f"--sentinel {wording.quoted(str(sentinel))}"
    return f"{where[0].value:.15g} in {columns}: if it means missing, add {remedy}"
