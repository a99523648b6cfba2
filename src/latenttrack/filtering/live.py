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
from typing import Any, NamedTuple

import numpy as np

from latenttrack.data.features import Pipeline, PipelineState
from latenttrack.data.feed import Feed
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.alarm import Alarm
from latenttrack.filtering.gate import Gate, GateSettings
from latenttrack.filtering.log import Entry, Log
from latenttrack.filtering.program import Program, Track

BUFFER = 96  # steps that a label may come late
_LONGEST_GAP = 1000  # steps that are advanced one by one; a longer gap is cut to this


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


class Observed(NamedTuple):
    """What became of a label.

    Attributes:
        status: "taken"; "held" by the gate; "repeated" (known already); "corrected" (another value was
            known); "missing" (null); "too-late" (its step is no longer kept); "unmatched" (no such step).
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


class LiveFilter:
    """One stream.

    Args:
        program: the model, compiled.
        pipeline: makes its inputs.
        feed: how events are read.
        gate: how faults are judged.
        buffer: steps that a label may be late and still be taken in.
    """

    def __init__(
        self,
        program: Program,
        pipeline: Pipeline,
        feed: Feed,
        *,
        gate: GateSettings | None = None,
        buffer: int = BUFFER,
    ):
        self.feed, self.levels = feed, program.levels
        self.pipeline, self.program = pipeline, program
        self.log = Log(2 * feed.delay + max(buffer, 1))
        self.gate = Gate(gate or GateSettings(), (*feed.limits, feed.target_limits))
        self.alarm = Alarm(feed.delay)
        self.counts = dict.fromkeys(("events", "labels", "too-late", "unmatched", "held", "gaps", "drift"), 0)
        self.origin = self.belief = self.program.start()
        self.memory = pipeline.start()
        self._stale = 0  # number of the first step whose run is missing or out of date
        self.surprise = math.nan
        self.begin = ""  # of the next step
        self._nothing = np.zeros(len(pipeline.names), np.float32)

    def predict(
        self, x: Mapping[str, Any] | np.ndarray, *, time: object = None, id: str | int | None = None
    ) -> Prediction:
        """The distribution of the label of this step, before it is known.

        Args:
            x: measurements by name, or all F of them in the order of `feed.inputs`. What is missing or not a
                number is predicted without, and flagged.
            time: of the step; None: one step after the last.
            id: under which its label will come; by default labels are matched by time.
        """
        row, label, flags = self.feed.row(x if isinstance(x, Mapping) else self._by_name(x))
        when, number, more = self._place(time)
        flags += more
        newest = self.log.newest
        if newest is not None and number <= newest.number:
            return self._late(number, when, id, row, flags)
        self._fill_gap(number, when, flags)
        return self._next(Entry(self.next_number, when, row, id, flags=flags), label)

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

    def observe(self, y: object, *, time: object = None, id: str | int | None = None) -> Observed:
        """The label of a step is known; say which step by the id or the time of its event.

        Args:
            y: the label; None or NaN says that it will never come.
            time: of its step.
            id: of its step.
        """
        if id is None and time is None:
            raise LatentTrackError("a label needs the id or the time of its step: give one of them.")
        label = self.feed.label(y)
        entry = self._find(id, time)
        if entry is None:
            status = "unmatched" if id is not None else self._absence(time)
            self.counts[status] += 1
            return Observed(status)
        if math.isnan(label):
            return Observed("missing", entry.number)
        return self._take(entry, label)

    def leap(self, entries: list[Entry], belief: Track, memory: PipelineState) -> None:
        """Go on after steps that were run elsewhere (filtering/batch.py).

        Args:
            entries: of these steps, without beliefs: no label of theirs may come late before they have left
                the log.
            belief: after them.
            memory: the pipeline's, after them.
        """
        for entry in entries:
            self.log.append(entry)
        self.belief, self.memory = belief, memory
        self._stale = self.next_number

    # Steps

    def _by_name(self, x: np.ndarray) -> dict[str, Any]:
        values = np.asarray(x)
        if values.shape != (len(self.feed.inputs),):
            raise LatentTrackError(
                f"x has shape {values.shape}: give the {len(self.feed.inputs)} measurements "
                f"{', '.join(self.feed.inputs)}, in this order or by name."
            )
        return dict(zip(self.feed.inputs, values.tolist(), strict=True))

    def _place(self, time: object) -> tuple[int | float, int, list[str]]:
        """Time and number of the step that an event is about, and flags."""
        newest, interval = self.log.newest, self.interval
        if time is None:
            if newest is None and self.feed.clock:
                raise LatentTrackError("the first event has no time: give it one; later ones may go without.")
            number = 0 if newest is None else newest.number + 1
            return 0 if newest is None else newest.time + (interval or 1), number, []
        when = self.feed.time(time)
        if newest is None:
            return when, 0, []
        if interval is None:
            if when > newest.time:
                return when, newest.number + 1, []
            known = self.log.find(None, when)
            return when, newest.number if known is None else known.number, []
        steps = round((when - newest.time) / interval)
        on_grid = newest.time + steps * interval
        return on_grid, newest.number + steps, [] if on_grid == when else ["off-grid"]

    @property
    def interval(self) -> int | None:
        """Between two steps, in the units of their times; None: any."""
        return self.feed.interval if self.feed.clock else 1

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
        entry.row = self._pass_gate(entry.row, entry.flags)
        earlier = self.log.get(entry.number - self.feed.horizon)
        if label == label and earlier is not None:
            observed = self._take(earlier, label)
            entry.flags += ["label-held"] * (observed.status == "held") + ["drift"] * observed.drift
        entry.begin, self.begin = self.begin, ""
        self._append(entry)
        self._run_stale()
        self.counts["events"] += 1
        return self.told(entry)

    def _late(
        self, number: int, when: int | float, id: str | int | None, row: np.ndarray, flags: list[str]
    ) -> Prediction:
        """An event of a step that has passed: known already, or the filling of a gap."""
        entry = self.log.get(number)
        if entry is not None and entry.time == when and entry.asked:
            return self.told(entry)._replace(flags=(*entry.flags, "repeated"))
        if entry is None or entry.time != when or number - self.feed.delay < self.log.first:
            self.counts["too-late"] += 1
            raise LatentTrackError(
                f"the event of {self.feed.show(when)} comes too late: its step is no longer kept, so that it "
                "has no influence; send events in order."
            )
        entry.row, entry.id, entry.asked = self._pass_gate(row, flags), id, True
        entry.flags, entry.forecast = [*flags, "late"], None
        self.log.index(entry)
        self._stale = min(self._stale, number)
        self._run_stale()
        self.counts["events"] += 1
        return self.told(entry)

    def _append(self, entry: Entry) -> None:
        self._stale = min(self._stale, entry.number)
        self.log.append(entry)

    def _run_stale(self) -> None:
        """Run every step whose run is missing or out of date."""
        log, delay, program = self.log, self.feed.delay, self.program
        for entry in log.entries[self._stale - log.first :]:
            if entry.belief is None:  # the next one
                entry.belief, entry.memory = self.belief, self.memory
            due = log.get(entry.number - delay)
            due_y = math.nan if due is None else due.usable
            features, memory = self.pipeline.follow(entry.memory, entry.time, entry.row, label=due_y)
            due_x = self._nothing if due is None else due.features
            inputs = program.inputs(due_x, due_y, features, entry.number)
            track = program.step(self._before(entry), inputs)
            entry.features = inputs[len(features) : 2 * len(features)]
            if entry.forecast is None:
                entry.forecast, entry.report = track, program.report(track).tolist()
            following = log.get(entry.number + 1)
            if following is not None:
                following.belief, following.memory = track, memory
            self.belief, self.memory = track, memory
        self._stale = self.next_number

    def _before(self, entry: Entry) -> Track:
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
        if id is not None or self.interval is None:
            return self.log.find(id, None if time is None else self.feed.time(time))
        when, number, _ = self._place(time)
        entry = self.log.get(number)
        return entry if entry is not None and entry.time == when else None

    def _absence(self, time: object) -> str:
        """Why no step has this time."""
        first = self.log.entries[0].time if self.log.entries else math.inf
        return "too-late" if self.feed.time(time) < first else "unmatched"

    def _take(self, entry: Entry, label: float) -> Observed:
        if label == entry.label:
            return Observed("repeated", entry.number, entry.pit, entry.log_score)
        status = "taken" if math.isnan(entry.label) else "corrected"
        assert entry.forecast is not None
        pit, log_score = self.program.score(entry.forecast, label)
        entry.label, entry.pit, entry.log_score = label, pit, log_score
        entry.held = self._is_held(entry)
        self.surprise = pit
        drift = status == "taken" and self.alarm.hear(pit)
        self.counts["labels"] += status == "taken"
        self.counts["drift"] += drift
        self._overdue(entry)
        return Observed("held" if entry.held else status, entry.number, pit, log_score, drift)

    def _overdue(self, entry: Entry) -> None:
        """Steps that should have had a label are out of date."""
        self._stale = min(self._stale, entry.number + self.feed.delay)

    def _is_held(self, entry: Entry) -> bool:
        gate = self.gate
        assert entry.report is not None
        if not gate.is_fault(entry.label, entry.pit, entry.report[3]):
            return False
        self.counts["held"] += 1
        if gate.is_news(len(gate.limits) - 1):
            for other in self.log.entries:
                if other.held:
                    other.held = False
                    self._overdue(other)
            return False
        if gate.settings.policy == "clip":
            entry.label = gate.clip(entry.label, len(gate.limits) - 1)
            return False
        if gate.settings.policy == "reset":
            self.begin = "restart"
        return True

    def _pass_gate(self, row: np.ndarray, flags: list[str]) -> np.ndarray:
        faults = self.gate.faults(row)
        if not faults:
            return row
        row, policy = row.copy(), self.gate.settings.policy
        self.counts["held"] += 1
        for i in faults:
            if self.gate.is_news(i):
                flags.append(f"new-regime:{self.feed.inputs[i]}")
                continue
            flags.append(f"implausible:{self.feed.inputs[i]}")
            row[i] = self.gate.clip(float(row[i]), i) if policy == "clip" else math.nan
        if policy == "reset":
            self.begin = "restart"
        return row
