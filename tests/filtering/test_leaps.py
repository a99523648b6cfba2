"""Leaps in time: a wrong clock does not stop a stream, and a real gap does not either."""

import dataclasses
import json

import numpy as np
import pytest
from tiny_streams import HOUR, make_model, make_raw

import latenttrack as lt
from latenttrack.filtering.batch import PIECE
from latenttrack.fitted.events import answer, answer_many

BUFFER = 20


@pytest.fixture(scope="module")
def raw():
    return make_raw(140)


@pytest.fixture(scope="module")
def model(raw):
    return make_model(raw)


def play(model, raw, order, kept=None, buffer=BUFFER):
    """Events (row, shift of its time); what was said, None where it was refused, and the stream.

    With a path the stream goes through a snapshot before each event.
    """
    stream, said = model.stream(buffer=buffer), []
    for row, shift in order:
        if kept is not None:
            stream.snapshot(kept)
            stream = lt.resume(kept, model)
        try:
            said.append(stream.predict(raw.x[row], time=raw.time[row] + shift * HOUR))
        except lt.LatentTrackError:
            said.append(None)
    return said, stream


def right(rows):
    return [(row, 0) for row in rows]


@pytest.mark.parametrize("ahead", [1001, 100_000])
def test_one_wrong_time_changes_nothing(model, raw, ahead):
    plain, _ = play(model, raw, right(range(60)))
    said, stream = play(model, raw, [*right(range(40)), (40, ahead), *right(range(40, 60))])
    assert said[40] is None
    assert [*said[:40], *said[41:]] == plain
    # Two with right ones in between are no more believable than one.
    said, _ = play(model, raw, [*right(range(40)), (40, ahead), (40, 0), (41, ahead), *right(range(41, 60))])
    assert [one for one in said if one is not None] == plain
    assert stream.counts["gaps"] == 0


@pytest.mark.parametrize("ahead", [99, 900, 100_000])
@pytest.mark.parametrize("wrong", [2, 15])
def test_a_wrong_leap_that_was_believed_is_undone(model, raw, tmp_path, ahead, wrong):
    """The third right event in a row goes back: from there on it is as if only two rows were missing.

    A leap of up to 1000 steps is believed at once, as an outage would be; a longer one, if the next follows.
    """
    plain, _ = play(model, raw, right([*range(40), *range(42, 60)]))
    order = [*right(range(40)), *((40 + i, ahead) for i in range(wrong)), *right(range(40, 60))]
    said, stream = play(model, raw, order)
    doubted = [40] * (ahead > 1000)
    assert [i for i, one in enumerate(said) if one is None] == [*doubted, 40 + wrong, 41 + wrong]
    undoing, after = said[42 + wrong], said[43 + wrong :]
    assert undoing.flags == ("leap-undone", "gap:2")
    assert undoing._replace(flags=()) == plain[40]._replace(flags=())
    assert after == plain[41:]
    assert stream.counts["too-late"] == 2
    assert play(model, raw, order, tmp_path / "s.state")[0] == said


def test_two_wrong_leaps_one_after_another_are_undone(model, raw):
    plain, _ = play(model, raw, right([*range(40), *range(42, 60)]))
    wrong = [(40, 500), (41, 500), (40, 2000), (41, 2000)]
    said, _ = play(model, raw, [*right(range(40)), *wrong, *right(range(40, 60))])
    assert said[46].flags == ("leap-undone", "gap:2")
    assert said[47:] == plain[41:]


def test_after_a_real_gap_the_second_event_is_believed(model, raw, tmp_path):
    later = [(row, 3000) for row in range(40, 100)]
    said, stream = play(model, raw, [*right(range(40)), *later])
    assert said[40] is None
    assert said[41].flags == ("gap:3001",)
    assert all(one is not None and not one.flags for one in said[42:])
    # Late ones change nothing: the log has moved past the gap, and nothing from before it is kept.
    for row in (50, 51, 52, 53):
        with pytest.raises(lt.LatentTrackError, match="too late"):
            stream.predict(raw.x[row], time=raw.time[row])
    stream.snapshot(tmp_path / "s.state")
    assert stream.leaps.before is None


def test_events_far_apart_are_believed_in_the_end(model, raw):
    """A stream that has become sparse, after a gap: nothing follows closely on anything."""
    said, _ = play(model, raw, [*right(range(40)), *((40 + i, 1000 + 50 * i) for i in range(5))])
    assert [one is None for one in said[40:]] == [True, False, False, False, False]


@pytest.mark.parametrize("advanced", [False, True], ids=["from nothing", "after its model"])
def test_a_first_event_in_the_future_is_undone(model, raw, advanced):
    """A stream may begin long after its model: its first event is believed, and may still be wrong."""
    begin = 30 if advanced else 0
    if advanced:
        model = model.advance(raw.select(range(20))).advance(raw.select(range(20, 30)))
    said, _ = play(model, raw, [(begin, 5000), *right(range(begin, begin + 20))], buffer=96)
    assert [i for i, one in enumerate(said) if one is None] == [1, 2]
    assert said[3].flags[0] == "leap-undone"
    assert said[4:] == play(model, raw, right(range(begin + 2, begin + 20)), buffer=96)[0][1:]


@pytest.fixture(scope="module")
def uneven():
    """Rows at any time, about five hours apart."""
    raw = make_raw(400)
    minutes = np.cumsum(np.random.default_rng(3).integers(1, 600, len(raw)))
    raw = dataclasses.replace(raw, time=raw.time[0] + minutes * np.timedelta64(60, "s"))
    return raw, make_model(raw.select(range(140)), elapsed=True)


def test_without_a_grid_far_is_what_is_unusual_for_the_stream(uneven):
    raw, model = uneven
    # Forty days are two hundred usual intervals.
    assert play(model, raw, [*right(range(40)), (40, 40 * 24)])[0][-1] is not None
    assert play(model, raw, [*right(range(40)), (40, 10_000)])[0][-1] is None
    monthly = dataclasses.replace(raw, time=np.datetime64("1980-01", "M") + np.arange(400))
    monthly = dataclasses.replace(monthly, time=monthly.time.astype("datetime64[ns]"))
    said, stream = play(make_model(monthly), monthly, right(range(100)))
    assert None not in said
    assert stream.interval is None


def test_without_a_grid_a_wrong_time_that_nobody_doubts_is_undone(uneven):
    """Ten days ahead, of rows that are five hours apart: the others shall not have to wait for ten days."""
    raw, model = uneven
    said, _ = play(model, raw, [*right(range(60)), (60, 10 * 24), *right(range(60, 90))])
    assert [i for i, one in enumerate(said) if one is None] == [61, 62]
    assert said[63].flags == ("leap-undone",)
    assert said[64:] == play(model, raw, right([*range(60), *range(62, 90)]))[0][61:]


@pytest.mark.parametrize("wrong", [1, 2])
@pytest.mark.parametrize("ahead", [10 * 24, 10_000])
def test_many_lines_at_once_doubt_what_one_by_one_would(uneven, wrong, ahead):
    raw, model = uneven
    lines = []
    for i in range(3 * PIECE):
        shift = ahead if PIECE + 20 <= i < PIECE + 20 + wrong else 0
        x = {"level": raw.x[i, 0], "wind": raw.x[i, 1]}
        lines.append(json.dumps({"time": str(raw.time[i] + shift * HOUR), "x": x}).encode())

    def said(stream, line):
        try:
            return answer(stream, line)
        except lt.LatentTrackError as error:
            return str(error)

    quick, slow = model.stream(), model.stream()
    found = []
    for at in range(0, len(lines), PIECE):
        part = lines[at : at + PIECE]
        found += answer_many(quick, part) or [said(quick, line) for line in part]
    assert found == [said(slow, line) for line in lines]
    # Doubted, it takes two to be believed; two right ones are refused before that is undone.
    refused = {(240, 1): 2, (240, 2): 2, (10_000, 1): 1, (10_000, 2): 3}[ahead, wrong]
    assert sum(isinstance(one, str) for one in found) == refused


def test_rows_of_a_table_are_not_doubted(uneven, raw, model):
    """In a table, in rows that bring a model up to date, and in those a forecast begins with."""
    for rows, fitted in (uneven, (raw, model)):
        time = rows.time[:130].copy()
        time[70:] += 10_000 * HOUR
        late = dataclasses.replace(rows.select(range(130)), time=time)
        start = fitted.advance(late.select(range(50))).advance(late.select(range(50, 100)))
        table = {"ts": time, "level": late.x[:, 0], "wind": late.x[:, 1]}
        assert np.isfinite(start.stream().run({n: c[100:] for n, c in table.items()})["mean"]).all()
        assert np.isfinite(fitted.stream().run(table)["mean"]).all()
        early = fitted.advance(late.select(range(50)))
        recent = {n: c[50:] for n, c in table.items()}
        assert np.isfinite(early.forecast(3, recent, samples=5).mean).all()


def test_a_row_that_comes_too_late_does_not_lose_the_others(model, raw):
    order = [*range(100), 3, *range(100, 140)]
    table = {"ts": raw.time[order], "level": raw.x[order, 0], "wind": raw.x[order, 1]}
    table["ts"][100] -= 1000 * HOUR
    found = model.stream().run({**table, "comment": order})
    assert np.flatnonzero(np.isnan(found["mean"])).tolist() == [100]
    assert found["flags"][100][0].startswith("error:the event of 2025-11-20T11:00:00.000000 comes too late")
    assert found["time"][100] == table["ts"][100]
    assert sum(map(len, found["flags"])) == 1  # a column of no use is not worth a flag in each row
    plain = model.stream().run({n: np.delete(c, 100) for n, c in table.items()})
    np.testing.assert_array_equal(np.delete(found["mean"], 100), plain["mean"])
