"""The gate: what is more likely a fault than news stays out of the belief, until it proves to be news.

Two things are judged: each measurement of a row by the limits of what is plausible (`Feed.limits`), and each
label by the same kind of limits and by its surprise, the tail probability 2 min(u, 1 - u) of its PIT u: an
extreme surprise at a step whose epistemic variance had spiked is taken for a fault.

What is done with a fault is the policy:

    hold    it counts as missing
    clip    it is moved to the nearest plausible value
    reset   it counts as missing, and the belief starts anew
    off     nothing is judged

A broken sensor repeats itself, a new regime does not: when `patience` values in a row are faults, and they
are not all the same, they are let in after all, and the gate stays open for that column until a value within
the old limits comes.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latenttrack.data.matching import choose

POLICIES = {"hold": "counts as missing", "clip": "moved", "reset": "belief starts anew", "off": "no gate"}
_RATE = 0.01  # of the running mean of epistemic variance


@dataclass(frozen=True)
class GateSettings:
    """How the gate judges.

    Attributes:
        policy: one of `POLICIES`.
        surprise: tail probability of a label below which it is extreme.
        spike: epistemic variance, in units of its running mean, from which on an extreme label is a fault.
        patience: consecutive faults, not all the same, that make a new regime.
    """

    policy: str = "hold"
    surprise: float = 1e-6
    spike: float = 4.0
    patience: int = 12

    def __post_init__(self) -> None:
        choose("gate policy", self.policy, POLICIES)


@dataclass
class _Run:
    """Consecutive faults of one column."""

    length: int = 0
    value: float = math.nan  # of the first
    varied: bool = False
    open: bool = False  # they were let in: a new regime

    def fault(self, value: float) -> None:
        self.varied = self.varied or (self.length > 0 and value != self.value)
        self.value = value if self.length == 0 else self.value
        self.length += 1

    def end(self) -> None:
        self.length, self.varied, self.open = 0, False, False


@dataclass
class Gate:
    """The gate of one stream; column F is the label."""

    settings: GateSettings
    limits: tuple[tuple[float, float], ...]  # of the F measurements, then of the label
    epistemic: float = math.nan  # running mean
    runs: list[_Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runs = self.runs or [_Run() for _ in self.limits]

    @property
    def active(self) -> bool:
        """Whether anything is judged."""
        return self.settings.policy != "off"

    def faults(self, row: np.ndarray) -> list[int]:
        """The columns of a row whose values are to be kept out."""
        if not self.active:
            return []
        found = []
        # A loop over floats: for as many columns as a stream has, arrays would take longer.
        for i, (value, (low, high), run) in enumerate(
            zip(row.tolist(), self.limits[:-1], self.runs[:-1], strict=True)
        ):
            if value < low or value > high:
                run.fault(value)
                if not run.open:
                    found.append(i)
            elif run.length and value == value:
                run.end()
        return found

    def is_news(self, column: int) -> bool:
        """Whether the faults of a column have just turned out to be a new regime; then it is let in."""
        run = self.runs[column]
        if run.open or not run.varied or run.length < self.settings.patience:
            return False
        run.open = True
        return True

    def is_fault(self, label: float, pit: float, epistemic: float) -> bool:
        """Whether a label is to be kept out.

        Args:
            label: in original units.
            pit: P(Y <= label) under the forecast of its step.
            epistemic: variance of that forecast.
        """
        if not self.active:
            return False
        low, high = self.limits[-1]
        extreme = 2.0 * min(pit, 1.0 - pit) < self.settings.surprise
        spike = epistemic > self.settings.spike * self.epistemic
        run = self.runs[-1]
        if not (low <= label <= high) or (extreme and spike):
            run.fault(label)
            return not run.open
        run.end()
        if math.isfinite(epistemic):
            mean = self.epistemic
            self.epistemic = epistemic if math.isnan(mean) else mean + _RATE * (epistemic - mean)
        return False

    def clip(self, value: float, column: int) -> float:
        """The nearest plausible value."""
        low, high = self.limits[column]
        return min(max(value, low), high)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe state, without settings and limits."""
        runs = [[r.length, None if math.isnan(r.value) else r.value, r.varied, r.open] for r in self.runs]
        return {"epistemic": None if math.isnan(self.epistemic) else self.epistemic, "runs": runs}

    def restore(self, state: dict[str, Any]) -> None:
        """The state that `to_dict` gave."""
        self.epistemic = math.nan if state["epistemic"] is None else float(state["epistemic"])
        self.runs = [
            _Run(int(n), math.nan if v is None else float(v), bool(varied), bool(is_open))
            for n, v, varied, is_open in state["runs"]
        ]
