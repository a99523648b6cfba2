"""The drift alarm: bets against the uniformity of the PITs, with a known rate of false alarms.

If the forecasts are right, the PITs u_1, u_2, ... are uniform, and a bet f(u) >= 0 with int f = 1 wins
nothing on average. The capital of a gambler who starts with one coin at every step, all coins riding on the
same bets,

    R_n = (1 + R_{n-1}) f(u_n)

is then n on average: R_n - n is a martingale, so that the time until R first passes `period` is at least
`period` on average (Shiryaev and Roberts). The alarm sounds there, and the capital starts anew. Capital is
spread evenly over several bets (too wide, too narrow, too high, too low; mild and strong), and their mean has
the same property.

With label delay D the errors of D neighbouring steps overlap, and their PITs depend on each other. Every D-th
do not, so that D gamblers take turns, and the alarm sounds when all together pass `period`. For D = 1 the
bound holds exactly; beyond, what each knows of the others' wins makes it an approximation, which the tests
measure.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PERIOD = 10_000  # steps between false alarms, at least, on average
_TILT = (0.3, 0.8)


def _bets(u: float) -> list[float]:
    """B densities on [0, 1] at u: 1 + t g(u), with g of mean 0 and at least -1."""
    lean = 2.0 * u - 1.0  # the labels come high
    wide = (3.0 * lean**2 - 1.0) / 2.0  # the labels come far out: the forecast is too narrow
    shapes = (lean, -lean, wide, -wide)
    return [1.0 + tilt * shape for shape in shapes for tilt in _TILT]


@dataclass
class Alarm:
    """One stream's.

    Attributes:
        delay: D of the stream.
        period: mean number of labels between two false alarms, at least.
        capital: [D, B].
        turn: whose it is.
        raised: how often it sounded.
    """

    delay: int
    period: float = PERIOD
    capital: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    turn: int = 0
    raised: int = 0

    def __post_init__(self) -> None:
        if self.capital.size == 0:
            self.capital = np.zeros((self.delay, len(_bets(0.5))))

    def hear(self, pit: float) -> bool:
        """Whether the alarm sounds at this PIT. One that is not a number is not heard."""
        if not math.isfinite(pit):
            return False
        own = self.capital[self.turn]
        own += 1.0
        own *= _bets(min(max(pit, 0.0), 1.0))
        self.turn = (self.turn + 1) % self.delay
        if float(self.capital.sum()) / own.size < self.period:
            return False
        self.capital[:] = 0.0
        self.raised += 1
        return True

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe state."""
        return {"capital": self.capital.tolist(), "turn": self.turn, "raised": self.raised}

    def restore(self, state: dict[str, Any]) -> None:
        """The state that `to_dict` gave."""
        self.capital = np.array(state["capital"], float).reshape(self.capital.shape)
        self.turn, self.raised = int(state["turn"]), int(state["raised"])
