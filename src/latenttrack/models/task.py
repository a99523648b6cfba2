"""What a model must know of a stream before it is built."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from latenttrack.data.known_label import KNOWN_LABEL
from latenttrack.data.series import Series

_CALENDAR = re.compile(r"(day|week|year|season)_(sin|cos)\d+$")
_OWN = re.compile(rf"({KNOWN_LABEL}|season_mean)(_(diff|lag)\d+|_missing)?$|time_diff\d+$")


@dataclass(frozen=True)
class Task:
    """Inputs, label delay and season of a stream."""

    names: tuple[str, ...]  # input features, in order
    delay: int = 1
    period: int | None = None  # steps in the main season

    @property
    def size(self) -> int:
        """Number of input features F."""
        return len(self.names)

    @property
    def calendar(self) -> tuple[int, ...]:
        """The columns that depend on the clock alone."""
        return tuple(i for i, name in enumerate(self.names) if _CALENDAR.match(name))

    @property
    def own(self) -> tuple[str, ...]:
        """The inputs that are made of the label and the clock alone, not of other columns."""
        return tuple(name for name in self.names if _CALENDAR.match(name) or _OWN.match(name))

    @classmethod
    def of(cls, series: Series) -> "Task":
        """The task that a series poses."""
        return cls(series.names, series.delay, series.period)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe fields."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Task":
        """The inverse of `to_dict`."""
        return cls(tuple(fields["names"]), fields["delay"], fields["period"])
