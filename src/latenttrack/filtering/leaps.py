"""Leaps of a stream in time: a few wrong clocks must not make all right events come too late.

doubted     an event far ahead is refused; the next one is believed if it follows on that one
believed    what was known before the leap is kept until the log has moved past it
undone      events that came too late, but go on from before the leap, three in a row: the leap was wrong,
            and the stream goes back to what it knew before
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from latenttrack.errors import LatentTrackError
from latenttrack.filtering.keeping import LiveState, keep, restore
from latenttrack.filtering.log import Log

if TYPE_CHECKING:
    from latenttrack.filtering.live import LiveFilter

_FAR = 1000  # intervals: a shorter leap is mostly an outage, and is believed at once
_UNUSUAL = 10.0  # mean intervals, likewise, after which a state is kept to go back to
_FEWEST = 8  # steps from which it is known what is usual
_BACK = 3  # events in a row that undo a leap


class Leaps:
    """What one stream made of leaps so far.

    Args:
        log: of the stream.
        interval: between two steps, in the units of times; None: any.
        delay: D of the stream.

    Attributes:
        doubted: time of the event just before, if it was refused as too far ahead.
        before: the state before the newest leap that was believed, while it can still be undone.
        since: number of the first step after it.
        behind: how many events in a row came too late, but go on from before it.
        last: time of the newest of these.
    """

    def __init__(self, log: Log, interval: int | None, delay: int):
        self._log, self._interval = log, interval
        self._reach = log.capacity - delay  # steps after which those that were left out can still be run
        self.doubted: int | float | None = None
        self.before: LiveState | None = None
        self.since = self.behind = 0
        self.last: int | float = 0

    def calm(self) -> None:
        """An event came as it should."""
        self.doubted, self.behind = None, 0

    def is_leap(self, when: int | float) -> bool:
        """Whether events between the newest and this one could not be taken in any more."""
        entries = self._log.entries
        if not entries:
            return True
        ahead = when - entries[-1].time
        if self._interval is not None:
            return ahead > self._reach * self._interval
        # Without a grid no event can come in between: whatever is unusual may have to be undone.
        return float(ahead) * len(entries) > _UNUSUAL * float(entries[-1].time - entries[0].time)

    def has_leap(self, times: np.ndarray) -> bool:
        """Whether one of N times in a row, of a stream without a grid, is a leap."""
        known = np.concatenate([[entry.time for entry in self._log.entries], times])
        at = np.arange(len(known) - len(times), len(known))
        first = np.maximum(at - self._log.capacity, 0)
        ahead, passed = known[at] - known[at - 1], known[at - 1] - known[first]
        return bool(np.any(ahead.astype(float) * (at - first) > _UNUSUAL * passed.astype(float)))

    def doubts(self, when: int | float) -> bool:
        """Whether a leap is to be refused: it is long, and the event before was not one to about there."""
        newest, last = self._log.newest, self.doubted
        self.calm()
        if newest is None or not self._is_far(when - newest.time):
            return False
        if last is not None and when > last and not self._is_far(when - last):
            return False
        self.doubted = when
        return True

    def forget(self) -> None:
        """Let go of a leap that the log has moved past."""
        if self._log.first > self.since:
            self.before = None

    def is_undone_by(self, when: int | float) -> bool:
        """Whether an event that came too late is the one that shows that the leap was wrong."""
        last, behind = self.last, self.behind
        self.calm()
        self.forget()
        if self.before is None:
            return False
        known = self.before.tensors["time"]
        if len(known) and when <= known[-1]:
            return False
        follows = behind > 0 and when > last and not self._is_far(when - last)
        self.last, self.behind = when, behind + 1 if follows else 1
        return self.behind >= _BACK

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe state, without `before`."""
        return {name: getattr(self, name) for name in ("doubted", "since", "behind", "last")}

    def restore(self, state: dict[str, Any], before: LiveState | None) -> None:
        """The state that `to_dict` gave."""
        times = [state["last"], *([] if state["doubted"] is None else [state["doubted"]])]
        if not all(type(time) in (int, float) for time in times):
            raise ValueError("the time of a leap is not a number")
        self.doubted, self.last, self.before = state["doubted"], state["last"], before
        self.since, self.behind = int(state["since"]), int(state["behind"])

    def _is_far(self, ahead: int | float) -> bool:
        if self._interval is not None:
            return ahead > max(self._reach, _FAR) * self._interval
        times = [entry.time for entry in self._log.entries]
        return len(times) >= _FEWEST and bool(ahead > _FAR * np.median(np.diff(times)))


def consider_leap(live: "LiveFilter", when: int | float) -> None:
    """Believe a leap in time, and keep what was known before it; or refuse it."""
    newest, leaps = live.log.newest, live.leaps
    # A stream may begin long after its model.
    if live.counts["events"] and newest is not None and leaps.doubts(when):
        raise LatentTrackError(
            f"the event of {live.feed.show(when)} comes long after {live.feed.show(newest.time)}, and "
            "its time may be wrong: correct it; if the next event follows on it, that one is believed."
        )
    leaps.forget()
    # Of two leaps on each other's heels either may be wrong: the state before both is kept.
    if leaps.before is None:
        leaps.before = keep(live)


def undo_leap(live: "LiveFilter") -> None:
    """Go back to before a leap that was wrong; what was counted stays."""
    before, counts = live.leaps.before, live.counts
    assert before is not None
    live.log.clear()
    restore(live, before, "what was known before a leap")
    live.counts = counts
