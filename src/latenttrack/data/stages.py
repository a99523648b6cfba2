"""The stages of a feature pipeline: frozen numbers, and the same features for batch and live alike.

Every stage maps rows of one stream, `[M, F] -> [M, F']`, and may look at `depth` earlier rows: `apply`. A
live step has one row: `follow`, the same arithmetic in the same order, and so the same numbers to the last
bit, without what it takes to handle many.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from latenttrack.data.matching import choose
from latenttrack.errors import LatentTrackError

_SECOND = 1_000_000_000
# Lengths in nanoseconds; the year is the Gregorian mean of 365.2425 days.
CYCLES = {"day": 86_400 * _SECOND, "week": 604_800 * _SECOND, "year": 31_556_952 * _SECOND}
MOST_BACK = 1_000_000  # steps: all of them are kept
_MOST_WAVES = 1000
_BENDS = {"sqrt": math.sqrt, "log": math.log}


@dataclass(frozen=True)
class Stage(ABC):
    """What a pipeline needs to know of a stage."""

    @property
    def depth(self) -> int:
        """How many earlier rows of the same stream the stage looks at."""
        return 0

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the F' output columns, given those of the F input columns."""
        return inputs

    @abstractmethod
    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Transform consecutive rows of one stream.

        Args:
            x: [M, F] rows.
            time: [M] datetime64[ns] or float64 step numbers.
            past: [depth, F] the rows just before, NaN where there were none.

        Returns:
            [M, F'] rows.
        """

    def follow(self, x: np.ndarray, width: int, ticks: int | float, past: np.ndarray) -> int:
        """Transform one row, in place.

        Args:
            x: its first F numbers are the row, then its first F' what is made of it; it has room for both.
            width: F.
            ticks: its time: nanoseconds since 1970, or the step number.
            past: [depth, F] the rows just before, NaN where there were none.

        Returns:
            F'.
        """
        time = np.array([ticks], "datetime64[ns]" if isinstance(ticks, int) else np.float64)
        result: np.ndarray = self.apply(x[None, :width], time, past)[0]
        x[: len(result)] = result
        return len(result)


@dataclass(frozen=True)
class Keep(Stage):
    """Leave columns out: only the listed ones go on."""

    columns: tuple[int, ...]

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """See `Stage`."""
        return tuple(inputs[c] for c in self.columns)

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        return x[:, list(self.columns)]

    def follow(self, x: np.ndarray, width: int, ticks: int | float, past: np.ndarray) -> int:
        """See `Stage`."""
        x[: len(self.columns)] = x[:width].take(self._indices)
        return len(self.columns)

    @cached_property
    def _indices(self) -> np.ndarray:
        return np.array(self.columns, int)


@dataclass(frozen=True)
class Bend(Stage):
    """Replace a column by the square root or the logarithm of max(v - low, 0) + offset.

    Attributes:
        column: which.
        function: "sqrt" or "log".
        low: the smallest value that is meant to occur.
        offset: keeps the slope finite there.
    """

    column: int
    function: str
    low: float
    offset: float

    def __post_init__(self) -> None:
        choose("bend", self.function, _BENDS)
        if not (math.isfinite(self.low) and math.isfinite(self.offset) and self.offset > 0):
            raise LatentTrackError(
                f"bend has low {self.low} and offset {self.offset}: give a number and a positive one."
            )

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        bent = x.copy()
        bent[:, self.column] = bend_values(x[:, self.column], self.function, self.low, self.offset)
        return bent


def bend_values(values: np.ndarray, function: str, low: float, offset: float) -> np.ndarray:
    """[N] the square root or the logarithm of max(v - low, 0) + offset; see `Bend`."""
    # math, not numpy, for the same reason as in `Calendar`.
    return np.array([_BENDS[function](v) for v in (np.maximum(values - low, 0.0) + offset).tolist()])


@dataclass(frozen=True)
class Sentinels(Stage):
    """Turn declared values, such as -9999, into missing ones."""

    values: tuple[float, ...]

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        return np.where((x[..., None] == self.values).any(axis=-1), np.nan, x)


@dataclass(frozen=True)
class MissingIndicator(Stage):
    """Append a 0/1 column `NAME_missing` for each listed column."""

    columns: tuple[int, ...]

    @classmethod
    def fit(cls, x: np.ndarray) -> "MissingIndicator":
        """List the columns of x [N, F] that have missing values."""
        return cls(tuple(np.flatnonzero(np.isnan(x).any(axis=0)).tolist()))

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """See `Stage`."""
        return (*inputs, *(f"{inputs[c]}_missing" for c in self.columns))

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        return np.hstack([x, np.isnan(x[:, list(self.columns)])])

    def follow(self, x: np.ndarray, width: int, ticks: int | float, past: np.ndarray) -> int:
        """See `Stage`."""
        # A loop over numbers: for as few columns as have gaps, arrays would take longer.
        row, end = x[:width], width
        for column in self.columns:
            x[end] = math.isnan(row[column])
            end += 1
        return end


@dataclass(frozen=True)
class Lags(Stage):
    """Append earlier values, or the changes since: `(column, steps back)` for each new column.

    Attributes:
        pairs: which; a column is called `NAME_lagN`, or `NAME_diffN` for a change.
        difference: give x_t - x_{t-N} instead of x_{t-N}.
    """

    pairs: tuple[tuple[int, int], ...]
    difference: bool = False

    def __post_init__(self) -> None:
        if not self.pairs or not all(0 < lag <= MOST_BACK for _, lag in self.pairs):
            raise LatentTrackError(f"a lag is not between 1 and {MOST_BACK} steps: give another one.")

    @cached_property
    def depth(self) -> int:
        """See `Stage`."""
        return max(lag for _, lag in self.pairs)

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """See `Stage`."""
        kind = "diff" if self.difference else "lag"
        return (*inputs, *(f"{inputs[column]}_{kind}{lag}" for column, lag in self.pairs))

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        rows, depth = np.vstack([past, x]), self.depth
        # Fancy indexing picks all lags at once: row t of the batch is row t + depth of `rows`.
        columns, lags = np.array(self.pairs).T
        here = np.arange(depth, depth + len(x))[:, None]
        earlier = rows[here - lags, columns]
        return np.hstack([x, x[:, columns] - earlier if self.difference else earlier])

    def follow(self, x: np.ndarray, width: int, ticks: int | float, past: np.ndarray) -> int:
        """See `Stage`."""
        places = self._places.get(width)
        if places is None:
            back = self.depth - np.array([lag for _, lag in self.pairs])
            places = self._places[width] = back * width + self._columns
        end, earlier = width + len(places), past.take(places)
        if self.difference:
            np.subtract(x[:width].take(self._columns), earlier, out=x[width:end])
        else:
            x[width:end] = earlier
        return end

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.array([column for column, _ in self.pairs])

    @cached_property
    def _places(self) -> dict[int, np.ndarray]:
        """Where they are in rows one after another, by the width of these: so they are soonest picked."""
        return {}


@dataclass(frozen=True)
class Ticks(Stage):
    """Append the time itself: seconds since 1970 with a clock, else the step number."""

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """See `Stage`."""
        return (*inputs, "time")

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        return np.column_stack([x, to_ticks(time) / _SECOND if time.dtype.kind == "M" else time])

    def follow(self, x: np.ndarray, width: int, ticks: int | float, past: np.ndarray) -> int:
        """See `Stage`."""
        x[width] = float(ticks) / _SECOND if isinstance(ticks, int) else ticks
        return width + 1


@dataclass(frozen=True)
class Standardise(Stage):
    """Centre and scale each column with the training part's numbers; missing becomes 0, the training mean.

    Attributes:
        loc: F means.
        scale: F standard deviations.
        clip: bound on the result in standard deviations, None for no bound.
        y_loc: the label's mean, 0 when labels are left alone.
        y_scale: the label's standard deviation, 1 when labels are left alone.
    """

    loc: tuple[float, ...]
    scale: tuple[float, ...]
    clip: float | None = None
    y_loc: float = 0.0
    y_scale: float = 1.0

    def __post_init__(self) -> None:
        if len(self.loc) != len(self.scale):
            raise LatentTrackError(
                f"there are {len(self.loc)} means and {len(self.scale)} standard deviations: give as many."
            )

    @classmethod
    def fit(
        cls, x: np.ndarray, y: np.ndarray, plain: Sequence[int], clip: float | None, target: bool
    ) -> "Standardise":
        """Measure a training part.

        Args:
            x: [N, F] rows, NaN where missing.
            y: [N] labels, NaN where missing.
            plain: columns to leave as they are (0/1 flags, whose rare ones would become huge).
            clip: see the class.
            target: whether to standardise the labels too.

        Returns:
            The stage.
        """
        moments = [(0.0, 1.0) if i in plain else _moments(column) for i, column in enumerate(x.T)]
        y_loc, y_scale = _moments(y) if target else (0.0, 1.0)
        return cls(tuple(m for m, _ in moments), tuple(s for _, s in moments), clip, y_loc, y_scale)

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.loc), np.array(self.scale)

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        loc, scale = self._arrays
        z = (x - loc) / scale
        if self.clip is not None:
            z = np.clip(z, -self.clip, self.clip)
        return np.where(np.isnan(z), 0.0, z)

    def follow(self, x: np.ndarray, width: int, ticks: int | float, past: np.ndarray) -> int:
        """See `Stage`."""
        loc, scale = self._arrays
        z = x[:width]
        z -= loc
        z /= scale
        if self.clip is not None:
            np.minimum(np.maximum(z, -self.clip, out=z), self.clip, out=z)
        z[np.isnan(z)] = 0.0
        return width


@dataclass(frozen=True)
class Calendar(Stage):
    """Append sine and cosine of the time of day, week, year or season: `day_sin1`, `day_cos1`, ...

    Attributes:
        cycles: (name, length, harmonics); the length in nanoseconds for a clock, in steps without one.
    """

    cycles: tuple[tuple[str, int, int], ...]

    def __post_init__(self) -> None:
        if not all(length > 0 and 0 <= harmonics <= _MOST_WAVES for _, length, harmonics in self.cycles):
            raise LatentTrackError(
                f"a cycle has no length, or more than {_MOST_WAVES} harmonics: give fewer."
            )

    def names(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """See `Stage`."""
        waves = [
            f"{name}_{wave}{k + 1}" for name, _, n in self.cycles for k in range(n) for wave in ("sin", "cos")
        ]
        return (*inputs, *waves)

    def apply(self, x: np.ndarray, time: np.ndarray, past: np.ndarray) -> np.ndarray:
        """See `Stage`."""
        ticks, columns = to_ticks(time), [x]
        for _, length, harmonics in self.cycles:
            # Reduced before it becomes a float, so that nanoseconds since 1970 lose nothing.
            phase = (ticks % length) / length
            for k in range(harmonics):
                # math, not numpy: numpy's vectorised sine may differ in the last bit with the array's length.
                angles = (2 * math.pi * (k + 1) * phase).tolist()
                columns.append(np.array([(math.sin(a), math.cos(a)) for a in angles]))
        return np.hstack(columns)

    def follow(self, x: np.ndarray, width: int, ticks: int | float, past: np.ndarray) -> int:
        """See `Stage`."""
        waves: list[float] = []
        for length, size, speeds in self._speeds:
            # As numpy divides integers: as floats. Python's own quotient of them may differ in the last bit.
            phase = float(ticks % length) / size
            for speed in speeds:
                angle = speed * phase
                waves += (math.sin(angle), math.cos(angle))
        end = width + len(waves)
        x[width:end] = waves
        return end

    @cached_property
    def _speeds(self) -> list[tuple[int, float, list[float]]]:
        """Length of each cycle, the same as a float, and what the phase is multiplied by in each harmonic."""
        return [
            (length, float(length), [2 * math.pi * (k + 1) for k in range(harmonics)])
            for _, length, harmonics in self.cycles
        ]


def to_ticks(time: np.ndarray) -> np.ndarray:
    """[N] nanoseconds since 1970 of datetime64[ns], step numbers as they are."""
    return time.astype(np.int64) if time.dtype.kind == "M" else time


def elapsed_stages(columns: int, step: float, clock: bool) -> tuple[Stage, ...]:
    """Append log(e + s), e being the time since the row before and s the usual one.

    Args:
        columns: how many there are before.
        step: s, in nanoseconds with a clock, else in steps.
        clock: whether there is one.
    """
    usual = step / _SECOND if clock else step
    return (
        Ticks(),
        Lags(((columns, 1),), True),
        Keep((*range(columns), columns + 1)),
        Bend(columns, "log", 0.0, usual if usual > 0 else 1.0),
    )


def _moments(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of what is known; 0 and 1 if nothing is, 1 for a constant."""
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return 0.0, 1.0
    return float(known.mean()), float(known.std()) if known.min() < known.max() else 1.0
