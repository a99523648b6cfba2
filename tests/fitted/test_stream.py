"""`Stream`: event by event it says what the offline filter says, whatever order labels come in."""

import dataclasses
import json
import math

import jax
import numpy as np
import pytest
from tiny_streams import make_model, make_raw, without_source

import latenttrack as lt
from latenttrack.filtering.batch import PIECE
from latenttrack.filtering.offline import filter_series
from latenttrack.fitted.events import answer, answer_many

EPS = float(np.finfo(np.float32).eps)
WRAPPED = {
    "informant": "rls",
    "correct": True,
    "safety_net": ["rls-t", "last-label"],
    "anchor": "last-label",
    "recalibrate": True,
}


def offline(model, raw):
    """The same stream in one compiled scan."""
    return filter_series(model.stack, model.pipeline.transform(raw), jax.random.key(0))


def live(model, raw, rows=None, **choices):
    stream = model.stream(**choices)
    found = [stream.predict(raw.x[i], time=raw.time[i]) for i in (range(len(raw)) if rows is None else rows)]
    return stream, found


def means(predictions):
    return np.array([p.mean for p in predictions])


@pytest.fixture(scope="module")
def raw():
    return make_raw()


@pytest.fixture(scope="module")
def model(raw):
    return make_model(raw)


@pytest.mark.parametrize("settings", [{}, WRAPPED], ids=["network", "preset"])
def test_event_by_event_is_the_offline_filter(raw, settings):
    """Labels are found among the measurements: none is sent."""
    model = make_model(raw, **settings)
    expected = offline(model, raw)
    stream, found = live(model, raw)
    np.testing.assert_allclose(means(found), expected.mean[0], rtol=1e3 * EPS, atol=1e3 * EPS)
    np.testing.assert_allclose([p.epistemic for p in found], expected.epistemic[0], rtol=1e-3, atol=1e-6)
    assert stream.counts["labels"] == len(raw) - raw.delay
    # The newest label that is known is that of `delay` steps ago.
    assert found[-1].surprise == pytest.approx(float(expected.pit[0][-1 - raw.delay]), abs=1e-4)


def send(stream, raw, order, labels_at):
    """Events in order; before event t the labels that `labels_at` names."""
    found = []
    for t in order:
        for s in labels_at.get(t, ()):
            stream.observe(raw.y[s], time=raw.time[s])
        found.append(stream.predict(raw.x[t], time=raw.time[t]))
    return found


def test_an_irregular_stream_knows_how_long_it_took(raw):
    """Every row is a step, and the time since the one before is an input: offline and live alike."""
    minutes = np.cumsum(np.random.default_rng(3).integers(1, 600, len(raw)))
    irregular = dataclasses.replace(raw, time=raw.time[0] + minutes * np.timedelta64(60, "s"))
    model = make_model(irregular, elapsed=True)
    assert model.feed.interval is None
    _, found = live(model, irregular)
    np.testing.assert_allclose(means(found), offline(model, irregular).mean[0], rtol=1e-4, atol=1e-4)
    stream, _ = live(model, irregular, range(100))
    soon, late = (
        stream.copy().predict(raw.x[100], time=irregular.time[99] + minutes * np.timedelta64(60, "s"))
        for minutes in (1, 5000)
    )
    assert soon.mean != late.mean


def test_labels_in_any_order_end_in_the_same_belief(model, raw):
    """In time, early, late and shuffled: once all are there, the next forecast is the same."""
    model, rng = without_source(model), np.random.default_rng(1)
    last, ends = 60, []
    for late in (0, 1, 20):
        labels_at = {}
        for s in range(last - raw.delay + 1):
            due = min(s + raw.delay + int(rng.integers(0, late + 1)), last)
            labels_at.setdefault(due, []).append(s)
        for some in labels_at.values():
            rng.shuffle(some)
        ends.append(send(model.stream(), raw, range(last + 1), labels_at)[-1])
    early = model.stream()
    for t in range(last):
        early.predict(raw.x[t], time=raw.time[t])
        early.observe(raw.y[t], time=raw.time[t])
    ends.append(early.predict(raw.x[last], time=raw.time[last]))
    # How surprising the newest label was depends on what was known when it was forecast; the belief does not.
    assert len({end._replace(surprise=0.0, quantiles=tuple(end.quantiles.items())) for end in ends}) == 1


def test_a_label_that_waits_is_not_seen(model, raw):
    """Sent at once, a label changes nothing before it is due."""
    model = without_source(model)
    told, untold = model.stream(), model.stream()
    for t in range(20):
        a, b = told.predict(raw.x[t], time=raw.time[t]), untold.predict(raw.x[t], time=raw.time[t])
        if t < raw.delay:
            assert a.mean == b.mean
        told.observe(5.0, time=raw.time[t])
    assert a.mean != b.mean


def test_what_becomes_of_labels(model, raw):
    stream = without_source(model).stream(buffer=5)
    for t in range(40):
        stream.predict(raw.x[t], time=raw.time[t], id=f"e{t}")
    assert stream.observe(1.0, id="e39").status == "taken"
    assert stream.observe(1.0, id="e39").status == "repeated"
    assert stream.observe(1.5, time=raw.time[39]).status == "corrected"
    assert stream.observe(None, id="e38").status == "missing"
    assert stream.observe(1.0, time=raw.time[2]).status == "too-late"
    assert stream.observe(1.0, time=raw.time[41]).status == "unmatched"
    assert stream.observe(1.0, id="nobody").status == "unmatched"
    assert (stream.counts["too-late"], stream.counts["unmatched"]) == (1, 2)
    with pytest.raises(lt.LatentTrackError, match="id or the time"):
        stream.observe(1.0)


def test_an_event_that_comes_again_under_another_id(model, raw, tmp_path):
    """Either id leads to its step, also after a restart, until the step is gone."""
    stream = without_source(model).stream(buffer=5)
    first = stream.predict(raw.x[0], time=raw.time[0], id="a")
    again = stream.predict(raw.x[0], time=raw.time[0], id="b")
    assert again == first._replace(id="b", flags=("repeated",))
    assert stream.predict(raw.x[0], time=raw.time[0]).id == "a"
    stream.snapshot(tmp_path / "s.state")
    for each in (stream, lt.resume(tmp_path / "s.state", stream.model)):
        assert (each.observe(1.0, id="b").status, each.observe(1.0, id="a").status) == ("taken", "repeated")
        for t in range(100):  # as many ids as somebody likes, but not all of them are kept
            each.predict(raw.x[0], time=raw.time[0], id=t)
        assert [each.observe(1.0, id=t).status for t in ("a", 99, 50)] == [
            "repeated",
            "repeated",
            "unmatched",
        ]
        for t in range(1, 30):
            each.predict(raw.x[t], time=raw.time[t])
        assert each.observe(1.0, id=99).status == each.observe(1.0, id="a").status == "unmatched"
        assert not each.log._by_id


def test_a_label_whose_id_and_time_disagree_is_refused(model, raw):
    stream = without_source(model).stream()
    for t in range(5):
        stream.predict(raw.x[t], time=raw.time[t], id=f"e{t}")
    with pytest.raises(lt.LatentTrackError, match=r"the id of step 3 .* and the time of another .*T02:00"):
        stream.observe(1.0, id="e3", time=raw.time[2])
    assert stream.counts["labels"] == 0
    assert stream.observe(1.0, id="e3", time=raw.time[3]).number == 3
    assert stream.observe(1.0, id="e2", time=raw.time[2] + np.timedelta64(60, "s")).number == 2


@pytest.mark.parametrize("id", [np.int64(5), np.uint8(5), np.str_("a"), 5, "a"])
def test_ids_of_numpy_are_ids(model, raw, tmp_path, id):
    stream = without_source(model).stream()
    assert stream.predict(raw.x[0], time=raw.time[0], id=id).id == id
    stream.snapshot(tmp_path / "s.state")
    stream = lt.resume(tmp_path / "s.state", stream.model)
    assert stream.observe(1.0, id=id).status == "taken"


@pytest.mark.parametrize(
    "id", [5.0, ("a", 1), [1], True, np.zeros(2), np.array([3, 4]), 2**64, "x" * 300, b"a"]
)
def test_other_ids_are_refused_at_once(model, raw, id):
    stream = without_source(model).stream()
    with pytest.raises(lt.LatentTrackError, match="neither text"):
        stream.predict(raw.x[0], time=raw.time[0], id=id)
    with pytest.raises(lt.LatentTrackError, match="neither text"):
        stream.observe(1.0, id=id)
    assert stream.next_number == 0


def test_a_gap_is_advanced_step_by_step(model, raw):
    """Missing rows are what they are offline: rows without measurements."""
    rows = [t for t in range(60) if t not in (20, 21, 22, 40)]
    holes = raw.select(np.arange(60))
    x = holes.x.copy()
    x[[20, 21, 22, 40]] = np.nan
    y = holes.y.copy()
    for t in (20, 21, 22, 40):
        y[t - raw.delay] = np.nan  # the measurement that was to be the label
    y[[t for t in range(60) if t + raw.delay >= 60]] = np.nan
    expected = offline(model, dataclasses.replace(holes, x=x, y=y))
    stream, found = live(model, holes, rows)
    np.testing.assert_allclose(means(found), expected.mean[0][rows], rtol=1e3 * EPS, atol=1e3 * EPS)
    assert found[rows.index(23)].flags == ("gap:3",)
    assert stream.counts["gaps"] == 2


def test_an_event_that_fills_a_gap_late(model, raw):
    """It is predicted from what was believed before it, and the later belief is as if it had come in time."""
    straight, _ = live(model, raw, range(60))
    late, _ = live(model, raw, [t for t in range(59) if t != 50])
    filling = late.predict(raw.x[50], time=raw.time[50])
    assert "late" in filling.flags
    late.observe(raw.x[50, 0], time=raw.time[50 - raw.delay])
    a = late.predict(raw.x[59], time=raw.time[59])
    b = straight.predict(raw.x[59], time=raw.time[59])
    assert (a.mean, a.std) == (b.mean, b.std)
    assert late.predict(raw.x[50], time=raw.time[50]).flags[-1] == "repeated"


@pytest.mark.parametrize(
    ("x", "flags"),
    [
        ({"level": 1.0}, ("missing:wind",)),
        ({"level": None, "wind": math.inf}, ("missing:level", "missing:wind")),
        ({"level": "x", "wind": 0.1}, ("not-a-number:level",)),
        ({"level": 1, "wind": "0.1", "rain": 2}, ("unknown:rain",)),
        ({"level": 1.0, "wind": 1e9}, ("implausible:wind",)),
        ({"level": [1], "wind": {}}, ("not-a-number:level", "not-a-number:wind")),
        ({}, ("missing:level", "missing:wind")),
    ],
)
def test_whatever_x_holds_there_is_a_forecast(model, raw, x, flags):
    stream, _ = live(model, raw, range(10))
    prediction = stream.predict(x)
    assert prediction.flags == flags
    assert all(map(math.isfinite, (prediction.mean, prediction.std, *prediction.quantiles.values())))


def test_past_and_advance_are_the_stream_itself(model, raw):
    """Taken in as a past, or in two parts, a history leaves the same belief as event by event."""
    cut = 140
    past, rest = raw.select(np.arange(cut)), raw.select(np.arange(cut, len(raw)))
    _, found = live(model, raw)
    _, warm = live(dataclasses.replace(model, start=None).advance(past), rest)
    np.testing.assert_allclose(means(warm), means(found[cut:]), rtol=1e3 * EPS, atol=1e3 * EPS)
    half = raw.select(np.arange(80)), raw.select(np.arange(80, cut))
    _, twice = live(model.advance(half[0]).advance(half[1]), rest)
    np.testing.assert_allclose(means(twice), means(found[cut:]), rtol=1e3 * EPS, atol=1e3 * EPS)


@pytest.mark.parametrize("buffer", [1, 20, 96, 500])
def test_a_stream_begins_with_any_buffer(model, raw, tmp_path, buffer):
    """Shorter or longer than what the model has kept of its own data: the forecasts are the same."""
    advanced, rest = model.advance(raw.select(np.arange(140))), raw.select(np.arange(140, len(raw)))
    stream, found = live(advanced, rest, range(10), buffer=buffer)
    assert found == live(advanced, rest, range(10))[1]
    assert len(stream.log) <= stream.log.capacity == 2 * raw.delay + buffer
    stream.snapshot(tmp_path / "s.state")
    resumed = lt.resume(tmp_path / "s.state", advanced)
    assert resumed.predict(rest.x[10], time=rest.time[10]) == stream.predict(rest.x[10], time=rest.time[10])


def test_a_model_file_keeps_where_its_streams_begin(model, raw, tmp_path):
    advanced = model.advance(raw.select(np.arange(140)))
    advanced.save(tmp_path / "m.lt")
    rest = raw.select(np.arange(140, len(raw)))
    assert live(lt.load(tmp_path / "m.lt"), rest)[1] == live(advanced, rest)[1]


@pytest.mark.parametrize("cut", [0, 1, 4, 50, 130])
def test_a_snapshot_goes_on_bit_for_bit(raw, model, tmp_path, cut):
    """At any moment, also before the first event and with labels that still wait."""
    stream = model.stream(buffer=20)
    for t in range(cut):
        stream.predict(raw.x[t], time=raw.time[t], id=t)
    stream.snapshot(tmp_path / "s.state")
    resumed = lt.resume(tmp_path / "s.state")
    for t in range(cut, min(cut + 30, len(raw))):
        assert stream.predict(raw.x[t], time=raw.time[t]) == resumed.predict(raw.x[t], time=raw.time[t])
    assert stream.counts == resumed.counts
    if cut > 10:
        assert stream.observe(2.0, time=raw.time[cut - 9]) == resumed.observe(2.0, time=raw.time[cut - 9])
        a, b = (s.predict(raw.x[-1], time=raw.time[-1]) for s in (stream, resumed))
        assert a == b


def test_a_snapshot_of_another_model_is_refused(raw, model, tmp_path):
    model.stream().snapshot(tmp_path / "s.state")
    with pytest.raises(lt.LatentTrackError, match="another model"):
        lt.resume(tmp_path / "s.state", make_model(raw, features=2))
    with pytest.raises(lt.LatentTrackError, match="kind 'snapshot'"):
        lt.load(tmp_path / "s.state")


@pytest.mark.parametrize("settings", [{}, WRAPPED], ids=["network", "preset"])
def test_a_table_at_once_is_event_by_event(settings):
    """To the last bit, with gaps, missing values and a fault on the way; and both streams go on alike."""
    raw = make_raw(n=1500, delay=2)
    x = raw.x.copy()
    x[400, 1], x[600, 0], x[601:604, 1] = np.nan, 1e6, np.nan
    keep = np.setdiff1d(np.arange(1490), [900, 901])
    model = make_model(raw.select(np.arange(300)), **settings)
    table = {"ts": raw.time[keep], "level": x[keep, 0], "wind": x[keep, 1]}
    quick, slow = model.stream(buffer=20), model.stream(buffer=20)
    found = quick.run(table)
    one_by_one = [slow.predict(x[t], time=raw.time[t]) for t in keep]
    np.testing.assert_array_equal(found["mean"], means(one_by_one))
    for level in quick.levels:
        np.testing.assert_array_equal(found[f"q{level}"], [p.quantiles[level] for p in one_by_one])
    np.testing.assert_array_equal(found["surprise"], [p.surprise for p in one_by_one])
    assert [tuple(flags) for flags in found["flags"]] == [p.flags for p in one_by_one]
    assert quick.counts == slow.counts
    for stream in (quick, slow):
        stream.observe(7.0, time=raw.time[1475])  # corrected late: the steps since are run again
    a, b = (s.predict(raw.x[1490], time=raw.time[1490]) for s in (quick, slow))
    assert a == b


def test_labels_of_a_table_are_told_after_their_rows(model, raw):
    model = without_source(model)
    table = {"ts": raw.time[:150], "level": raw.x[:150, 0], "wind": raw.x[:150, 1]}
    known = dataclasses.replace(model, feed=dataclasses.replace(model.feed, target="later"))
    found = known.stream(buffer=2).run({**table, "later": raw.y[:150]})
    slow = model.stream(buffer=2)
    for t in range(150):
        expected = slow.predict(raw.x[t], time=raw.time[t])
        slow.observe(raw.y[t], time=raw.time[t])
    assert found["mean"][-1] == expected.mean


def test_times_of_a_table_are_made_as_in_the_file_of_the_model(model, raw):
    """In several columns, in one of two, or in one of numbers; another column may be named instead."""
    days, hours = raw.time[:30].astype("datetime64[D]"), np.arange(30) % 24.0
    text = [str(day).split("-") for day in days]
    parts = {name: [float(t[i]) for t in text] for i, name in enumerate(("year", "month", "day"))}
    seconds = raw.time[:30].astype("datetime64[s]").astype(float)
    clocks = [{"date": days, "hr": hours}, {**parts, "hour": hours}, {"ts": raw.time[:30]}, {"unix": seconds}]
    rows = {"level": raw.x[:30, 0], "wind": raw.x[:30, 1]}
    slow = means(live(model, raw, range(30))[1]).tolist()
    for clock in clocks:
        told = dataclasses.replace(model, record={"file": {"time": list(clock)}})
        for others in ({}, {"written": raw.time[:30] + np.timedelta64(1, "D")}):
            found = told.stream().run({**rows, **clock, **others})
            np.testing.assert_array_equal(found["time"], raw.time[:30])
            assert found["mean"].tolist() == slow
    # Parts that are not there, or a column that the user names, are not in the way of others.
    assert (told.stream().run({**rows, "ts": raw.time[:30]})["time"] == raw.time[:30]).all()
    named = told.stream().run({**rows, "unix": seconds + 60, "ts": raw.time[:30]}, time="ts")
    assert (named["time"] == raw.time[:30]).all()
    with pytest.raises(lt.LatentTrackError, match="did you mean 'ts'"):
        model.stream().run({**rows, "ts": raw.time[:30]}, time="tz")


@pytest.mark.parametrize("sourced", [True, False], ids=["own label", "labels"])
def test_many_lines_at_once_are_line_by_line(model, sourced):
    """Their answers are the same texts, flags and alarms included; then both streams go on alike."""
    raw = make_raw(n=4 * PIECE + 1)
    model = model if sourced else without_source(model)
    lines = []
    for t in range(4 * PIECE):
        event = {"time": str(raw.time[t]), "x": {"level": raw.x[t, 0], "wind": raw.x[t, 1]}, "id": f"n{t}"}
        if t % 50 == 7:
            event["x"] = {"level": raw.x[t, 0], "rain": 1.0}
        if not sourced and t % 9:
            event["y"] = float(raw.y[t]) + 3.0 * (t > 150)  # a drift
        lines.append(json.dumps(event).encode())
    quick, slow = model.stream(alarm=20), model.stream(alarm=20)
    said = [answer(quick, line) for line in lines[:PIECE]]
    for at in range(PIECE, len(lines), PIECE):
        found = answer_many(quick, lines[at : at + PIECE])
        assert found is not None
        said += found
    assert said == [answer(slow, line) for line in lines]
    assert any("drift" in one["flags"] for one in said[PIECE:])
    assert (quick.counts, quick.alarm, quick.gate) == (slow.counts, slow.alarm, slow.gate)
    late = json.dumps({"id": f"n{4 * PIECE - 9}", "y": 2.0}).encode()
    assert answer(quick, late) == answer(slow, late)
    assert quick.predict(raw.x[-1]) == slow.predict(raw.x[-1])


@pytest.mark.parametrize(
    "line", [b"{", b'{"y": 1.0, "id": "n3"}', b'{"x": {}}', b'{"x": {}, "time": "2031-01-01"}', b""]
)
def test_lines_that_are_not_ordinary_take_their_turns(model, raw, line):
    lines = [
        json.dumps({"time": str(raw.time[t]), "x": {"level": raw.x[t, 0], "wind": raw.x[t, 1]}}).encode()
        for t in range(20 + PIECE)
    ]
    stream = model.stream()
    for one in lines[:20]:
        answer(stream, one)
    counts, number = dict(stream.counts), stream.next_number
    assert answer_many(stream, [*lines[20:-1], line]) is None
    assert (stream.counts, stream.next_number) == (counts, number)


@pytest.mark.parametrize("number", [1e30, 3.4e38, -1e300])
def test_numbers_too_large_in_many_lines_are_no_other_than_line_by_line(number):
    """Nothing is judged: a label that single precision cannot hold reaches the belief, and is taken out."""
    raw = make_raw(n=3 * PIECE)
    model = without_source(make_model(raw, **WRAPPED))
    lines = [
        json.dumps(
            {"time": str(raw.time[t]), "x": {"level": raw.x[t, 0]}, "y": raw.y[t] if t % 70 else number}
        )
        for t in range(2 * PIECE + 40)
    ]
    quick, slow = (model.stream(gate="off") for _ in range(2))
    said = []
    for at in range(0, len(lines), PIECE):
        part = [line.encode() for line in lines[at : at + PIECE]]
        said += answer_many(quick, part) or [answer(quick, line) for line in part]
    assert said == [answer(slow, line.encode()) for line in lines]
    assert all(math.isfinite(one["mean"]) and math.isfinite(one["std"]) for one in said)
