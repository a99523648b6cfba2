"""Tracks as data: what is predicted, when its label is known, and what a sentinel means.

A track says nothing about features, models or training: those belong to presets (training/presets.py), so
that any model runs on any track.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from latenttrack.data.embedded import airports
from latenttrack.data.jena import MEASUREMENTS, SENTINEL, jena_series
from latenttrack.data.matching import choose
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


LOADERS: dict[str, Callable[[Track, str | Path | None], Series]] = {"jena": _jena, "airports": _airports}

_PAPER = "Jena, temperature 6 hours ahead, label known before the next hour (as published)"

TRACKS = {
    track.name: track
    for track in (
        Track("paper", f"{_PAPER}; raw sentinels, ReLU", "paper"),
        Track("paper-clean", f"{_PAPER}; sentinels are missing, tanh", "bounded", sentinels="missing"),
        Track(
            "paper-no-temperature",
            f"{_PAPER}; inputs without T, Tpot and VPmax, which give the temperature away",
            "paper",
            without=("T", "Tpot", "VPmax"),
        ),
        Track("paper-raw-target", f"{_PAPER}; target in degrees, not standardised", "raw-target"),
        Track("paper-raw", f"{_PAPER}; neither inputs nor target standardised", "raw"),
        Track(
            "airports",
            "three New York airports, temperature of the next hour; comes with the package",
            "bounded",
            dataset="airports",
            horizon=1,
        ),
    )
}


def find_track(name: str) -> Track:
    """A track by its name."""
    return choose("track", name, TRACKS)
