"""`Feed`: how the rows of a live stream are read, so that they mean what the training data meant."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from numbers import Real
from typing import Any

import numpy as np

from latenttrack.data.categories import Categories, indicator, spread_event
from latenttrack.data.columns import MISSING, times_from_text
from latenttrack.data.cycles import grid_step
from latenttrack.data.epochs import to_microseconds
from latenttrack.data.matching import short, shown
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError

_EPOCH = datetime(1970, 1, 1)
MOST_STEPS = 100_000  # of delay and horizon: as many are kept
_MOST_UNKNOWN = 8
_ABSENT = object()
_NANOSECONDS = np.dtype("datetime64[ns]")
_BASIC_DATE = len("20260131")
_DIGITS = tuple(f"{n:02}" for n in range(60))
_DOUBLE = np.dtype(np.float64)


@dataclass(frozen=True)
class Feed:
    """What a live row holds, and when.

    Attributes:
        inputs: names of the F measurements, in the order of the pipeline's.
        target: name of what is predicted.
        delay: D; the label of step s is taken in before step s + D is predicted.
        source: the measurement whose value at step s + h is the label of step s, None if labels come from
            elsewhere.
        horizon: h; see `source`.
        clock: whether steps have dates and times.
        interval: nanoseconds between two steps (with a clock), None if the rows lie on no regular grid: then
            every row is the next step.
        sentinels: (value, measurement) that mean "missing", measurement None for all of them.
        limits: (low, high) of each measurement, beyond which a value is not plausible; none given: no limits.
        target_limits: the same for labels.
        categories: measurements that are text, and the kinds of each, at least one of them among `inputs`.
    """

    inputs: tuple[str, ...]
    target: str
    delay: int = 1
    source: str | None = None
    horizon: int = 0
    clock: bool = True
    interval: int | None = None
    sentinels: tuple[tuple[float, str | None], ...] = ()
    limits: tuple[tuple[float, float], ...] = ()
    target_limits: tuple[float, float] = (-math.inf, math.inf)
    categories: Categories = ()

    def __post_init__(self) -> None:
        if not self.limits:
            object.__setattr__(self, "limits", ((-math.inf, math.inf),) * len(self.inputs))
        sizes = {"delay": (self.delay, 1), "horizon": (self.horizon, 0)}
        for name, (value, least) in sizes.items():
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_STEPS:
                raise LatentTrackError(
                    f"the {name} is {shown(value)}: give a whole number from {least} to {MOST_STEPS}."
                )
        if self.interval is not None and not (type(self.interval) is int and 0 < self.interval < 2**62):
            raise LatentTrackError(f"the interval is {shown(self.interval)}: give a positive whole number.")
        if len(self.limits) != len(self.inputs) or any(
            len(p) != 2 for p in (*self.limits, self.target_limits)
        ):
            raise LatentTrackError("there is not one pair of limits for each measurement: give as many.")
        if not all(isinstance(v, int | float) for p in (*self.limits, self.target_limits) for v in p):
            raise LatentTrackError("a limit is not a number: give numbers.")

    @classmethod
    def of(cls, series: Series) -> "Feed":
        """How to go on after a series, as it was loaded."""
        return cls(
            series.names,
            series.target,
            int(series.delay),
            series.source if series.horizon > 0 else None,
            int(series.horizon),
            series.has_clock,
            grid_step(series),
            series.sentinels,
            tuple(plausible(column) for column in series.x.T),
            plausible(series.y),
            series.categories,
        )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What an event should have: the inputs, with text in place of its kinds."""
        return tuple(dict.fromkeys(map(self.column, self.inputs)))

    def column(self, name: str) -> str:
        """What users call an input: its own name, or that of the text that it is a kind of."""
        return self._column.get(name, name)

    @cached_property
    def _column(self) -> dict[str, str]:
        """The column of text that an input is a kind of."""
        return {indicator(name, kind): name for name, kinds in self.categories for kind in kinds}

    @cached_property
    def _place(self) -> int | None:
        """Where among the inputs the source is."""
        return self.inputs.index(self.source) if self.source in self.inputs else None

    def row(self, x: Mapping[str, Any] | np.ndarray) -> tuple[np.ndarray, float, list[str]]:
        """What an event says: the F measurements, the label that one of them is, and what is wrong with them.

        Args:
            x: values by name, or [F] in the order of `inputs`; None, non-finite numbers, sentinels, and text
                that is neither a number nor one of `categories` are missing.

        Returns:
            ([F] measurements, the label of `horizon` steps ago, flags); NaN where missing.
        """
        if type(x) is np.ndarray and self._is_plain(x):  # nearly always of arrays
            return x.copy(), math.nan if self._place is None else float(x[self._place]), []
        if not isinstance(x, Mapping):
            x = self._by_name(x)
        row, used, plain = [], 0, not self.sentinels
        flags: list[str] = []
        if self.categories:
            x, flags = spread_event(x, self.categories)
        for name in self.inputs:
            value = x.get(name, _ABSENT)
            used += value is not _ABSENT
            if plain and type(value) is float and -math.inf < value < math.inf:  # nearly always
                row.append(value)
                continue
            number, wrong = (math.nan, "missing") if value is _ABSENT else self.number(value, name)
            row.append(number)
            if wrong:
                flags.append(f"{wrong}:{self.column(name)}")
        label = math.nan
        if self.source is not None and self.source in x:
            label = self.number(x[self.source], self.source)[0]
        if self.categories:
            flags = list(dict.fromkeys(flags))  # each kind of a text that is missing says so
        if len(x) > used:
            known = (*self.inputs, self.source, *self._column)
            unknown = [name for name in x if name not in known]
            # Flags are kept with the step: a row of a thousand wrong names must not fill the memory.
            flags += [f"unknown:{short(str(name))}" for name in unknown[:_MOST_UNKNOWN]]
            flags += [f"unknown:{len(unknown) - _MOST_UNKNOWN} more"] * (len(unknown) > _MOST_UNKNOWN)
        return np.array(row), label, flags

    def _is_plain(self, x: np.ndarray) -> bool:
        """Whether an array is [F] numbers that mean what they say."""
        if self.sentinels or self.categories or x.dtype != _DOUBLE or x.shape != (len(self.inputs),):
            return False
        # As floats, which add up to something finite only if all of them are: numpy would take longer.
        return math.isfinite(sum(x.tolist()))

    def _by_name(self, x: np.ndarray) -> dict[str, Any]:
        values = np.asarray(x)
        if values.shape != (len(self.inputs),):
            raise LatentTrackError(
                f"x has shape {values.shape}: give the {len(self.inputs)} measurements "
                f"{', '.join(self.inputs)}, in this order or by name."
            )
        return dict(zip(self.inputs, values.tolist(), strict=True))

    def number(self, value: object, name: str) -> tuple[float, str]:
        """A value of a measurement, NaN if there is none, and what is wrong with it, "" if nothing is."""
        number = as_float(value)
        if number is None:
            return math.nan, "not-a-number"
        if math.isnan(number) or self._is_sentinel(number, name):
            return math.nan, "missing"
        return number, ""

    def _is_sentinel(self, value: float, name: str) -> bool:
        if name in self._column:
            return False  # the 0 and 1 of a kind are not from the file
        return any(value == sentinel and only in (None, name) for sentinel, only in self.sentinels)

    def label(self, y: object) -> float:
        """A label as a number, NaN if it means "missing"."""
        value = as_float(y)
        if value is None:
            raise LatentTrackError(f"the label {shown(y)} is not a number: give a finite number, or null.")
        if self.sentinels and self._is_sentinel(value, self.source or self.target):
            return math.nan
        return value

    def time(self, value: object) -> int | float:
        """A time as nanoseconds since 1970 (with a clock), or as the number of a step."""
        if not self.clock:
            number = as_float(value)
            if number is None or math.isnan(number):
                raise LatentTrackError(
                    f"the time {shown(value)} is not a number: give the number of the step."
                )
            return number
        return to_nanoseconds(value)

    def show(self, time: int | float) -> str | float:
        """The inverse of `time`, for people and for JSON."""
        if not self.clock:
            return float(time)
        # As `datetime.isoformat` has it, but put together from the date, which many events have in common.
        second, microsecond = divmod(int(time) // 1000, 1_000_000)
        day, second = divmod(second, 86_400)
        minute = second // 60
        clock = f"{_DIGITS[minute // 60]}:{_DIGITS[minute % 60]}:{_DIGITS[second % 60]}"
        return f"{_date(day)}T{clock}.{microsecond:06}"

    def stamp(self, time: int | float) -> np.datetime64 | float:
        """A time as the pipeline takes it."""
        return np.datetime64(int(time), "ns") if self.clock else float(time)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe fields; no limit is null."""
        return _finite(asdict(self))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Feed":
        """The inverse of `to_dict`, before or after a trip through JSON."""
        known: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
        for name in ("limits", "target_limits"):
            known[name] = _infinite(fields[name])
        known["categories"] = tuple(
            (str(name), tuple(map(str, kinds))) for name, kinds in fields.get("categories", ())
        )
        known["sentinels"] = tuple((float(value), only) for value, only in fields["sentinels"])
        return cls(**known)


def as_float(value: object) -> float | None:
    """A value of JSON as a number, NaN if it means "missing" or is not finite; None if it is no number."""
    if type(value) is float:  # nearly always, and soon answered
        return value if math.isfinite(value) else math.nan
    if value is None:
        return math.nan
    if not isinstance(value, str | Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.nan
    except ValueError:
        return math.nan if str(value).strip() in MISSING else None
    if isinstance(value, str) and "_" in value:  # Python reads "12_3" as 123
        return None
    return number if math.isfinite(number) else math.nan


@lru_cache(maxsize=64)
def _date(day: int) -> str:
    """The date so many days after 1970 began."""
    return (_EPOCH + timedelta(days=day)).date().isoformat()


def to_nanoseconds(value: object) -> int:
    """Nanoseconds since 1970 of a datetime64, a datetime, a text as in files, or a count (data/epochs.py)."""
    if isinstance(value, np.datetime64) and value.dtype == _NANOSECONDS:
        ticks: int | None = value.item()  # None of NaT
        if ticks is not None:
            return ticks
    found = None
    if isinstance(value, np.generic) and value.dtype.kind in "iu":
        value = value.item()
    with contextlib.suppress(ValueError, OverflowError):
        found = _microseconds(value)
    # What nanoseconds can hold reaches from 1678 to 2262.
    if found is None or not abs(found) <= 2**63 // 1000 - 1:  # pandas' NaT is a datetime, and no number
        raise LatentTrackError(
            f"the time {shown(value)} cannot be read: write it like 2026-01-31T06:00:00, or as seconds (or "
            "milliseconds) since 1970."
        )
    return found * 1000


def _microseconds(value: object) -> int | None:
    if isinstance(value, str):
        value = _from_text(value)
    if isinstance(value, datetime):
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        elapsed = aware - datetime(1970, 1, 1, tzinfo=UTC)
        return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
    if isinstance(value, np.datetime64) and not np.isnat(value):
        return int(value.astype("datetime64[us]").astype(np.int64))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return to_microseconds(value)
    return None


def _from_text(text: str) -> object:
    """A time as text, in whatever form a file may have it."""
    text = text.strip()
    if len(text) > _BASIC_DATE and text.isdecimal():
        return int(text)  # Python takes some counts since 1970 for dates without hyphens
    try:
        return datetime.fromisoformat(text)  # nearly always
    except ValueError:
        times = times_from_text([text])
        if times is None:
            raise
        return times[0]


def plausible(values: np.ndarray) -> tuple[float, float]:
    """How far values may lie from those seen, before a fault is likelier than news.

    The middle 99.8 % of the values and twice their spread on both sides; no limit where they have no spread.
    A few unmarked sentinels among the values make no difference.
    """
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return -math.inf, math.inf
    low, high = np.quantile(known, [0.001, 0.999])
    spread = 2.0 * float(high - low)
    return (float(low) - spread, float(high) + spread) if spread > 0 else (-math.inf, math.inf)


def _finite(value: Any) -> Any:
    """JSON knows no infinity: None stands for it."""
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def _infinite(limits: Any) -> Any:
    """Pairs (low, high) again, from what `_finite` made of them."""
    if limits and isinstance(limits[0], list | tuple):
        return tuple(_infinite(pair) for pair in limits)
    ends = (-math.inf, math.inf)
    return tuple(end if v is None else v for v, end in zip(limits, ends, strict=True)) if limits else ()
