"""Whatever comes in whatever order: the live filter says what a plain loop over all that is known says.

The reference knows nothing of logs, buffers, or running steps again: it keeps a list of rows and labels, and
before each forecast goes through all of them from the beginning.
"""

import dataclasses
import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_streams import HOUR, make_model, make_raw, without_source

import latenttrack as lt
from latenttrack.errors import LatentTrackError
from latenttrack.models.base import step
from latenttrack.store import read_tensors

BUFFER = 30
LENGTH = 45
WRAPPED = {
    "informant": "rls",
    "correct": True,
    "anchor": "last-label",
    "safety_net": ["rls-t"],
    "recalibrate": True,
}


class Reference:
    """All rows and labels so far, and the forecast that follows from them."""

    def __init__(self, model):
        self.pipeline, self.delay = model.pipeline, model.feed.delay
        tracker = model.stack[0]
        self.init = tracker.init()
        self.step = jax.jit(
            lambda state, due, x: step(
                tracker, state, due, x, jax.random.key(0)
            )  # Sobol draws: no randomness
        )
        self.rows, self.labels, self.times = [], [], []

    def forecast(self):
        """(mean, sd) of the newest step."""
        memory, state, features = self.pipeline.start(), self.init, []
        for t, row in enumerate(self.rows):
            s = t - self.delay
            label = self.labels[s] if s >= 0 else math.nan
            x, memory = self.pipeline.step(memory, self.times[t], row, label=label)
            features.append(jnp.asarray(x, jnp.float32))
            known = not math.isnan(label)
            y = (label - self.pipeline.y_loc) / self.pipeline.y_scale if known else 0.0
            due_x = features[s] if s >= 0 else jnp.zeros(len(x), jnp.float32)
            said, state = self.step(state, (due_x, jnp.float32(y), jnp.asarray(known)), features[t])
        scale = self.pipeline.y_scale
        return self.pipeline.y_loc + scale * float(said.mean), scale * float(jnp.sqrt(said.variance))


@pytest.fixture(scope="module")
def models():
    raw = make_raw(80)
    plain = without_source(make_model(raw))
    return raw, {"network": plain, "preset": without_source(make_model(raw, **WRAPPED))}


def assert_same(left, right):
    """Two snapshots hold the same bits."""
    (a, head_a), (b, head_b) = (read_tensors(path, "snapshot") for path in (left, right))
    assert head_a == head_b
    for name, array in a.items():
        assert array.tobytes() == b[name].tobytes(), name


class Play:
    """A live filter and the reference, side by side, through random events."""

    def __init__(self, raw, model, seed, folder, references):
        self.raw, self.folder, self.rng = raw, folder, random.Random(seed)
        self.model = model
        self.live = model.stream(gate="off", buffer=BUFFER)
        self.reference = references
        for part in (references.rows, references.labels, references.times):
            part.clear()
        self.next, self.gaps, self.checked = 0, [], 0

    @property
    def capacity(self):
        return 2 * self.raw.delay + BUFFER

    def first(self):
        """The oldest step that is still kept."""
        return max(len(self.reference.rows) - self.capacity, 0)

    def event(self):
        skip = self.rng.choice([0] * 8 + [1, 3]) if self.next else 0
        for _ in range(skip):
            self._enter(np.full(2, math.nan))
            self.gaps.append(self.next - 1)
        row = self.raw.x[self.next].copy()
        given = dict(zip(self.raw.names, row.tolist(), strict=True))
        if self.rng.random() < 0.15:
            name = self.rng.choice(self.raw.names)
            given[name] = self.rng.choice([None, math.nan, math.inf, "?", [1]])
            row[self.raw.names.index(name)] = math.nan
        if self.rng.random() < 0.1:
            del given[self.raw.names[1]]
            row[1] = math.nan
        self._enter(row)
        said = self.live.predict(given, time=self.reference.times[-1], id=f"e{self.next - 1}")
        mean, sd = self.reference.forecast()
        assert said.mean == pytest.approx(mean, rel=1e-5, abs=1e-5)
        assert said.std == pytest.approx(sd, rel=1e-5, abs=1e-5)
        assert (f"gap:{skip}" in said.flags) == (skip > 0)
        self.checked += 1

    def _enter(self, row):
        self.reference.rows.append(row)
        self.reference.labels.append(math.nan)
        self.reference.times.append(self.raw.time[0] + self.next * HOUR)
        self.next += 1

    def label(self):
        """Of any step, kept or not, known or not; by time or by id."""
        s = self.rng.randrange(max(self.next - self.capacity - 3, 0), self.next)
        y = self.rng.choice([self.raw.y[s % 60], self.rng.gauss(0, 3), None, self.reference.labels[s]])
        by_id = s not in self.gaps and self.rng.random() < 0.5
        where = {"id": f"e{s}"} if by_id else {"time": self.reference.times[s]}
        observed = self.live.observe(y, **where)
        known = self.reference.labels[s]
        if s < self.first():
            assert observed.status == ("unmatched" if by_id else "too-late")
        elif y is None or math.isnan(y):
            assert observed.status == "missing"
        else:
            word = "taken" if math.isnan(known) else "repeated" if y == known else "corrected"
            assert (observed.status, observed.number) == (word, s)
            self.reference.labels[s] = y

    def late(self):
        """An event for a step that was a gap, or was known."""
        s = (
            self.rng.choice(self.gaps)
            if self.gaps and self.rng.random() < 0.8
            else self.rng.randrange(self.next)
        )
        row = self.raw.x[s].copy()
        if s not in self.gaps and s >= self.first():
            assert "repeated" in self.live.predict(row * 2, time=self.reference.times[s]).flags
        elif self.first() > 0 and s < self.first() + self.raw.delay:
            with pytest.raises(LatentTrackError, match="too late"):
                self.live.predict(row, time=self.reference.times[s])
        else:
            assert "late" in self.live.predict(row, time=self.reference.times[s], id=f"e{s}").flags
            self.gaps.remove(s)
            self.reference.rows[s] = row

    def restart(self):
        """From a snapshot, which must say the same to the last bit."""
        path = self.folder / "s.state"
        self.live.snapshot(path)
        twin = lt.resume(path, self.model)
        twin.snapshot(self.folder / "again.state")
        assert_same(path, self.folder / "again.state")
        if self.rng.random() < 0.5:
            when = self.reference.times[-1] + HOUR
            row = self.raw.x[self.next].copy()
            a, b = (each.predict(row, time=when, id=f"e{self.next}") for each in (self.live, twin))
            assert repr(a) == repr(b)
            self._enter(row)
        self.live = twin


@pytest.fixture(scope="module")
def references(models):
    return {name: Reference(model) for name, model in models[1].items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network", "preset"])
def test_as_a_plain_loop_over_all_that_is_known(models, references, name, tmp_path):
    raw, kinds = models
    checked = 0
    for seed in range(10):
        play = Play(raw, kinds[name], seed, tmp_path, references[name])
        play.event()
        while play.next < LENGTH:
            what = play.rng.choices(["event", "label", "late", "restart"], [4, 5, 1, 0.4])[0]
            getattr(play, what)()
        checked += play.checked
    assert checked > 150


def test_a_label_of_the_oldest_step_is_not_lost(models, references):
    """It is taken in before its step leaves the log."""
    raw, kinds = models
    reference = references["network"]
    live = kinds["network"].stream(gate="off", buffer=5)
    reference.rows[:], reference.labels[:], reference.times[:] = [], [], []
    for t in range(30):
        reference.rows.append(raw.x[t])
        reference.labels.append(math.nan)
        reference.times.append(raw.time[t])
        said = live.predict(raw.x[t], time=raw.time[t])
        if t == 20:
            oldest = live.log.first
            assert live.observe(9.0, time=raw.time[oldest]).status == "taken"
            reference.labels[oldest] = 9.0
    assert said.mean == pytest.approx(reference.forecast()[0], rel=1e-5, abs=1e-5)


def test_a_late_event_brings_its_label(models):
    """Where the target is a measurement, the label of an event that fills a gap counts too."""
    raw = models[0]
    model = make_model(raw)
    straight, late = model.stream(), model.stream()
    for t in range(30):
        straight.predict(raw.x[t], time=raw.time[t])
        if t != 20:
            late.predict(raw.x[t], time=raw.time[t])
    late.predict(raw.x[20], time=raw.time[20])
    a, b = (s.predict(raw.x[30], time=raw.time[30]) for s in (straight, late))
    assert (a.mean, a.std) == (b.mean, b.std)


def test_numbers_too_large_do_not_stay(models):
    """Beyond single precision, with the gate off: flagged, and the forecasts after it are numbers again."""
    raw, kinds = models
    for x, y in [
        ({"level": 1e200}, 0.0),
        ({"level": -3e38}, 0.0),
        ({"level": 0.0}, 1e300),
        ({"level": 3e38}, -1e39),
    ]:
        for name in kinds:
            live = kinds[name].stream(gate="off")
            for t in range(12):
                live.predict(x if t == 5 else raw.x[t], time=raw.time[t])
                live.observe(y if t == 5 else raw.y[t], time=raw.time[t])
            said = live.predict(raw.x[12], time=raw.time[12])
            assert all(map(math.isfinite, said.quantiles.values()))
            assert math.isfinite(said.mean + said.std)


def test_one_wrong_clock_does_not_end_a_stream(models):
    raw, kinds = models
    live = kinds["network"].stream()
    live.predict(raw.x[0], time=raw.time[0])
    with pytest.raises(LatentTrackError, match="long after"):
        live.predict(raw.x[1], time="2026-03-01T00:00:00")
    assert live.predict(raw.x[1], time=raw.time[1]).number == 1
    far = np.datetime64("2099-01-01", "ns")
    with pytest.raises(LatentTrackError, match="long after"):
        live.predict(raw.x[2], time=far)
    assert live.predict(raw.x[3], time=far + HOUR).number > 1
    for time in ("9999-12-31T00:00:00", "0001-01-01", 8.9e9 + 4e9, True, math.nan, math.inf, [], "x" * 10**6):
        with pytest.raises(LatentTrackError, match="cannot be read") as caught:
            live.predict(raw.x[2], time=time)
        assert len(str(caught.value)) < 250


def test_labels_of_an_absorbed_past(models):
    """Also of steps that were never run one by one."""
    raw, kinds = models
    model = dataclasses.replace(kinds["network"], start=None)
    live = model.stream(raw, buffer=5)
    for entry in list(live.log.entries):
        assert live.observe(1.25, time=np.datetime64(entry.time, "ns")).status in ("taken", "corrected")
    assert math.isfinite(live.predict(raw.x[0], time=raw.time[-1] + HOUR).mean)
