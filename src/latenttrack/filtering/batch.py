"""Many events at once: compiled passes over pieces of a table, with the numbers of event by event.

A piece is run in one pass if nothing in it is out of the ordinary: its steps follow on each other, no value
is implausible, no label a fault, all forecasts are numbers. It leaves the log as if its events had come one
by one. Any other piece, and what is left at the end, are run event by event.
"""

import copy
import math
from typing import NamedTuple

import numpy as np

from latenttrack.data.features import PipelineState
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.answers import Observed, Prediction, refused
from latenttrack.filtering.live import LiveFilter
from latenttrack.filtering.log import Entry
from latenttrack.filtering.program import is_sound

PIECE = 64  # steps of a compiled pass


class Events(NamedTuple):
    """N events of one stream, in order.

    Attributes:
        time: [N] as `Feed.time` gives them.
        row: [N, F] measurements, NaN where missing.
        label: [N] the label of each step, known right after it; NaN where it is not known so soon.
        source: [N] the measurement that is the label of `horizon` steps ago; NaN where there is none.
        flags: N lists of what is wrong with the rows.
        ids: N names, None for none.
    """

    time: np.ndarray
    row: np.ndarray
    label: np.ndarray
    source: np.ndarray
    flags: list[list[str]]
    ids: list[str | int | None]

    def part(self, begin: int, end: int) -> "Events":
        """Some of them."""
        cut = slice(begin, end)
        return Events(
            self.time[cut],
            self.row[cut],
            self.label[cut],
            self.source[cut],
            self.flags[cut],
            self.ids[cut],
        )


def run_events(live: LiveFilter, events: Events) -> list[Prediction]:
    """Predict the N rows of a table, each before its label is known, and learn from their labels."""
    found: list[Prediction] = []
    for begin in range(0, len(events.time), PIECE):
        part = events.part(begin, begin + PIECE)
        answers = run_piece(live, part, trusted=True)
        found += _one_by_one(live, part) if answers is None else [prediction for prediction, _ in answers]
    return found


def run_piece(
    live: LiveFilter, events: Events, trusted: bool = False
) -> list[tuple[Prediction, Observed]] | None:
    """The answers to `PIECE` events in one pass; None, and no change, if they must be run one by one.

    An event without a label is answered by `Observed("missing")`. For `trusted` see `LiveFilter.predict_row`.
    """
    return _Piece(live, events, trusted).run() if len(events.time) == PIECE else None


def _one_by_one(live: LiveFilter, events: Events) -> list[Prediction]:
    answers = []
    for time, row, label, source, flags, id in zip(*events, strict=True):
        when = live.feed.stamp(time.item())
        # Not as numbers by name: what was wrong with the values themselves would be lost.
        try:
            said = live.predict_row(row, float(source), list(flags), time=when, id=id, trusted=True)
        except LatentTrackError as error:  # told in its place: those of the other rows are not lost
            said = refused(live.feed.show(time.item()), id, live.levels, [*flags, f"error:{error}"])
        answers.append(said)
        if not math.isnan(label):
            live.observe(float(label), time=when)
    return answers


class _Piece:
    """One pass: nothing of the live filter changes before it is known that nothing was out of order."""

    def __init__(self, live: LiveFilter, events: Events, trusted: bool):
        self.live, self.events, self.trusted = live, events, trusted
        self.first = live.next_number

    def run(self) -> list[tuple[Prediction, Observed]] | None:
        """The answers; None if it must be run event by event."""
        self.live.settle()
        if not self._is_ordinary():
            return None
        live, N, D = self.live, len(self.events.time), self.live.feed.delay
        labels = self._labels()  # of the D steps before the piece, then of its own
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is infinite: not sound
            features, memories = live.pipeline.steps(live.memory, self._stamps(), self.events.row, labels[:N])
            features = np.concatenate([self._before("features"), features.astype(np.float32)])
            inputs = [
                live.program.inputs(features[i], float(labels[i]), features[D + i], (self.first + i) % 2**32)
                for i in range(N)
            ]
        tracks = live.program.scan(live.belief, np.stack(inputs))
        reports = [live.program.report(track) for track in tracks]
        if not all(is_sound(report) for report in reports):
            return None
        entries = self._entries(features[D:], tracks, reports, memories)
        answers = self._judge(entries)
        if answers is not None:
            live.leap(entries, live.program.place(tracks[-1]), memories[-1])
        return answers

    def _is_ordinary(self) -> bool:
        live, events = self.live, self.events
        newest, interval, feed = live.log.newest, live.interval, live.feed
        if newest is None or self.first < feed.delay or live.begin or feed.horizon > feed.delay:
            return False
        if any(self._entry(number) is None for number in range(self.first - feed.delay, self.first)):
            return False
        steps = np.diff(np.concatenate([[newest.time], events.time]))
        regular = np.all(steps > 0) if interval is None else np.all(steps == interval)
        if interval is None and not self.trusted and live.leaps.has_leap(events.time):
            return False
        limits = np.array(live.gate.limits[:-1]).reshape(-1, 2)
        outside = (events.row < limits[:, 0]) | (events.row > limits[:, 1])
        quiet = not live.gate.active or not any(run.length or run.open for run in live.gate.runs)
        return bool(regular) and quiet and not (live.gate.active and outside.any())

    def _entry(self, number: int) -> Entry | None:
        entry = self.live.log.get(number)
        return None if entry is None or entry.features is None else entry

    def _before(self, name: str) -> np.ndarray:
        """[D, ...] of the steps just before the piece."""
        delay = self.live.feed.delay
        entries = [self.live.log.get(self.first - delay + i) for i in range(delay)]
        return np.array([getattr(entry, name) for entry in entries])

    def _labels(self) -> np.ndarray:
        """[D + N] labels of the D steps before the piece and of its own, NaN where not known in time."""
        D, h = self.live.feed.delay, self.live.feed.horizon
        labels = np.concatenate([self._before("usable"), self.events.label])
        if self.live.feed.source is not None:
            moved = np.concatenate([np.full(D, math.nan), self.events.source])[h:]
            labels[: len(moved)] = np.where(np.isnan(moved), labels[: len(moved)], moved)
        return labels

    def _stamps(self) -> np.ndarray:
        times = self.events.time
        return times.astype("datetime64[ns]") if self.live.feed.clock else times.astype(float)

    def _entries(
        self,
        features: np.ndarray,
        tracks: np.ndarray,
        reports: list[list[float]],
        memories: list[PipelineState],
    ) -> list[Entry]:
        events = self.events
        return [
            Entry(
                self.first + i,
                events.time[i].item(),
                events.row[i],
                events.ids[i],
                flags=list(events.flags[i]),
                features=features[i],
                belief=self.live.belief if i == 0 else tracks[i - 1],
                memory=memories[i],
                report=reports[i],
                forecast=tracks[i],
            )
            for i in range(len(features))
        ]

    def _judge(self, entries: list[Entry]) -> list[tuple[Prediction, Observed]] | None:
        """Score the labels in the order in which they came; None if one is a fault."""
        live, h = self.live, self.live.feed.horizon
        gate, alarm, counts = copy.deepcopy(live.gate), copy.deepcopy(live.alarm), dict(live.counts)
        own = {entry.number: entry for entry in entries}
        sourced = live.feed.source is not None
        # Which step's label each event brings: before its prediction if it is a measurement, else after it.
        brought = [own.get(e.number - h) or live.log.get(e.number - h) if sourced else e for e in entries]
        values = (self.events.source if sourced else self.events.label).tolist()
        taken = [
            (i, e, v)
            for i, (e, v) in enumerate(zip(brought, values, strict=True))
            if e is not None and v == v
        ]
        if any(not math.isnan(e.label) for _, e, _ in taken):
            return None  # it was known, or another value was
        scores = live.program.scores([e.forecast for _, e, _ in taken], [v for _, _, v in taken], PIECE)
        observed: dict[int, Observed] = {}
        for (i, entry, value), (pit, log_score) in zip(taken, scores, strict=True):
            assert entry.report is not None
            if gate.is_fault(value, pit, float(entry.report[3]), entry.number):
                return None
            drift = alarm.hear(pit, entry.number)
            observed[i] = Observed("taken", entry.number, pit, log_score, drift)
        # Nothing was out of order: from here on it counts.
        for i, entry, value in taken:
            entry.label, entry.pit, entry.log_score = value, observed[i].surprise, observed[i].log_score
        answers = []
        for i, entry in enumerate(entries):
            known = observed.get(i, Observed("missing"))
            heard = known.surprise if i in observed else live.surprise
            if sourced:
                entry.flags += known.flags
                live.surprise = heard
            answers.append((live.told(entry), known))
            live.surprise = heard
        counts["labels"] += len(taken)
        counts["drift"] += sum(known.drift for known in observed.values())
        counts["events"] += len(entries)
        live.gate.restore(gate.to_dict())
        live.alarm, live.counts = alarm, counts
        return answers
