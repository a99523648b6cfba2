"""The bounded log of a live filter: its newest steps, with all that is known of them.

The belief of a live filter is a function of this log: of a belief at its beginning, and of the rows and
labels since. A label that comes late is entered where it belongs, and the steps that it bears on are run
again. So the order in which labels come makes no difference to what is believed in the end.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_MOST_NAMES = 8  # that a step has beside its own


@dataclass(slots=True)
class Entry:
    """One step.

    Attributes:
        number: of the step, since the stream began.
        time: nanoseconds since 1970, or the step's own number; see `Feed.time`.
        row: [F] measurements, NaN where missing, as the filter may use them.
        came: [F] the same as they came, if the gate has changed them, else None.
        id: what the user calls it.
        also: further ids, under which its event came again.
        asked: whether an event came for it; False for a step that only fills a gap.
        label: in original units, NaN until it is known.
        held: whether the gate keeps the label out.
        stand_in: what is used in place of a label that is held, NaN for nothing.
        begin: "restart" if it begins from the belief that the stream began with, "renew" if training data
            end before it (see `AbstractTracker.renew`), else "".
        flags: what was said about it.
        features: [F'] what the pipeline made of it.
        belief: before the step: the track of the one before (filtering/program.py).
        memory: the pipeline's, before the step.
        report: what was given out, in original units.
        forecast: the track with the forecast that was given out.
        pit: P(Y <= label) under that forecast, NaN until the label is known.
        log_score: log p(label) likewise.
    """

    number: int
    time: int | float
    row: np.ndarray
    id: str | int | None = None
    asked: bool = True
    label: float = math.nan
    held: bool = False
    stand_in: float = math.nan
    came: np.ndarray | None = None
    begin: str = ""
    flags: list[str] = field(default_factory=list)
    features: Any = None
    belief: Any = None
    memory: Any = None
    report: list[float] | None = None
    forecast: Any = None
    pit: float = math.nan
    log_score: float = math.nan
    also: tuple[str | int, ...] = ()

    @property
    def usable(self) -> float:
        """The label, as the filter may use it."""
        return self.stand_in if self.held else self.label


class Log:
    """The newest entries, found by number, id or time; the oldest make room for new ones."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.entries: list[Entry] = []
        self._by_id: dict[str | int, int] = {}
        self._by_time: dict[int | float, int] = {}

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def first(self) -> int:
        """Number of the oldest step that is still there."""
        return self.entries[0].number if self.entries else 0

    @property
    def newest(self) -> Entry | None:
        """The last step, None before the first."""
        return self.entries[-1] if self.entries else None

    def runs_from(self, delay: int, first: int | None = None) -> int:
        """Number of the first step from which on all can be run again: the labels due before it are gone.

        Args:
            delay: D of the stream.
            first: number of the oldest step, if not that of this log.
        """
        first = self.first if first is None else first
        return first + delay if first > 0 else 0

    def get(self, number: int) -> Entry | None:
        """The entry of a step; None if it is gone, or yet to come."""
        entries = self.entries
        index = number - entries[0].number if entries else -1
        return entries[index] if 0 <= index < len(entries) else None

    def find(self, id: str | int | None, time: int | float | None) -> Entry | None:
        """The entry of an id or, without one, of a time."""
        number = self._by_id.get(id) if id is not None else self._by_time.get(time)  # type: ignore[arg-type]
        return None if number is None else self.get(number)

    def append(self, entry: Entry) -> None:
        """The next step."""
        self.entries.append(entry)
        self.index(entry)
        if len(self.entries) > self.capacity:
            self._drop_oldest()

    def resize(self, capacity: int) -> None:
        """Keep more steps from now on, or fewer: then the oldest leave."""
        self.capacity = capacity
        while len(self.entries) > capacity:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self.entries.pop(0)
        # An id or a time that was used again belongs to its newest step.
        if self._by_time.get(oldest.time) == oldest.number:
            del self._by_time[oldest.time]
        if oldest.id is not None and self._by_id.get(oldest.id) == oldest.number:
            del self._by_id[oldest.id]
        if oldest.also:
            self._forget(oldest, *oldest.also)

    def clear(self) -> None:
        """Forget all steps."""
        for known in (self.entries, self._by_id, self._by_time):
            known.clear()

    def index(self, entry: Entry) -> None:
        """Let an entry be found under its id and time."""
        self._by_time[entry.time] = entry.number
        if entry.id is not None:
            self._by_id[entry.id] = entry.number
            for id in entry.also:
                self._by_id[id] = entry.number

    def rename(self, entry: Entry, id: str | int) -> None:
        """Let an entry be found under one more id."""
        if entry.id is None:
            entry.id = id
        elif id != entry.id and id not in entry.also:
            # An event that comes again and again must not fill the memory.
            self._forget(entry, *entry.also[: -_MOST_NAMES + 1])
            entry.also = (*entry.also[-_MOST_NAMES + 1 :], id)
        self._by_id[id] = entry.number

    def _forget(self, entry: Entry, *ids: str | int) -> None:
        """Let an entry be found no longer under some ids, unless they belong to a newer one."""
        for id in ids:
            if self._by_id.get(id) == entry.number:
                del self._by_id[id]
