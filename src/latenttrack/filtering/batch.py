"""Many events at once: compiled passes over pieces of a table, with the numbers of event by event.

A piece is run in one pass if nothing in it is out of the ordinary: its steps follow on each other, no value
is implausible, no label a fault. Any other piece, and the newest steps (which the log must hold, so that late
labels can still be taken in), are run event by event.
"""

import copy
import math
from typing import NamedTuple

import numpy as np

from latenttrack.filtering.answers import Prediction
from latenttrack.filtering.live import LiveFilter
from latenttrack.filtering.log import Entry

PIECE = 256  # steps of a compiled pass


class Events(NamedTuple):
    """N events of one stream, in order.

    Attributes:
        time: [N] as `Feed.time` gives them.
        row: [N, F] measurements, NaN where missing.
        label: [N] the label of each step, known right after it; NaN where it is not known so soon.
        source: [N] the measurement that is the label of `horizon` steps ago; NaN where there is none.
    """

    time: np.ndarray
    row: np.ndarray
    label: np.ndarray
    source: np.ndarray

    def part(self, begin: int, end: int) -> "Events":
        """Some of them."""
        return Events(*(column[begin:end] for column in self))


def run_events(live: LiveFilter, events: Events) -> list[Prediction]:
    """Predict N events, each before its label is known, and learn from their labels."""
    found: list[Prediction] = []
    count, at = len(events.time), 0
    while at < count:
        part = events.part(at, min(at + PIECE, count))
        quick = at + PIECE <= count - live.log.capacity
        answers = _Piece(live, part).run() if quick else None
        found += _one_by_one(live, part) if answers is None else answers
        at += PIECE
    return found


def _one_by_one(live: LiveFilter, events: Events) -> list[Prediction]:
    answers = []
    for time, row, label, source in zip(*events, strict=True):
        x = dict(zip(live.feed.inputs, row.tolist(), strict=True))
        if live.feed.source is not None:
            x[live.feed.source] = float(source)
        when = live.feed.stamp(time.item())
        answers.append(live.predict(x, time=when))
        if not math.isnan(label):
            live.observe(float(label), time=when)
    return answers


class _Piece:
    """One pass: nothing of the live filter changes before it is known that nothing was out of order."""

    def __init__(self, live: LiveFilter, events: Events):
        self.live, self.events = live, events
        self.first = live.next_number

    def run(self) -> list[Prediction] | None:
        """The predictions; None if it must be run event by event."""
        if not self._is_ordinary():
            return None
        live, N, D = self.live, len(self.events.time), self.live.feed.delay
        labels = self._labels()  # of the D steps before the piece, then of its own
        features, memory = live.pipeline.steps(live.memory, self._stamps(), self.events.row, labels[:N])
        features = np.concatenate([self._before("features"), features.astype(np.float32)])
        inputs = [
            live.program.inputs(features[i], float(labels[i]), features[D + i], self.first + i)
            for i in range(N)
        ]
        tracks = live.program.scan(live.belief, np.stack(inputs))
        entries = self._entries(features[D:], labels[D:], tracks)
        answers = self._judge(entries)
        if answers is not None:
            live.leap(entries, live.program.place(tracks[-1]), memory)
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

    def _entries(self, features: np.ndarray, labels: np.ndarray, tracks: np.ndarray) -> list[Entry]:
        names, void = self.live.feed.inputs, np.isnan(self.events.row)
        return [
            Entry(
                self.first + i,
                self.events.time[i].item(),
                self.events.row[i],
                flags=[f"missing:{names[c]}" for c in np.flatnonzero(void[i]).tolist()],
                label=float(labels[i]),
                features=features[i],
                report=self.live.program.report(tracks[i]).tolist(),
                forecast=tracks[i],
            )
            for i in range(len(features))
        ]

    def _judge(self, entries: list[Entry]) -> list[Prediction] | None:
        """Score the labels in the order in which they came; None if one is a fault."""
        live, h = self.live, self.live.feed.horizon
        gate, alarm, counts = copy.deepcopy(live.gate), copy.deepcopy(live.alarm), dict(live.counts)
        own = {entry.number: entry for entry in entries}
        sourced = live.feed.source is not None
        # (step whose label it is, step before whose prediction it is known)
        order = [
            (entry.number - h if sourced else entry.number, entry.number + (not sourced)) for entry in entries
        ]
        known = [(own.get(s) or live.log.get(s), at) for s, at in order]
        values = self.events.source if sourced else self.events.label
        taken = [(e, at, float(v)) for (e, at), v in zip(known, values, strict=True) if e and v == v]
        if any(not math.isnan(e.label) and e.label != v for e, _, v in taken):
            return None  # another value was known
        scores = live.program.scores([e.forecast for e, _, _ in taken], [v for _, _, v in taken], PIECE)
        surprise, heard, drifts = {}, live.surprise, set()
        for (entry, at, value), (pit, _) in zip(taken, scores, strict=True):
            assert entry.report is not None
            if gate.is_fault(value, pit, float(entry.report[3]), entry.number):
                return None
            surprise[at] = pit
            if alarm.hear(pit, entry.number):
                drifts.add(at)
        # Nothing was out of order: from here on it counts.
        counts["labels"] += len(taken)
        counts["drift"] += len(drifts)
        for (entry, at, value), (pit, log_score) in zip(taken, scores, strict=True):
            entry.label, entry.pit, entry.log_score = value, pit, log_score
            if sourced and at in drifts:
                own[at].flags.append("drift")
        answers = []
        for entry in entries:
            heard = surprise.get(entry.number, heard)
            answers.append(live.told(entry)._replace(surprise=heard))
        live.surprise = surprise.get(self.first + len(entries), heard)
        live.gate.restore(gate.to_dict())
        live.alarm, live.counts = alarm, counts
        live.counts["events"] += len(entries)
        return answers
