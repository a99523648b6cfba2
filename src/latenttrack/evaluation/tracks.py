"""Tracks as data: what is predicted, when its label is known, and what a sentinel means.

A track says nothing about features, settings or training: those belong to presets (training/presets.py), so
that any model runs on any track.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latenttrack.data.describing import Selection, understand
from latenttrack.data.embedded import airports
from latenttrack.data.jena import MEASUREMENTS, SENTINEL, jena_series
from latenttrack.data.matching import choose
from latenttrack.data.public import public_series
from latenttrack.data.series import Series


@dataclass(frozen=True)
class Track:
    """One protocol on one dataset.

    Attributes:
        name: as typed.
        summary: one line for people.
        presets: the family of presets it is run with (training/presets.py).
        dataset: which of `LOADERS`.
        horizon: rows ahead.
        delay: steps until a label is known; 1: before the next step.
        sentinels: "keep" or "missing": what becomes of the value that stands for a failed sensor.
        without: measurements that are left out.
        fraction: share of the rows before the cut between training and test.
        file: a user's own file, for the dataset "file".
        compared: which models are run unless told otherwise: "paper" those of the paper and references,
            "honest" what one would use, "both" all of these.
    """

    name: str
    summary: str
    presets: str
    dataset: str = "jena"
    horizon: int = 6
    delay: int = 1
    sentinels: str = "keep"
    without: tuple[str, ...] = ()
    fraction: float = 0.7
    compared: str = "honest"
    file: Selection | None = None

    @property
    def sentinel(self) -> float:
        """The value that stands for a failed sensor; NaN, which equals nothing, where there is none."""
        return SENTINEL if self.dataset == "jena" else float("nan")

    def load(self, data_dir: str | Path | None = None) -> Series:
        """The whole stream, before features and before the cut."""
        return LOADERS[self.dataset](self, data_dir)


def _jena(track: Track, data_dir: str | Path | None) -> Series:
    return jena_series(
        data_dir,
        horizon=track.horizon,
        delay=track.delay,
        sentinels="missing" if track.sentinels == "missing" else "keep",
        features=tuple(name for name in MEASUREMENTS if name not in track.without),
    )


def _airports(track: Track, data_dir: str | Path | None) -> Series:
    del track, data_dir
    return airports()


def _public(track: Track, data_dir: str | Path | None) -> Series:
    return public_series(track.dataset, data_dir, horizon=track.horizon, delay=track.delay)


def _file(track: Track, data_dir: str | Path | None) -> Series:
    """As `latenttrack fit` reads it."""
    del data_dir
    assert track.file is not None
    return understand(track.file).series


LOADERS: dict[str, Callable[[Track, str | Path | None], Series]] = {
    "jena": _jena,
    "airports": _airports,
    "etth1": _public,
    "bike": _public,
    "file": _file,
}

_PAPER = "Jena, temperature 6 hours ahead, label known before the next hour (as published)"


def _paper(name: str, summary: str, presets: str, **changes: Any) -> Track:
    """The paper's protocol, or a variant of it."""
    return Track(name, f"{_PAPER}; {summary}", presets, **{"compared": "paper", **changes})


def _honest(name: str, what: str, hours: int, **changes: Any) -> Track:
    """A label is known when it is measured: as many hours later as it lies ahead."""
    ahead = "in the next hour" if hours == 1 else f"{hours} hours ahead"
    summary = f"{what} {ahead}, label known when it is measured"
    return Track(name, summary, "bounded", horizon=hours, delay=hours, **changes)


TRACKS = {
    track.name: track
    for track in (
        _paper("paper", "raw sentinels, ReLU", "paper"),
        _paper("paper-clean", "sentinels are missing, tanh", "bounded", sentinels="missing", compared="both"),
        _paper(
            "paper-no-temperature",
            "inputs without T, Tpot and VPmax, which give the temperature away",
            "paper",
            without=("T", "Tpot", "VPmax"),
        ),
        _paper("paper-raw-target", "target in degrees, not standardised", "raw-target"),
        _paper("paper-raw", "neither inputs nor target standardised", "raw"),
        _honest("next-hour", "Jena, temperature", 1, sentinels="missing"),
        _honest("six-hours", "Jena, temperature", 6, sentinels="missing"),
        _honest("etth1-next-hour", "transformer, oil temperature", 1, dataset="etth1"),
        _honest("etth1-six-hours", "transformer, oil temperature", 6, dataset="etth1"),
        _honest("bike-next-hour", "bike sharing, bikes rented", 1, dataset="bike"),
        _honest("bike-six-hours", "bike sharing, bikes rented", 6, dataset="bike"),
        Track(
            "airports",
            "three New York airports, temperature of the next hour; comes with the package",
            "bounded",
            dataset="airports",
            horizon=1,
        ),
    )
}


def file_track(file: Selection) -> Track:
    """A track on a user's own file, read as `latenttrack fit` reads it."""
    path, horizon = Path(str(file.source)), file.horizon
    ahead = f"{horizon} step{'s' if horizon > 1 else ''} ahead" if horizon else "from the other columns"
    return Track(
        path.name.split(".")[0],
        f"{path}, {file.target} {ahead}",
        "bounded",
        dataset="file",
        horizon=horizon,
        delay=file.known_after,
        sentinels="missing",
        file=file,
    )


def find_track(name: str) -> Track:
    """A track by its name."""
    return choose("track", name, TRACKS)
