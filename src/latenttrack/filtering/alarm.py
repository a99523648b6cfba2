"""The drift alarm: bets against the uniformity of the PITs, with a known rate of false alarms.

If the forecasts are right, the PITs u_1, u_2, ... are uniform, and a bet f(u) >= 0 with int f = 1 wins
nothing on average. The capital of a gambler who starts with one coin at every step, all coins riding on the
same bets,

    R_n = (1 + R_{n-1}) f(u_n)

is then n on average: R_n - n is a martingale, so that the time until R first passes `period` is at least
`period` on average (Shiryaev and Roberts). The alarm sounds there, and the capital starts anew. Capital is
spread evenly over several bets (too wide, too narrow, too high, too low; mild and strong), and their mean has
the same property.

With label delay D the errors of D neighbouring steps overlap, and their PITs depend on each other; those of
every D-th step do not. So there are D gamblers, each with the steps whose number has the same remainder, and
the alarm sounds when any one of them passes a bound c. By Doob's inequality one that has played n times has
passed c with a probability of at most n / c, so that after N labels any of the D has with at most N / c,
however they depend on each other, and the time until then is at least c / 2 on average. With c = 2 `period`
(`period` itself for D = 1) the mean time between false alarms is therefore at least `period`.

This is exact for forecasts that are right given all that was known when they were made, labels in any order,
missing ones among them. How much longer the times are, and how soon a change is noticed, is measured by the
tests.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latenttrack.errors import LatentTrackError

PERIOD = 10_000  # labels between false alarms, at least, on average
_MILD, _STRONG = 0.3, 0.8


def _bets(u: float) -> list[float]:
    """B densities on [0, 1] at u: 1 + t g(u), with g of mean 0 and at least -1."""
    lean = 2.0 * u - 1.0  # the labels come high
    wide = (3.0 * lean**2 - 1.0) / 2.0  # the labels come far out: the forecast is too narrow
    a, b, c, d = _MILD * lean, _STRONG * lean, _MILD * wide, _STRONG * wide
    return [1.0 + a, 1.0 + b, 1.0 - a, 1.0 - b, 1.0 + c, 1.0 + d, 1.0 - c, 1.0 - d]


@dataclass
class Alarm:
    """One stream's.

    Attributes:
        delay: D of the stream.
        period: mean number of labels between two false alarms, at least; 0 for no alarm.
        capital: D lists of B numbers.
        raised: how often it sounded.
    """

    delay: int
    period: int | float = PERIOD
    capital: list[list[float]] = field(default_factory=list)
    raised: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.period, bool) or not isinstance(self.period, int | float) or not self.period >= 0:
            raise LatentTrackError(
                f"alarm is {self.period!r}: give the labels between two false alarms, or 0 for no alarm."
            )
        if not self.capital:
            self.capital = self._nothing()

    def hear(self, pit: float, step: int) -> bool:
        """Whether the alarm sounds at the PIT of a step. One that is not a number is not heard."""
        if not self.period or not math.isfinite(pit):
            return False
        turn = step % self.delay
        bets = _bets(0.0 if pit < 0.0 else 1.0 if pit > 1.0 else pit)
        # Lists of numbers: for as few as these, arrays would take longer.
        own = [(1.0 + coins) * bet for coins, bet in zip(self.capital[turn], bets, strict=True)]
        self.capital[turn] = own
        if sum(own) / len(own) < (self.period if self.delay == 1 else 2.0 * self.period):
            return False
        self.capital = self._nothing()
        self.raised += 1
        return True

    def _nothing(self) -> list[list[float]]:
        return [[0.0] * len(_bets(0.5)) for _ in range(self.delay)]

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe state."""
        return {"capital": [list(own) for own in self.capital], "raised": self.raised}

    def restore(self, state: dict[str, Any]) -> None:
        """The state that `to_dict` gave."""
        # As an array on the way, which refuses other shapes and what is no number.
        shape = (self.delay, len(_bets(0.5)))
        self.capital = np.array(state["capital"], float).reshape(shape).tolist()
        self.raised = int(state["raised"])
