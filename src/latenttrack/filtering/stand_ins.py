"""Rows that stand for those of the future that are not known: earlier ones, at the same time of the season.

A model is trained on rows that belong together, and far from them it may say anything: the mean of every
column is no such row, and a column like the hour of the day must go on as it does. So each path takes what it
does not know from an earlier season of the stream, one path from the last, another from the one before: that
they differ is how little is known. Without a season it is one of the newest rows, held.
"""

import numpy as np
from jaxtyping import Float

from latenttrack.filtering.log import Log

_MOST_SEASONS = 4


class StandIns:
    """Rows for the unknown measurements of S paths.

    Args:
        log: of a live filter, with at least one step.
        season: steps after which measurements come again; one too long for the log counts as none, 1.
        samples: S.
    """

    def __init__(self, log: Log, season: int, samples: int):
        self._log, self._end = log, log.first + len(log)
        self._season = season if season <= len(log) else 1
        seasons = min(len(log) // self._season, _MOST_SEASONS)
        self._which = np.arange(samples) % seasons

    def rows(self, number: int) -> Float[np.ndarray, "S F"]:
        """For a step to come; NaN where the earlier row has none either."""
        ahead = number - self._end
        newest = number - self._season * (1 + ahead // self._season)
        seasons = range(int(self._which.max()) + 1)
        rows = np.array([self._row(newest - self._season * k) for k in seasons])
        return rows[self._which]

    def _row(self, number: int) -> np.ndarray:
        entry = self._log.get(number)
        assert entry is not None  # all these seasons are in the log
        return entry.row
