"""The gate: what is more likely a fault than news stays out of the belief, until it proves to be news.

Two things are judged: each measurement of a row by the limits of what is plausible (`Feed.limits`), and each
label by the same kind of limits and by its surprise, the tail probability 2 min(u, 1 - u) of its PIT u: an
extreme surprise at a step whose epistemic variance had spiked is taken for a fault.

What is done with a fault is the policy:

    hold    it counts as missing
    clip    it is moved to the nearest plausible value
    reset   it counts as missing, and the belief starts anew
    off     nothing is judged

A broken sensor repeats itself, a new regime does not. When `patience` faults have come, no value within the
limits between them and each different from the one before, they are let in after all: the steps since are
run again as if they had never been kept out. The gate then stays open for that column until as many values
within the limits have come in a row. A fault that repeats the one before it proves nothing, and stays out.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from latenttrack.data.matching import choose
from latenttrack.errors import LatentTrackError

POLICIES = {"hold": "counts as missing", "clip": "moved", "reset": "belief starts anew", "off": "no gate"}
_RATE = 0.01  # of the running mean of epistemic variance


@dataclass(frozen=True)
class GateSettings:
    """How the gate judges.

    Attributes:
        policy: one of `POLICIES`.
        surprise: tail probability of a label below which it is extreme.
        spike: epistemic variance, in units of its running mean, from which on an extreme label is a fault.
        patience: consecutive faults, each different from the one before, that make a new regime.
    """

    policy: str = "hold"
    surprise: float = 1e-6
    spike: float = 4.0
    patience: int = 12

    def __post_init__(self) -> None:
        choose("gate policy", self.policy, POLICIES)
        for name in ("surprise", "spike", "patience"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise LatentTrackError(f"the gate's {name} is {value!r}: give a positive number.")


@dataclass(slots=True)
class _Run:
    """The faults of one column since it was last within its limits."""

    length: int = 0
    value: float = math.nan  # of the newest
    step: int = -1  # of the newest
    steps: list[int] = field(default_factory=list)  # of those that differ from the one before and after
    open: bool = False  # they were let in: a new regime
    inside: int = 0  # values within the limits since, while it is open

    def fault(self, value: float, step: int) -> None:
        self.length += 1
        self.inside = 0
        if self.open:
            return
        if value != self.value:
            self.steps.append(step)
        elif self.steps and self.steps[-1] == self.step:
            self.steps.pop()
        self.value, self.step = value, step

    def ends(self, patience: int) -> bool:
        """Whether a value within the limits is the end of it."""
        self.inside += 1
        return not self.open or self.inside >= patience


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

    def faults(self, row: np.ndarray, step: int) -> list[int]:
        """The columns of a row whose values are to be kept out."""
        if not self.active:
            return []
        found, limits, runs = [], self.limits, self.runs
        # A loop over floats: for as many columns as a stream has, arrays would take longer.
        for i, value in enumerate(row.tolist()):
            low, high = limits[i]
            if value < low or value > high:
                runs[i].fault(value, step)
                if not runs[i].open:
                    found.append(i)
            elif runs[i].length and value == value:
                self._within(i)
        return found

    def _within(self, column: int) -> None:
        if self.runs[column].ends(self.settings.patience):
            self.runs[column] = _Run()

    def news(self, column: int) -> list[int]:
        """The steps whose faults have just turned out to be a new regime, the newest last; mostly none."""
        run = self.runs[column]
        if run.open or len(run.steps) < self.settings.patience:
            return []
        run.open = True
        steps, run.steps = run.steps, []
        return steps

    def is_first(self, column: int) -> bool:
        """Whether the newest fault of a column is the first of its kind."""
        return self.runs[column].length == 1

    def is_fault(self, label: float, pit: float, epistemic: float, step: int) -> bool:
        """Whether a label is to be kept out.

        Args:
            label: in original units.
            pit: P(Y <= label) under the forecast of its step.
            epistemic: variance of that forecast.
            step: its number.
        """
        if not self.active:
            return False
        low, high = self.limits[-1]
        extreme = 2.0 * min(pit, 1.0 - pit) < self.settings.surprise
        spike = epistemic > self.settings.spike * self.epistemic
        run = self.runs[-1]
        if not (low <= label <= high) or (extreme and spike):
            run.fault(label, step)
            return not run.open
        if run.length:
            self._within(-1)
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
        runs = [{**asdict(r), "value": None if math.isnan(r.value) else r.value} for r in self.runs]
        return {"epistemic": None if math.isnan(self.epistemic) else self.epistemic, "runs": runs}

    def restore(self, state: dict[str, Any]) -> None:
        """The state that `to_dict` gave."""
        self.epistemic = math.nan if state["epistemic"] is None else float(state["epistemic"])
        if len(state["runs"]) != len(self.runs):
            raise ValueError(f"its gate has {len(state['runs'])} columns, not {len(self.runs)}")
        self.runs = [_restored(run) for run in state["runs"]]


def _restored(run: dict[str, Any]) -> _Run:
    return _Run(
        int(run["length"]),
        math.nan if run["value"] is None else float(run["value"]),
        int(run["step"]),
        [int(step) for step in run["steps"]],
        bool(run["open"]),
        int(run["inside"]),
    )
