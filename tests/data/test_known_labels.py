"""The newest known label as an input: the same numbers live, and never a label that is not due."""

import json
from dataclasses import replace

import numpy as np
import pytest

from latenttrack.data import Pipeline, Series, prepare
from latenttrack.data.choosing import choose_inputs
from latenttrack.data.known_label import KNOWN_LABEL, due_labels, forget_unknown
from latenttrack.data.stages import Bend, Keep
from latenttrack.errors import LatentTrackError

HOUR = np.timedelta64(3600 * 10**9, "ns")
LENGTHS = (150, 90, 2)  # the last stream is shorter than a delay of 3


def stream(delay=1, lengths=LENGTHS, clock=True, **changes):
    """Streams of different length, with 10 % of x and 30 % of the labels missing."""
    rng = np.random.default_rng(0)
    n = sum(lengths)
    x, y = rng.normal(3, 2, (n, 2)), rng.gamma(2.0, 5.0, n)
    x[rng.random((n, 2)) < 0.1] = np.nan
    y[rng.random(n) < 0.3] = np.nan
    step = np.concatenate([np.arange(length) for length in lengths])
    fields = {
        "x": x,
        "y": y,
        "time": np.datetime64("2020-02-03T01:20", "ns") + step * HOUR if clock else step.astype(float),
        "names": ("a", "b"),
        "keys": tuple(f"k{i}" for i in range(len(lengths))),
        "key": np.repeat(np.arange(len(lengths)), lengths),
        "delay": delay,
        "period": 24,
    }
    return Series(**fields | changes)


def weather(delay=2, n=300):
    """As Jena: the label is a measurement of `delay` steps later, so that measurement is the known label."""
    rng = np.random.default_rng(1)
    value = np.round(10 + rng.normal(size=n + delay).cumsum(), 2)
    x = np.column_stack([rng.normal(size=n), value[:n]])
    y = np.append(value[delay:n], np.full(delay, np.nan))
    return Series(x=x, y=y, time=np.arange(n), names=("p", "T"), delay=delay)


BENT = {"kind": "log", "low": 0.0, "offset": 0.5}
CHOICES = {
    "plain": {},
    "everything": {
        "bend": BENT,
        "lags": {KNOWN_LABEL: [1, 24]},
        "differences": {KNOWN_LABEL: [1, 2, 30], "a": [1]},
        "calendar": {"day": 2},
        "missing": [KNOWN_LABEL],
        "clip": 2.0,
    },
    "root": {"bend": {**BENT, "kind": "sqrt"}, "missing": False, "differences": [3], "calendar": {}},
}


def live(pipeline, series, state=None, queues=None):
    """Row after row, all streams interleaved, each with the label that has become due."""
    state = pipeline.start() if state is None else state
    queues = {} if queues is None else queues  # labels that are not due yet, by stream
    rows = np.empty((len(series), len(pipeline.names)))
    for i in np.argsort(series.time, kind="stable"):
        key = int(series.key[i])
        queue = queues.setdefault(key, [np.nan] * series.delay)
        rows[i], state = pipeline.step(state, series.time[i], series.x[i], key, label=queue.pop(0))
        queue.append(series.y[i])
    return rows, state, queues


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("choice", CHOICES)
def test_batch_equals_row_at_a_time(choice, delay):
    series = stream(delay)
    pipeline = Pipeline.fit(series, labels=True, **CHOICES[choice])
    batch = pipeline.transform(series)
    rows, _, _ = live(pipeline, series)
    assert rows.tobytes() == batch.x.tobytes()
    assert batch.names == pipeline.names


@pytest.mark.parametrize("delay", [1, 3, 40])
@pytest.mark.parametrize("choice", CHOICES)
def test_history_is_the_same_stream(choice, delay):
    """A delay of 40 steps reaches back beyond the whole history of the second stream."""
    series = stream(delay, lengths=(150, 90))
    past, future = series.split(0.2)
    pipeline = Pipeline.fit(past, labels=True, **CHOICES[choice])
    whole, later = pipeline.transform(series), pipeline.transform(future, history=past)
    np.testing.assert_array_equal(later.x, whole.select(series.time >= future.time.min()).x)
    _, state, queues = live(pipeline, past)
    rows, _, _ = live(pipeline, future, state, queues)
    assert rows.tobytes() == later.x.tobytes()


def test_due_labels_are_shifted():
    y, nan = np.array([1.0, 2.0, 3.0]), np.nan
    np.testing.assert_array_equal(due_labels(y, np.zeros(0), 1), [nan, 1, 2])
    np.testing.assert_array_equal(due_labels(y, np.array([7.0, 8.0, 9.0]), 2), [8, 9, 1])
    np.testing.assert_array_equal(due_labels(y, np.array([9.0]), 2), [nan, 9, 1])
    np.testing.assert_array_equal(due_labels(y, np.array([9.0]), 5), [nan, nan, nan])
    np.testing.assert_array_equal(due_labels(y, np.arange(9.0), 5), [4, 5, 6])


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_label_is_felt_when_it_is_due_and_not_before(choice, delay):
    """Other labels from step s on leave the inputs of all steps before s + D as they were."""
    series = stream(delay, lengths=(150, 90))
    pipeline = Pipeline.fit(series, labels=True, **CHOICES[choice])
    before = pipeline.transform(series).x
    step = np.concatenate([np.arange(150), np.arange(90)])
    for s in (0, 17, 60, 89):
        y = np.where(step >= s, 0.1 * np.nan_to_num(series.y, nan=40.0) + 3.0, series.y)
        after = pipeline.transform(replace(series, y=y)).x
        untouched = step < s + delay
        np.testing.assert_array_equal(after[untouched], before[untouched])
        due = step == s + delay
        assert not due.any() or (after[due] != before[due]).any(axis=1).all()


def test_preparing_does_not_see_labels_that_are_not_known_at_the_cut():
    series = stream(delay=5, lengths=(150, 90))
    choices = {"labels": True, "differences": {KNOWN_LABEL: [1, 24]}}
    train, test, pipeline = prepare(series, 0.6, **choices)
    hidden = np.isin(series.time, test.time) | np.isin(series.time, train.time[-4:])
    other = replace(series, y=np.where(hidden & (series.key == 1), 1e6, series.y))
    train_2, _, pipeline_2 = prepare(other, 0.6, **choices)
    assert pipeline_2 == pipeline
    np.testing.assert_array_equal(train_2.x, train.x)
    forgotten = forget_unknown(replace(series, y=np.ones(240)))
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(forgotten.y)), [*range(146, 150), *range(236, 240)])


@pytest.mark.parametrize("delay", [1, 2, 6])
def test_a_column_that_repeats_the_label_is_left_out(delay):
    series = weather(delay)
    pipeline = Pipeline.fit(series, labels=True, missing=False, standardise=False)
    assert pipeline.names == ("p", KNOWN_LABEL)
    out = pipeline.transform(series).x
    np.testing.assert_array_equal(out[delay:, 1], series.x[delay:, 1])
    assert np.isnan(out[:delay, 1]).all()  # the label of step 0 is the first to be known
    state = pipeline.start()
    for i in range(20):  # a live row still has all columns
        label = series.y[i - delay] if i >= delay else np.nan
        row, state = pipeline.step(state, series.time[i], series.x[i], label=label)
        np.testing.assert_array_equal(row, out[i])


def _rarely(rng, n):
    return (rng.random(n) < 0.002).astype(float)


@pytest.mark.parametrize(
    "what", ["label in 6 hours, known at once", "half measured", "rare", "noisy", "flat"]
)
def test_a_column_that_says_more_than_the_label_stays(what):
    series, rng = weather(), np.random.default_rng(5)
    value, n = series.x[:, 1], len(series)
    if what == "label in 6 hours, known at once":
        series = replace(series, delay=1)
    elif what == "half measured":  # labels are often missing, the measurement is not
        series = replace(series, y=np.where(rng.random(n) < 0.5, np.nan, series.y))
    elif what == "rare":  # two different events, each in 2 of 1000 rows: equal in nearly all rows
        x = np.column_stack([rng.normal(size=3000), _rarely(rng, 3000)])
        series = Series(x=x, y=_rarely(rng, 3000), time=np.arange(3000), names=("p", "T"))
    elif what == "noisy":
        x = np.column_stack([series.x[:, 0], value + 1e-3 * rng.normal(size=n)])
        series = replace(series, x=x)
    else:
        series = replace(series, x=np.zeros((n, 2)), y=np.where(np.arange(n) == 7, 1.0, 0.0))
    assert {"p", "T"} < set(Pipeline.fit(series, labels=True).names)


def test_streams_of_different_length_are_judged_together():
    """The first steps of each stream have no label yet: that makes a copy no less a copy."""
    parts = [weather(6, n) for n in (300, 20, 8)]
    series = Series(
        x=np.concatenate([p.x for p in parts]),
        y=np.concatenate([p.y for p in parts]),
        time=np.concatenate([p.time for p in parts]),
        names=("p", "T"),
        keys=("a", "b", "c"),
        key=np.repeat([0, 1, 2], [300, 20, 8]),
        delay=6,
    )
    assert "T" not in Pipeline.fit(series, labels=True).names


def _bent():
    features = choose_inputs(weather()).features
    return Pipeline.fit(weather(), **features, bend=BENT)


@pytest.mark.parametrize("kind", [Keep, Bend])
def test_json_round_trip_is_exact(kind):
    pipeline = _bent()
    assert any(isinstance(stage, kind) for stage in pipeline.stages)
    restored = Pipeline.from_dict(json.loads(json.dumps(pipeline.to_dict(), allow_nan=False)))
    assert restored == pipeline
    assert restored.labels
    assert restored.transform(weather()).x.tobytes() == pipeline.transform(weather()).x.tobytes()


def test_descriptions_from_before_there_were_labels_still_work():
    description = Pipeline.fit(weather()).to_dict()
    del description["labels"]
    assert Pipeline.from_dict(description) == Pipeline.fit(weather())


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("keep", {"columns": [0, 7]}, "damaged"),
        ("keep", {"columns": None}, "damaged"),
        ("bend", {"surprise": 1}, "damaged"),
        ("bend", {"offset": -1.0}, "offset -1.0"),
        ("bend", {"low": float("nan")}, "low nan"),
        ("bend", {"function": "cube"}, "no bend 'cube'"),
    ],
)
def test_damaged_stages_are_refused(kind, change, says):
    description = _bent().to_dict()
    next(stage for stage in description["stages"] if stage["kind"] == kind).update(change)
    with pytest.raises(LatentTrackError, match=says):
        Pipeline.from_dict(description)


def test_bending():
    x = np.array([[1.0, -3.0], [1.0, 4.0], [np.nan, np.nan]])
    nothing = np.zeros((0, 2)), np.zeros((0, 2))
    np.testing.assert_array_equal(
        Bend(1, "sqrt", 0.0, 0.25).apply(x, *nothing), [[1.0, 0.5], [1.0, 4.25**0.5], [np.nan, np.nan]]
    )
    np.testing.assert_array_equal(Bend(1, "log", -3.0, 1.0).apply(x, *nothing)[:2, 1], [0.0, np.log(8.0)])
    assert x[0, 1] == -3.0  # rows are not changed in place


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"names": ("a", KNOWN_LABEL)}, "column 'known_label' is called like the input .* rename the column"),
        ({"names": ("a", "known_label_diff1"), "differences": {KNOWN_LABEL: [1]}}, "occurs twice: rename"),
        ({"bend": {"kind": "sqrt"}}, "bend has 'kind': give 'kind', 'low' and 'offset'"),
        ({"bend": {**BENT, "kind": "sqr"}}, r"no bend 'sqr' \(did you mean 'sqrt'"),
        ({"bend": {**BENT, "offset": 0.0}}, "offset 0.0"),
        ({"bend": BENT, "labels": False}, "bend is given without labels"),
        ({"labels": False, "lags": {KNOWN_LABEL: [1]}}, "no column 'known_label'"),
        ({"missing": ["c"]}, "no column 'c'"),
    ],
)
def test_wrong_choices_get_one_sentence(choices, says):
    names = {"names": choices.pop("names")} if "names" in choices else {}
    series = stream(**names)
    with pytest.raises(LatentTrackError, match=says) as caught:
        Pipeline.fit(series, **{"labels": True, **choices}).transform(series)
    assert "\n" not in str(caught.value)


def test_a_column_that_was_left_out_cannot_be_lagged():
    with pytest.raises(LatentTrackError, match="'T' only repeats the known label: name 'known_label'"):
        Pipeline.fit(weather(), labels=True, lags={"T": [1]})


def test_a_column_of_the_same_name_is_fine_without_labels():
    series = stream(names=("a", KNOWN_LABEL))
    assert KNOWN_LABEL in Pipeline.fit(series).names
    with pytest.raises(LatentTrackError, match="rename the column"):
        choose_inputs(series)


def test_labels_given_live():
    series = stream()
    pipeline = Pipeline.fit(series, labels=True)
    with pytest.raises(LatentTrackError, match="label is inf: give NaN"):
        pipeline.step(pipeline.start(), series.time[0], series.x[0], label=np.inf)
    plain = Pipeline.fit(series)
    one, two = (plain.step(plain.start(), series.time[0], series.x[0], label=v)[0] for v in (np.nan, 5.0))
    np.testing.assert_array_equal(one, two)


def test_streams_without_labels_or_columns_stay_finite():
    for changes in ({"y": np.full(242, np.nan)}, {"x": np.zeros((242, 0)), "names": ()}):
        series = stream(**changes)
        out = Pipeline.fit(series, labels=True, differences={KNOWN_LABEL: [1, 200]}).transform(series)
        assert np.isfinite(out.x).all()
