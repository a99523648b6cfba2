"""The live filter: one event in, one prediction out; labels when they come.

    place       which step of the grid an event belongs to; steps that were left out are advanced
    gate        what of it is more likely a fault than news
    run         update with the label that is due, advance with x, predict: the compiled step
    observe     a label finds its step, is scored under the forecast given out for it, and waits until it is
                due; if it is overdue, the steps since are run again with it

All that is believed follows from the log (filtering/log.py), which is what a snapshot keeps.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from latenttrack.data.features import Pipeline, PipelineState
from latenttrack.data.feed import Feed
from latenttrack.data.matching import shown
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.alarm import PERIOD, Alarm
from latenttrack.filtering.answers import Observed, Prediction
from latenttrack.filtering.gate import Gate, GateSettings
from latenttrack.filtering.guard import NOTHING, Guard, Ruling
from latenttrack.filtering.ids import as_id
from latenttrack.filtering.leaps import Leaps, consider_leap, undo_leap
from latenttrack.filtering.log import Entry, Log
from latenttrack.filtering.placing import place
from latenttrack.filtering.program import AnyTrack, Program, Track, is_sound

BUFFER = 96  # steps that a label may come late
_LONGEST_BUFFER = 100_000
_LONGEST_GAP = 1000  # steps that are advanced one by one; a longer gap is cut to this


class LiveFilter:
    """One stream.

    Args:
        program: the model, compiled.
        pipeline: makes its inputs.
        feed: how events are read.
        gate: how faults are judged.
        buffer: steps that a label may be late and still be taken in.
        alarm: labels between two false drift alarms, at least, on average; 0 for no alarm.
    """

    def __init__(
        self,
        program: Program,
        pipeline: Pipeline,
        feed: Feed,
        *,
        gate: GateSettings | None = None,
        buffer: int = BUFFER,
        alarm: int | float = PERIOD,
    ):
        if isinstance(buffer, bool) or not isinstance(buffer, int) or not 1 <= buffer <= _LONGEST_BUFFER:
            raise LatentTrackError(
                f"buffer is {shown(buffer)}: give a whole number of steps from 1 to {_LONGEST_BUFFER}."
            )
        self.feed, self.levels = feed, program.levels
        self.interval = feed.interval if feed.clock else 1  # in the units of times; None: any
        self.pipeline, self.program = pipeline, program
        self.log = Log(2 * feed.delay + buffer)
        self.leaps = Leaps(self.log, self.interval, feed.delay)
        self.gate = Gate(gate or GateSettings(), (*feed.limits, feed.target_limits))
        self._guard = Guard(self.gate, self.log, feed.delay, tuple(map(feed.column, feed.inputs)))
        self.alarm = Alarm(feed.delay, alarm)
        self.counts = dict.fromkeys(("events", "labels", "too-late", "unmatched", "held", "gaps", "drift"), 0)
        self.origin = self.belief = self.program.start()
        self.memory = pipeline.start()
        self._stale = 0  # number of the first step whose run is missing or out of date
        self.surprise = math.nan
        self.begin = ""  # of the next step
        self._nothing = np.zeros(len(pipeline.names), np.float32)

    def predict(
        self, x: Mapping[str, Any] | np.ndarray, *, time: object = None, id: object = None
    ) -> Prediction:
        """The distribution of the label of this step, before it is known.

        Args:
            x: measurements by name, or all F of them in the order of `feed.inputs`. What is missing or not a
                number is predicted without, and flagged.
            time: of the step; None: one step after the last.
            id: text or a whole number under which its label will come; by default labels are matched by time.
        """
        return self.predict_row(*self.feed.row(x), time=time, id=as_id(id))

    def predict_row(
        self,
        row: np.ndarray,
        label: float,
        flags: list[str],
        *,
        time: object,
        id: str | int | None = None,
        trusted: bool = False,
    ) -> Prediction:
        """The same for an event that `Feed.row` has read: what it said of it comes first.

        A time is `trusted` if it is that of a row of a table: it is never doubted (filtering/leaps.py).
        """
        newest = self.log.newest
        when, number = place(self.feed, self.interval, time, newest, flags)
        if newest is not None and when <= newest.time:
            return self._late(Entry(number, when, row, id, flags=flags), label, trusted)
        if newest is None or self.interval is None or number != newest.number + 1:
            leapt = not trusted and self.leaps.is_leap(when)
            if leapt:
                consider_leap(self, when)
            self._fill_gap(number, when, flags)
            number = self.next_number
            if leapt:
                self.leaps.since = number
        self.leaps.calm()
        return self._next(Entry(number, when, row, id, flags=flags), label)

    def absorb(self, past: Series, *, trained: bool = False) -> None:
        """Take in what came before the stream, as it was loaded, without giving anything out.

        Args:
            past: rows of a single stream, the newest last. Only before the first event.
            trained: whether the weights were trained on it: how well it was predicted is then forgotten.
        """
        if len(self.log) or len(past.keys) > 1:
            raise LatentTrackError(
                "a past can be taken in once, before the first event, and from a single stream: "
                "start a new stream, and select one key."
            )
        prepared, delay = self.pipeline.transform(past), self.feed.delay
        # The steps that fit into the log are run one by one; D more are there for their labels.
        begin = max(len(past) - self.log.capacity + delay, 0)
        if begin:
            early = np.arange(begin)
            self.belief = self.program.fold(prepared.select(early))
            self.memory = self.pipeline.memory(past.select(early))
        for i in range(max(begin - delay, 0), len(past)):
            entry = Entry(i, self.feed.time(past.time[i]), past.x[i], label=float(past.y[i]))
            entry.features = prepared.x[i].astype(np.float32)
            self.log.append(entry)
        self._stale = begin
        self._run_stale()
        self.origin = self.belief
        self.begin = "renew" if trained else ""

    def resume(
        self, entries: list[Entry], belief: Track, origin: Track, memory: PipelineState, base: int | None
    ) -> None:
        """Go on from a log; see filtering/keeping.py.

        Args:
            entries: of the log.
            belief: before the step `base`, or the newest without one.
            origin: what the stream began with.
            memory: the pipeline's, as `belief`.
            base: number of the first step that is run again; None if there is none.
        """
        for entry in entries:
            self.log.append(entry)
        self.belief, self.origin, self.memory = belief, origin, memory
        self._stale = self.next_number if base is None else base
        self._run_stale()

    def observe(self, y: object, *, time: object = None, id: object = None) -> Observed:
        """The label of a step is known; say which step by the id or the time of its event.

        Args:
            y: the label; None or NaN says that it will never come.
            time: of its step.
            id: of its step; if both are given they must agree.
        """
        if id is None and time is None:
            raise LatentTrackError("a label needs the id or the time of its step: give one of them.")
        label = self.feed.label(y)
        entry = self._find(as_id(id), time)
        if entry is None:
            status = "unmatched" if id is not None else self._absence(time)
            self.counts[status] += 1
            return Observed(status)
        if math.isnan(label):
            return Observed("missing", entry.number)
        return self._take(entry, label)

    def settle(self) -> None:
        """Take in now the labels that came late, and not only at the next event."""
        self._run_stale()

    def leap(self, entries: list[Entry], belief: Track, memory: PipelineState) -> None:
        """Go on after steps that were run elsewhere (filtering/batch.py).

        Args:
            entries: of these steps, complete.
            belief: after them.
            memory: the pipeline's, after them.
        """
        for entry in entries:
            self.log.append(entry)
        self.belief, self.memory = belief, memory
        self.leaps.calm()
        self._stale = self.next_number

    # Steps

    def _fill_gap(self, number: int, when: int | float, flags: list[str]) -> None:
        """Advance through the steps that no event came for."""
        newest = self.log.newest
        gap = 0 if newest is None else number - newest.number - 1
        if gap <= 0:
            return
        flags.append(f"gap:{gap}")
        self.counts["gaps"] += 1
        gap, interval = min(gap, _LONGEST_GAP), self.interval or 1
        empty = np.full(len(self.feed.inputs), math.nan)
        for ahead in range(gap, 0, -1):
            self._append(Entry(self.next_number, when - ahead * interval, empty, asked=False))
            self._run_stale()

    @property
    def next_number(self) -> int:
        """Of the step to come."""
        newest = self.log.newest
        return 0 if newest is None else newest.number + 1

    def _next(self, entry: Entry, label: float) -> Prediction:
        self._follow(self._guard.row(entry))
        if label == label:
            self._take_own(entry, label)
        entry.begin, self.begin = self.begin, ""
        self._append(entry)
        self._run_stale()
        self.counts["events"] += 1
        return self.told(entry)

    def _take_own(self, entry: Entry, label: float) -> None:
        """The label of an earlier step that is one of the measurements of this one."""
        earlier = self.log.get(entry.number - self.feed.horizon)
        if earlier is not None:
            entry.flags += self._take(earlier, label).flags

    def _late(self, late: Entry, label: float, trusted: bool) -> Prediction:
        """An event of a step that has passed: known already, or the filling of a gap."""
        entry = self.log.find(None, late.time)
        if entry is None or not (entry.asked or self._guard.can_run(entry)):
            if not trusted and self.leaps.is_undone_by(late.time):
                undo_leap(self)
                flags, when = [*late.flags, "leap-undone"], self.feed.stamp(late.time)
                return self.predict_row(late.row, label, flags, time=when, id=late.id, trusted=True)
            self.counts["too-late"] += 1
            raise LatentTrackError(
                f"the event of {self.feed.show(late.time)} comes too late: its step is no longer kept, "
                "and it has no influence; send events in order."
            )
        self.leaps.calm()
        if entry.asked:
            if late.id is not None:
                self.log.rename(entry, late.id)
            said = self.told(entry)
            return said._replace(id=said.id if late.id is None else late.id, flags=(*entry.flags, "repeated"))
        entry.row, entry.id, entry.asked, entry.flags = late.row, late.id, True, [*late.flags, "late"]
        entry.forecast = None
        self.log.index(entry)
        self._follow(self._guard.row(entry))
        if label == label:
            self._take_own(entry, label)
        self._stale = min(self._stale, entry.number)
        self._run_stale()
        self.counts["events"] += 1
        return self.told(entry)

    def _append(self, entry: Entry) -> None:
        # First, because the oldest step, which leaves now, may have a label that still has to be taken in.
        if self._stale < entry.number:
            self._run_stale()
        self._stale = entry.number
        self.log.append(entry)

    def _run_stale(self) -> None:
        """Run every step whose run is missing or out of date."""
        log, begun = self.log, False
        for entry in log.entries[self._stale - log.first :]:
            if begun or entry.belief is None:  # else it is run again
                entry.belief, entry.memory = self.belief, self.memory
            begun = True
            track, memory = self._run(entry)
            report = self.program.report(track)
            if not is_sound(report):
                track, memory = self._mend(entry)
                report = self.program.report(track)
            if entry.forecast is None:
                entry.forecast, entry.report = track, report
            self.belief, self.memory = track, memory
        self._stale = self.next_number

    def _run(self, entry: Entry) -> tuple[Track, PipelineState]:
        """What a step leaves behind, and the pipeline's memory after it."""
        due = self.log.get(entry.number - self.feed.delay)
        due_x, due_y = (self._nothing, math.nan) if due is None else (due.features, due.usable)
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is infinite, and mended
            features, memory = self.pipeline.follow(entry.memory, entry.time, entry.row, label=due_y)
            inputs = self.program.inputs(due_x, due_y, features, entry.number % 2**32)
        entry.features = inputs[len(features) : 2 * len(features)]
        return self.program.step(self._before(entry), inputs), memory

    def _mend(self, entry: Entry) -> tuple[Track, PipelineState]:
        """Run a step whose forecast is not a number without its row, then without its label, then anew.

        Numbers too large for single precision would else stay in the belief for ever.
        """
        entry.came = entry.row if entry.came is None else entry.came
        entry.row = np.full_like(entry.row, math.nan)
        entry.flags += ["not-finite"] * ("not-finite" not in entry.flags)
        found = self._run(entry)
        due = self.log.get(entry.number - self.feed.delay)
        if not is_sound(self.program.report(found[0])) and due is not None:
            due.held, due.stand_in = True, math.nan
            found = self._run(entry)
        if not is_sound(self.program.report(found[0])):
            entry.begin = "restart"
            found = self._run(entry)
        return found

    def _before(self, entry: Entry) -> AnyTrack:
        """The belief that a step begins from."""
        if entry.begin == "renew":
            return self.program.renew(entry.belief)
        return self.origin if entry.begin == "restart" else entry.belief

    def told(self, entry: Entry) -> Prediction:
        """What was said about a step."""
        assert entry.report is not None
        mean, sd, aleatoric, epistemic, *quantiles = entry.report
        return Prediction(
            entry.number,
            self.feed.show(entry.time),
            entry.id,
            mean,
            sd,
            dict(zip(self.levels, quantiles, strict=True)),
            aleatoric,
            epistemic,
            self.surprise,
            tuple(entry.flags),
        )

    # Labels

    def _find(self, id: str | int | None, time: object) -> Entry | None:
        """The step of an id or, without one, of a time."""
        when = None if time is None else self.feed.time(time)
        entry = self.log.find(id, when)
        if when is None or (entry is not None and entry.time == when):
            return entry
        # It may be a little off the grid.
        when = place(self.feed, self.interval, time, self.log.newest, [])[0]
        if id is None:
            return self.log.find(None, when)
        if entry is not None and entry.time != when:
            raise LatentTrackError(
                f"the label has the id of step {entry.number} ({self.feed.show(entry.time)}) and the time of "
                f"another ({self.feed.show(when)}): give one of them, or those of the same step."
            )
        return entry

    def _absence(self, time: object) -> str:
        """Why no step has this time."""
        first = self.log.entries[0].time if self.log.entries else math.inf
        return "too-late" if self.feed.time(time) < first else "unmatched"

    def _take(self, entry: Entry, label: float) -> Observed:
        if label == entry.label:
            return Observed("repeated", entry.number, entry.pit, entry.log_score)
        status = "taken" if math.isnan(entry.label) else "corrected"
        entry.label, entry.pit, entry.log_score = label, math.nan, math.nan
        if entry.forecast is not None:  # else its step came before all that is kept
            entry.pit, entry.log_score = self.program.score(entry.forecast, label)
            self.surprise = entry.pit
        self._follow(self._guard.label(entry))
        drift = status == "taken" and self.alarm.hear(entry.pit, entry.number)
        self.counts["labels"] += status == "taken"
        self.counts["drift"] += drift
        # Steps that should have had it are out of date.
        self._stale = min(self._stale, entry.number + self.feed.delay)
        if entry.held:
            status = "held" if math.isnan(entry.stand_in) else "clipped"
        return Observed(status, entry.number, entry.pit, entry.log_score, drift)

    def _follow(self, ruling: Ruling) -> None:
        """Take note of what the gate has decided."""
        if ruling is NOTHING:  # nearly always
            return
        self.counts["held"] += ruling.held
        self._stale = min(self._stale, ruling.stale)
        if ruling.restart:
            self.begin = "restart"
