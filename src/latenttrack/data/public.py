"""Public hourly streams that a user downloads once: an electricity transformer and a bike-sharing scheme."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from latenttrack.data.cache import data_directories
from latenttrack.data.matching import choose
from latenttrack.data.reading import to_series
from latenttrack.data.series import Series
from latenttrack.data.tables import Table, read_table
from latenttrack.errors import LatentTrackError

_HOUR = np.timedelta64(3_600_000_000_000, "ns")


@dataclass(frozen=True)
class Public:
    """A public file, and what of it is used.

    Attributes:
        title: what it is, for messages.
        address: of the page or file to download.
        files: the names under which it is looked for, each also with `.gz`.
        target: the column to predict.
        meaning: the target in words, with its unit.
        inputs: the other columns that are inputs. None of them gives the target of their own hour away.
        time: from the table to the time of every row.
        clock: the columns that `time` reads.
    """

    title: str
    address: str
    files: tuple[str, ...]
    target: str
    meaning: str
    inputs: tuple[str, ...]
    time: Callable[[Table], np.ndarray]
    clock: tuple[str, ...]


def _date(table: Table) -> np.ndarray:
    return table.columns["date"]


def _day_and_hour(table: Table) -> np.ndarray:
    return table.columns["dteday"] + table.columns["hr"].astype(np.int64) * _HOUR


PUBLIC = {
    "etth1": Public(
        title="the ETTh1 file (an electricity transformer, hourly, 2016 to 2018)",
        address="https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/ETTh1.csv",
        files=("etth1.csv", "ETTh1.csv"),
        target="OT",
        meaning="oil temperature (°C)",
        inputs=("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL"),
        time=_date,
        clock=("date",),
    ),
    # `casual` + `registered` is the target itself. `instant` numbers the rows, and `season`, `yr`, `mnth`,
    # `hr` and `weekday` repeat the clock, which features take from the time.
    "bike": Public(
        title="the hourly bike sharing file (Washington, 2011 and 2012)",
        address="https://archive.ics.uci.edu/dataset/275/bike+sharing+dataset",
        files=("bike_hour.csv", "hour.csv"),
        target="cnt",
        meaning="bikes rented in an hour",
        inputs=("holiday", "workingday", "weathersit", "temp", "atemp", "hum", "windspeed"),
        time=_day_and_hour,
        clock=("dteday", "hr"),
    ),
}


def public_series(
    name: str, data_dir: str | Path | None = None, *, horizon: int = 1, delay: int | None = None
) -> Series:
    """Load a public stream from the user's copy of its file, on its hourly grid.

    Hours without a row become rows of missing values, so that a step is always an hour. The target's own
    present value is an input too where the protocol has it: where labels are known `horizon` steps later, or
    sooner.

    Args:
        name: one of `PUBLIC`.
        data_dir: the folder to look in; None: see `data_directories`.
        horizon: hours ahead; 0 predicts the present value from the other columns.
        delay: steps until a label is known; None takes max(horizon, 1).

    Returns:
        x [N, F], y [N] with the last `horizon` missing, period 24.
    """
    source = choose("public dataset", name, PUBLIC)
    raw = read_table(_find(source, data_dir))
    _check(raw, source)
    known = horizon >= (max(horizon, 1) if delay is None else delay)
    inputs = (*source.inputs, source.target) if known else source.inputs
    columns = {"time": source.time(raw)} | {c: raw.columns[c] for c in (*source.inputs, source.target)}
    series = to_series(
        Table(columns, raw.source),
        target=source.target,
        time="time",
        features=inputs,
        horizon=horizon,
        delay=delay,
        grid=True,
        period=24,
    )
    return replace(series, target=source.meaning)


def _find(source: Public, data_dir: str | Path | None) -> Path:
    folders = data_directories(data_dir)
    for name in source.files:
        for path in (folder / (name + ending) for folder in folders for ending in ("", ".gz")):
            if path.is_file():
                return path
    raise LatentTrackError(
        f"there is no {' or '.join(source.files)} in {' or '.join(map(str, folders))}: "
        f"download {source.title} from {source.address} and put it there, "
        "or point --data-dir or LATENTTRACK_DATA to a folder that holds it."
    )


def _check(raw: Table, source: Public) -> None:
    """Refuse another file of the same name."""
    dates = source.clock[0]
    for name in (*source.clock, *source.inputs, source.target):
        kind, what = ("M", "dates") if name == dates else ("f", "numbers")
        if name not in raw.columns or raw.columns[name].dtype.kind != kind:
            raise LatentTrackError(
                f"{raw.source} has no column of {what} {name!r}, so it is not {source.title}: "
                f"download that from {source.address}."
            )
    for name in source.clock:
        column = raw.columns[name]
        empty = np.isnat(column) if name == dates else np.isnan(column)
        if empty.any():
            row = np.flatnonzero(empty)[0] + 1
            raise LatentTrackError(f"{raw.source} has no {name!r} in row {row}: download the file again.")
