"""What a live filter says to an event and to a label."""

import math
from collections.abc import Iterable
from typing import NamedTuple

_DIGITS = 7  # of a float32


def rounded(value: float, std: float = 0.0) -> float:
    """The digits of a number that are worth telling.

    Args:
        value: the number.
        std: of what it is a mean or quantile of: as that may lie far from 0, digits down to a ten-thousandth
            of it count too.
    """
    digits = _DIGITS
    if 0.0 < 100.0 * std < abs(value) < math.inf:
        digits = min(_DIGITS - 2 + math.ceil(math.log10(abs(value) / std)), 17)
    return float(f"{value:.{digits}g}")


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
