"""The mean season as an input: what the label was at this time of the week, on average.

Waves of few harmonics cannot draw a rush hour, nor that there is none on Saturdays; a table of means can.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from latenttrack.data.cycles import usual_step
from latenttrack.data.series import Series
from latenttrack.data.stages import Stage, bend_values, to_ticks
from latenttrack.errors import LatentTrackError

_MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Profile(Stage):
    """Append m_i, the mean label of the cell i of the season that a row falls in, and m_i - m_{i-back}.

    Attributes:
        width: of a cell, in nanoseconds with a clock, else in steps.
        means: of the season's n cells, of the label as it is an input.
        back: cells.
    """

    width: int
    means: tuple[float, ...]
    back: int

    def __post_init__(self) -> None:
        if self.width < 1 or not 1 <= len(self.means) <= _MOST_CELLS or self.back < 0:
            raise LatentTrackError("the mean season has no cells, or too many: give means and a width.")
        if not all(math.isfinite(mean) for mean in self.means):
            raise LatentTrackError("a mean of the season is not a number: give finite ones.")

    @classmethod
    def fit(cls, train: Series, season: int, bend: Mapping[str, Any] | None) -> "Profile":
        """Average the labels of a training part; a cell without any has the mean of all.

        Args:
            train: its labels, NaN where unknown.
            season: steps; a cell is a step.
            bend: see `Pipeline.fit`.
        """
        if season < 2:
            raise LatentTrackError(f"profile is {season}: give the number of steps in a season, 2 or more.")
        width = max(round(usual_step(train)), 1)
        known = ~np.isnan(train.y)
        labels = train.y[known]
        if bend is not None:
            labels = bend_values(labels, bend["kind"], bend["low"], bend["offset"])
        cell = _cells(to_ticks(train.time[known]), width, season)
        count, total = np.bincount(cell, minlength=season), np.bincount(cell, labels, minlength=season)
        usual = labels.mean() if len(labels) else 0.0
        means = np.where(count > 0, total / np.maximum(count, 1), usual)
        return cls(width, tuple(means.tolist()), train.delay)

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """See `Stage`."""
        return (*inputs, "season_mean", f"season_mean_diff{self.back}")

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        return np.hstack([x, self._columns[_cells(to_ticks(time), self.width, len(self.means))]])

    def follow(self, x: np.ndarray, width: int, ticks: int | float, past: np.ndarray) -> int:
        """See `Stage`."""
        cell = int(ticks % (self.width * len(self.means)) // self.width)
        x[width : width + 2] = self._columns[cell]
        return width + 2

    @cached_property
    def _columns(self) -> np.ndarray:
        means = np.array(self.means)
        return np.column_stack([means, means - np.roll(means, self.back)])


def _cells(ticks: np.ndarray, width: int, count: int) -> np.ndarray:
    """[N] the cell of a season that each time falls in."""
    return (ticks % (width * count) // width).astype(int)
