"""What a live filter says to an event and to a label."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class Prediction(NamedTuple):
    """What is said about one step, in original units.

    Attributes:
        number: of the step.
        time: of the step; see `Feed.show`.
        id: what the event was called.
        mean: E[y].
        std: standard deviation of y.
        quantiles: by their level.
        aleatoric: variance that is noise.
        epistemic: variance that is ignorance.
        surprise: PIT of the newest label, NaN before the first.
        flags: all that was not as it should be.
    """

    number: int
    time: str | float
    id: str | int | None
    mean: float
    std: float
    quantiles: dict[float, float]
    aleatoric: float
    epistemic: float
    surprise: float
    flags: tuple[str, ...]


def refused(
    time: str | float, id: str | int | None, levels: Iterable[float], flags: Iterable[str]
) -> Prediction:
    """What is said of an event that could not be taken in: it has no step, and no numbers."""
    nan = math.nan
    return Prediction(-1, time, id, nan, nan, dict.fromkeys(levels, nan), nan, nan, nan, tuple(flags))


class Observed(NamedTuple):
    """What became of a label.

    Attributes:
        status: "taken"; "held" or "clipped" by the gate; "repeated" (known already); "corrected" (another
            value was known); "missing" (null); "too-late" (its step is no longer kept); "unmatched" (no such
            step).
        number: of its step, None if there is none.
        surprise: PIT under the forecast of its step, NaN if it was not scored.
        log_score: log density likewise.
        drift: whether the drift alarm sounded.
    """

    status: str
    number: int | None = None
    surprise: float = math.nan
    log_score: float = math.nan
    drift: bool = False

    @property
    def flags(self) -> list[str]:
        """What an event that brought the label should say of it."""
        held = [f"label-{self.status}"] if self.status in ("held", "clipped") else []
        return [*held, *(["drift"] if self.drift else [])]
