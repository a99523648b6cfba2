"""`Series`: one or several labelled streams, checked once and then trusted by every other room."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from latenttrack.errors import LatentTrackError

# Standard deviations of labels: beyond, single precision holds their squares badly or not at all.
_LEAST_SPREAD, _MOST_SPREAD = 1e-15, 1e15


@dataclass(frozen=True)
class Sequences:
    """The streams of a `Series` as one padded batch of B streams of T steps; padding is at the end.

    Attributes:
        x: [B, T, F] float32, 0 on padding, NaN where missing.
        y: [B, T] float32, NaN where missing or padded.
        valid: [B, T] bool, False on padding.
        row: [B, T] int64, the row of the `Series` (0 on padding).
    """

    x: np.ndarray
    y: np.ndarray
    valid: np.ndarray
    row: np.ndarray


@dataclass(frozen=True, eq=False)
class Series:
    """N rows of features and labels: the rows of key 0, then of key 1, ..., each in order of time.

    Attributes:
        x: [N, F] float64, NaN = missing.
        y: [N] float64, NaN = label missing.
        time: [N] datetime64[ns], or float64 step numbers when the stream has no clock.
        names: the F feature names.
        target: the label's name.
        keys: the names of the streams held.
        key: [N] int32, index into `keys`; left out, all rows belong to the first.
        delay: D >= 1; the label of step s is known before step s + D is predicted.
            1 means no delay: predict, observe, update.
        y_loc: the original label is `y_loc + y_scale * y`.
        y_scale: see `y_loc`.
        period: steps in the main season (24 for hourly data), None if unknown.
        source: the column whose value `horizon` rows later is the label; None if labels come from elsewhere.
        horizon: see `source`.
        sentinels: (value, column) that meant "missing" where the series came from, column None for all; here
            they are NaN already.
        categories: columns of text, and the kinds of each, at least one of them a feature here
            (data/categories.py).
    """

    x: np.ndarray
    y: np.ndarray
    time: np.ndarray
    names: tuple[str, ...]
    target: str = "y"
    keys: tuple[str, ...] = ("",)
    key: np.ndarray = None  # type: ignore[assignment]  # None is replaced by an array below
    delay: int = 1
    y_loc: float = 0.0
    y_scale: float = 1.0
    period: int | None = None
    source: str | None = None
    horizon: int = 0
    sentinels: tuple[tuple[float, str | None], ...] = ()
    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        x, y, time = _floats("x", self.x), _floats("y", self.y), _times(self.time)
        key = np.zeros(len(y), np.int32) if np.ndim(self.key) == 0 else np.asarray(self.key, np.int32)
        names = tuple(self.names)
        for name, value in {"x": x, "y": y, "time": time, "key": key, "names": names}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "keys", tuple(self.keys))
        self._check_shapes()
        self._check_settings()
        _check_finite(x, names)
        _check_finite(y[:, None], (self.target,))
        _check_keys(key, self.keys)
        check_times(time, key, self.keys)

    def _check_shapes(self) -> None:
        if self.x.ndim != 2 or self.y.ndim != 1 or len(self.x) != len(self.y):
            raise LatentTrackError(
                f"x has shape {self.x.shape} and y has shape {self.y.shape}: "
                "they must be [rows, features] and [rows] with the same number of rows."
            )
        for name, value in {"time": self.time, "key": self.key}.items():
            if value.shape != self.y.shape:
                raise LatentTrackError(
                    f"{name} has shape {value.shape} and y has shape {self.y.shape}: give one {name} per row."
                )
        if len(self.y) == 0:
            raise LatentTrackError("the series has no rows: give at least one.")
        if len(self.names) != self.x.shape[1]:
            raise LatentTrackError(
                f"names has {len(self.names)} entries and x has shape {self.x.shape}: "
                "give one name per feature column."
            )

    def _check_settings(self) -> None:
        repeated = next((n for i, n in enumerate(self.names) if n in self.names[:i]), None)
        if repeated is not None:
            raise LatentTrackError(f"the feature name {repeated!r} occurs twice: rename one of the columns.")
        for name in ("delay", "period"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, int | np.integer):
                raise LatentTrackError(f"{name} is {value!r}: it must be a whole number of steps.")
        if self.delay < 1:
            raise LatentTrackError(
                f"delay is {self.delay}: it must be at least 1, which means that the label "
                "of a step is known before the next step is predicted."
            )
        if not (np.isfinite(self.y_loc) and np.isfinite(self.y_scale) and self.y_scale > 0):
            raise LatentTrackError(
                f"y_loc is {self.y_loc} and y_scale is {self.y_scale}: the scale must be positive."
            )
        if self.period is not None and self.period < 1:
            raise LatentTrackError(f"period is {self.period}: give a positive number of steps, or None.")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def has_clock(self) -> bool:
        """Whether `time` holds dates and times rather than step numbers."""
        return self.time.dtype.kind == "M"

    def select(self, rows: np.ndarray) -> "Series":
        """Keep some rows; `keys` stays as it is, so that indices into it keep their meaning.

        Args:
            rows: [N] bool mask, or [M] increasing row numbers.

        Returns:
            The series of these rows.
        """
        rows = np.asarray(rows)
        return replace(self, x=self.x[rows], y=self.y[rows], time=self.time[rows], key=self.key[rows])

    def split(self, fraction: float) -> tuple["Series", "Series"]:
        """Cut in time: the past holds about `fraction` of all rows, the future the rest.

        All keys share the one cut, so that no stream's past overlaps another's future.

        Args:
            fraction: share of the rows before the cut, between 0 and 1.

        Returns:
            (past, future); every time in the past is earlier than every time in the future.
        """
        if not 0 < fraction < 1:
            raise LatentTrackError(f"fraction is {fraction}: it must lie strictly between 0 and 1.")
        position = min(round(fraction * len(self)), len(self) - 1)
        past = self.time < np.sort(self.time)[position]
        if not past.any():
            raise LatentTrackError(
                f"a split at fraction {fraction} of {len(self)} rows leaves one part empty: "
                "give more rows or another fraction."
            )
        return self.select(past), self.select(~past)

    def sequences(self) -> Sequences:
        """Lay the streams side by side as a batch: B = number of keys, T = length of the longest."""
        counts = np.bincount(self.key, minlength=len(self.keys))
        valid = np.arange(counts.max()) < counts[:, None]
        row = np.zeros(valid.shape, np.int64)
        row[valid] = np.arange(len(self))  # rows are grouped by key: row-major order is their order
        x = np.zeros((*valid.shape, self.x.shape[1]), np.float32)
        y = np.full(valid.shape, np.nan, np.float32)
        x[valid] = self.x
        y[valid] = self.y
        return Sequences(x, y, valid, row)


def require_learnable(series: Series, minimum: int = 64) -> None:
    """Refuse a series from which nothing can be learned.

    Args:
        series: the training part.
        minimum: the least number of labelled rows.

    Raises:
        LatentTrackError: when labels are all missing, too few, all the same, or too large or small to square.
    """
    labels = series.y[~np.isnan(series.y)]
    if len(labels) == 0:
        raise LatentTrackError(f"all labels of {series.target!r} are missing: choose another target column.")
    if len(labels) < minimum:
        raise LatentTrackError(
            f"the training part has {len(labels)} rows with a label in {series.target!r}: "
            f"at least {minimum} are needed, so give more rows."
        )
    if labels.min() == labels.max():
        value = series.y_loc + series.y_scale * labels[0]
        raise LatentTrackError(
            f"the target {series.target!r} is constant (always {value:g}) in the training part: "
            "there is nothing to learn, so choose another target or more rows."
        )
    largest = np.abs(labels).max()
    spread = series.y_scale * largest * float(np.std(labels / largest))  # squares of 1e200 would be infinite
    if not _LEAST_SPREAD <= spread <= _MOST_SPREAD:
        raise LatentTrackError(
            f"the target {series.target!r} has a standard deviation of {spread:.3g}, which cannot be "
            "computed with: correct what is far out, or give it in other units, so that it lies "
            f"between {_LEAST_SPREAD:g} and {_MOST_SPREAD:g}."
        )


def check_times(time: np.ndarray, key: np.ndarray, keys: Sequence[str], what: str = "times") -> None:
    """Demand strictly increasing times inside each key.

    Args:
        time: [N] datetime64[ns] or float64.
        key: [N] int, index into `keys`, rows grouped by key.
        keys: names of the streams.
        what: what to call the times in the message.

    Raises:
        LatentTrackError: names the key and the first time that is out of order or repeated.
    """
    missing = np.flatnonzero(np.isnat(time) if time.dtype.kind == "M" else ~np.isfinite(time))
    if len(missing):
        raise LatentTrackError(f"the time of row {missing[0] + 1} is missing: fill it in or remove the row.")
    wrong = np.flatnonzero((time[1:] <= time[:-1]) & (key[1:] == key[:-1])) + 1
    if len(wrong) == 0:
        return
    i = wrong[0]
    what += f" of key {keys[key[i]]!r}" if keys[key[i]] else ""
    if time[i] == time[i - 1]:
        raise LatentTrackError(
            f"the {what} are not unique: {show_time(time[i])} occurs twice, "
            "so drop the duplicate rows (or name the key column if the rows belong to several streams)."
        )
    raise LatentTrackError(
        f"the {what} are not sorted: {show_time(time[i])} comes after {show_time(time[i - 1])}, "
        "so sort the rows by time (or name the key column if the rows belong to several streams)."
    )


def show_time(time: np.datetime64 | float) -> str:
    """Write a time for a message: seconds for a clock, the bare number for a step."""
    return str(time.astype("datetime64[s]")) if isinstance(time, np.datetime64) else f"step {time:g}"


def _floats(name: str, values: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise LatentTrackError(f"{name} is not an array of numbers: convert it to float64.") from None


def _times(values: np.ndarray) -> np.ndarray:
    times = np.asarray(values)
    try:
        return times.astype(np.float64 if times.dtype.kind in "iuf" else "datetime64[ns]", copy=False)
    except (TypeError, ValueError):
        raise LatentTrackError("time holds neither datetime64 values nor step numbers: convert it.") from None


def _check_finite(values: np.ndarray, names: Sequence[str]) -> None:
    rows, columns = np.nonzero(np.isinf(values))
    if len(rows):
        raise LatentTrackError(
            f"column {names[columns[0]]!r} is infinite in row {rows[0] + 1}: "
            "replace the value by NaN if it means missing, or remove the row."
        )


def _check_keys(key: np.ndarray, keys: Sequence[str]) -> None:
    if key.min() < 0 or key.max() >= len(keys):
        raise LatentTrackError(
            f"key runs from {key.min()} to {key.max()} and there are {len(keys)} keys: "
            "each entry must be an index into keys."
        )
    wrong = np.flatnonzero(np.diff(key) < 0)
    if len(wrong):
        raise LatentTrackError(
            f"the rows of key {keys[key[wrong[0] + 1]]!r} do not stand together in the order of keys: "
            "group the rows by key."
        )
