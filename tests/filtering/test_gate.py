"""The gate: faults stay out and change nothing, news comes in as if it had never been kept out."""

import dataclasses
import math

import numpy as np
import pytest
from tiny_streams import make_model, make_raw, without_source

from latenttrack.errors import LatentTrackError
from latenttrack.filtering.gate import Gate, GateSettings

PATIENCE = 12


def make_gate(policy="hold", patience=3):
    return Gate(GateSettings(policy, patience=patience), ((-1.0, 1.0), (-math.inf, math.inf), (-5.0, 5.0)))


def row(*values):
    return np.array(values)


def test_what_is_out_of_its_limits_is_a_fault():
    gate = make_gate()
    assert gate.faults(row(0.5, 1e9), 0) == []
    assert gate.faults(row(2.0, 0.0), 1) == [0]
    assert gate.faults(row(math.nan, math.nan), 2) == []
    assert gate.is_fault(6.0, 0.5, 1.0, 3)
    assert not gate.is_fault(4.0, 0.5, 1.0, 4)
    assert gate.clip(7.0, 2) == 5.0
    assert make_gate("off").faults(row(2.0, 0.0), 0) == []


def test_an_extreme_label_is_a_fault_only_where_ignorance_has_spiked():
    gate = make_gate()
    for step in range(5):
        assert not gate.is_fault(0.0, 0.5, 1.0, step)
    assert not gate.is_fault(4.0, 1.0, 1.0, 5)
    assert gate.is_fault(4.0, 1.0, 10.0, 6)
    assert not gate.is_fault(4.0, 0.99, 10.0, 7)


def test_values_that_vary_are_news():
    gate = make_gate(patience=3)
    for step, value in enumerate([2.0, 2.1]):
        assert gate.faults(row(value, 0.0), step) == [0]
        assert gate.news(0) == []
    # A missing value neither helps nor ends it.
    gate.faults(row(math.nan, 0.0), 2)
    assert gate.faults(row(2.2, 0.0), 3) == [0]
    assert gate.news(0) == [0, 1, 3]
    assert gate.faults(row(9.0, 0.0), 4) == []
    # Open until as many values in a row are as before.
    for step in (5, 6):
        assert gate.faults(row(0.0, 0.0), step) == []
    assert gate.faults(row(9.0, 0.0), 7) == []
    for step in (8, 9, 10):
        gate.faults(row(0.0, 0.0), step)
    assert gate.faults(row(9.0, 0.0), 11) == [0]


def test_a_stuck_sensor_is_never_news():
    gate = make_gate(patience=3)
    for step in range(50):
        assert gate.faults(row(-9999.0, 0.0), step) == [0]
        assert gate.news(0) == []
    # And of what follows only the new values are let in.
    for step, value in enumerate([2.0, 2.1, 2.2], 50):
        gate.faults(row(value, 0.0), step)
    assert gate.news(0) == [50, 51, 52]


def test_it_is_kept():
    gate, twin = make_gate(), make_gate()
    for step, value in enumerate([2.0, 2.1]):
        gate.faults(row(value, 0.0), step)
        gate.is_fault(0.1 * value, 0.5, 1.0, step)
    twin.restore(gate.to_dict())
    for each in (gate, twin):
        each.faults(row(2.2, 0.0), 2)
    assert gate.news(0) == twin.news(0) == [0, 1, 2]
    assert gate.epistemic == twin.epistemic


@pytest.mark.parametrize(
    "wrong", [{"policy": "maybe"}, {"patience": 0}, {"surprise": -1.0}, {"spike": math.nan}]
)
def test_wrong_settings(wrong):
    with pytest.raises(LatentTrackError):
        GateSettings(**wrong)


@pytest.fixture(scope="module")
def raw():
    return make_raw(90)


@pytest.fixture(scope="module")
def model(raw):
    return without_source(make_model(raw))


def play(model, raw, gate, x=None, y=None, last=60):
    """Rows and labels in order, each label at once; some replaced by others, None: never sent."""
    stream, statuses = model.stream(gate=gate), {}
    for t in range(last):
        given = raw.x[t].copy()
        if x is not None and t in x:
            given[1] = math.nan if x[t] is None else x[t]
        stream.predict(given, time=raw.time[t])
        label = (y or {}).get(t, raw.y[t])
        if label is not None:
            statuses[t] = stream.observe(label, time=raw.time[t]).status
    return stream, statuses


def says(stream, raw, t=60):
    said = stream.predict(raw.x[t], time=raw.time[t])
    return said.mean, said.std


def test_a_label_that_is_held_changes_nothing(model, raw):
    spoiled, statuses = play(model, raw, "hold", y={50: 1e6})
    clean, _ = play(model, raw, "hold", y={50: None})
    assert statuses[50] == "held"
    assert spoiled.counts["held"] == 1
    assert says(spoiled, raw) == says(clean, raw)
    # Corrected, it is taken in.
    assert spoiled.observe(raw.y[50], time=raw.time[50]).status == "corrected"
    assert clean.observe(raw.y[50], time=raw.time[50]).status == "taken"
    assert says(spoiled, raw, 61) == says(clean, raw, 61)


def test_a_measurement_that_is_held_is_missing(model, raw):
    stuck = dict.fromkeys(range(30, 60), -9999.0)
    spoiled, _ = play(model, raw, "hold", x=stuck)
    clean, _ = play(model, raw, "hold", x=dict.fromkeys(stuck))
    assert says(spoiled, raw) == says(clean, raw)


def test_clip_moves_to_the_limit(model, raw):
    spoiled, statuses = play(model, raw, "clip", x={50: 1e6}, y={50: -1e6})
    clipped, _ = play(model, raw, "off", x={50: model.feed.limits[1][1]}, y={50: model.feed.target_limits[0]})
    assert statuses[50] == "clipped"
    assert says(spoiled, raw) == says(clipped, raw)


def test_reset_starts_anew(model, raw):
    """Once for a row of faults, from what the stream began with."""
    stuck = dict.fromkeys(range(40, 60), -9999.0)
    spoiled, _ = play(model, raw, "reset", x=stuck)
    assert [e.number for e in spoiled.log.entries if e.begin == "restart"] == [40]
    held, _ = play(model, raw, "hold", x=stuck)
    assert says(spoiled, raw) != says(held, raw)


def test_off_lets_all_in(model, raw):
    stream, statuses = play(model, raw, "off", x={50: 1e6}, y={50: 1e6})
    assert statuses[50] == "taken"
    assert stream.counts["held"] == 0


def test_measurements_of_a_new_regime_are_let_in_from_its_beginning(model, raw):
    """The belief, and its snapshot, as if nothing had ever been held."""
    rng = np.random.default_rng(0)
    jump = {t: 60.0 + rng.normal() for t in range(30, 60)}
    gated, _ = play(model, raw, "hold", x=jump)
    free, _ = play(model, raw, "off", x=jump)
    assert gated.counts["held"] == PATIENCE - 1
    flags = gated.log.get(30 + PATIENCE - 1).flags
    assert flags == ["new-regime:wind"]
    assert says(gated, raw) == says(free, raw)


def test_labels_of_a_new_regime_are_let_in_from_its_beginning(model, raw):
    rng = np.random.default_rng(1)
    jump = {t: 60.0 + rng.normal() for t in range(30, 60)}
    gated, statuses = play(model, raw, "hold", y=jump)
    free, _ = play(model, raw, "off", y=jump)
    assert [statuses[t] for t in range(29, 44)] == ["taken"] + ["held"] * (PATIENCE - 1) + ["taken"] * 3
    assert says(gated, raw) == says(free, raw)


def test_an_old_fault_stays_out_when_a_new_regime_is_let_in(model, raw):
    jump = {t: 60.0 + 0.1 * t for t in range(40, 60)}
    gated, _ = play(model, raw, "hold", y={20: 1e6, **jump})
    free, _ = play(model, raw, "off", y={20: None, **jump})
    assert says(gated, raw) == says(free, raw)


def test_held_rows_survive_a_snapshot(model, raw, tmp_path):
    import latenttrack as lt

    jump = {t: 60.0 + 0.1 * t for t in range(45, 60)}
    before, _ = play(model, raw, "hold", x=jump, last=50)
    before.snapshot(tmp_path / "s.state")
    after = lt.resume(tmp_path / "s.state")
    free, _ = play(model, raw, "off", x=jump)
    for t in range(50, 60):
        row = raw.x[t].copy()
        row[1] = jump[t]
        after.predict(row, time=raw.time[t])
        after.observe(raw.y[t], time=raw.time[t])
    assert says(after, raw) == says(free, raw)


def test_a_measurement_that_is_the_label_too(raw):
    """Held as a measurement and held as a label: both, and the flags say so."""
    model = make_model(raw)
    stream = model.stream()
    for t in range(20):
        stream.predict(raw.x[t], time=raw.time[t])
    said = stream.predict({"level": 1e6, "wind": 0.0}, time=raw.time[20])
    assert set(said.flags) == {"implausible:level", "label-held"}
    assert math.isfinite(said.mean)
    assert dataclasses.asdict(stream.gate.settings)["policy"] == "hold"
