"""The gate at work on a log: rows and labels kept out, and let in after all when they prove to be news."""

import math
from typing import NamedTuple

from latenttrack.filtering.gate import Gate
from latenttrack.filtering.log import Entry, Log

NEVER = 2**63


class Ruling(NamedTuple):
    """What follows from a judgement.

    Attributes:
        held: how many values are kept out.
        restart: whether the belief starts anew.
        stale: number of the first step that is out of date, `NEVER` if none is.
    """

    held: int = 0
    restart: bool = False
    stale: int = NEVER


NOTHING = Ruling()


class Guard:
    """Judges the entries of a log, and writes down in them what may be used.

    Args:
        gate: says what is a fault.
        log: what was let in or kept out so far.
        delay: D of the stream.
        names: what each of the measurements is called in flags; kinds of one text share its name.
    """

    def __init__(self, gate: Gate, log: Log, delay: int, names: tuple[str, ...]):
        self._gate, self._log, self._delay, self._names = gate, log, delay, names

    def row(self, entry: Entry) -> Ruling:
        """Judge the measurements of a step."""
        gate, policy = self._gate, self._gate.settings.policy
        faults = gate.faults(entry.row, entry.number)
        if not faults:
            return NOTHING
        entry.came, entry.row = entry.row, entry.row.copy()
        held, restart, stale = 0, False, NEVER
        for i in faults:
            released = gate.news(i)
            if released:
                _flag(entry, f"new-regime:{self._names[i]}")
                stale = min(stale, self._release(released, i))
                continue
            held += 1
            _flag(entry, f"implausible:{self._names[i]}")
            entry.row[i] = gate.clip(float(entry.row[i]), i) if policy == "clip" else math.nan
            restart = restart or (policy == "reset" and gate.is_first(i))
        return Ruling(held, restart, stale)

    def label(self, entry: Entry) -> Ruling:
        """Judge the label of a step."""
        gate, column, policy = self._gate, len(self._names), self._gate.settings.policy
        entry.held, entry.stand_in = False, math.nan
        epistemic = math.nan if entry.report is None else float(entry.report[3])
        if not gate.is_fault(entry.label, entry.pit, epistemic, entry.number):
            return NOTHING
        released = gate.news(column)
        if released:
            return Ruling(stale=self._release_labels(released))
        entry.held = True
        if policy == "clip":
            entry.stand_in = gate.clip(entry.label, column)
        return Ruling(1, policy == "reset" and gate.is_first(column))

    def can_run(self, entry: Entry) -> bool:
        """Whether a step, and all after it, can be run again; see `Log.runs_from`."""
        return entry.belief is not None and entry.number >= self._log.runs_from(self._delay)

    def _release(self, numbers: list[int], column: int) -> int:
        stale = NEVER
        for number in numbers:
            entry = self._log.get(number)
            if entry is not None and entry.came is not None and self.can_run(entry):
                entry.row = entry.row.copy()
                entry.row[column] = entry.came[column]
                stale = min(stale, number)
        return stale

    def _release_labels(self, numbers: list[int]) -> int:
        stale = NEVER
        for number in numbers:
            entry = self._log.get(number)
            if entry is not None and entry.held:
                entry.held = False
                stale = min(stale, number + self._delay)
        return stale


def _flag(entry: Entry, flag: str) -> None:
    """Say something of a step once."""
    if flag not in entry.flags:
        entry.flags.append(flag)
