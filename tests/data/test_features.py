import json
from dataclasses import replace

import numpy as np
import pytest

from latenttrack.data import Calendar, Lags, Pipeline, Sentinels, Series, Standardise, prepare
from latenttrack.errors import LatentTrackError

HOUR = np.timedelta64(3600 * 10**9, "ns")


def stream(n=400, seed=0, clock=True, **changes):
    """Two keys of n hours each, 5 % of x missing in two of three columns, some labels missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(3, 2, (2 * n, 3))
    x[:, :2][rng.random((2 * n, 2)) < 0.05] = np.nan
    y = rng.normal(-5, 7, 2 * n)
    y[rng.random(2 * n) < 0.05] = np.nan
    step = np.tile(np.arange(n), 2)
    time = np.datetime64("2020-02-03T01:20", "ns") + step * HOUR if clock else step.astype(float)
    values = {"x": x, "y": y, "time": time, "names": ("a", "b", "c"), "keys": ("p", "q"), "period": 24}
    return Series(**values | {"key": np.repeat([0, 1], n)} | changes)


CHOICES = {
    "plain": {},
    "everything": {
        "sentinels": (-9999.0,),
        "lags": {"a": (1, 2, 24), "c": (3,)},
        "differences": {"b": (1, 4)},
        "calendar": {"day": 4, "week": 2, "year": 1},
        "clip": 2.0,
        "profile": 168,
        "elapsed": True,
    },
    "lags of all": {"lags": (1, 5), "missing": False, "calendar": {}, "target": False},
    "raw": {"standardise": False, "missing": False, "lags": (2,)},
}


@pytest.mark.parametrize("clock", [True, False])
@pytest.mark.parametrize("choice", CHOICES)
def test_batch_equals_row_at_a_time(choice, clock):
    choices = dict(CHOICES[choice])
    if not clock and choices.get("calendar"):
        choices["calendar"] = {"season": 3}
    series = stream(clock=clock)
    series.x[[5, 450], [0, 2]] = -9999.0
    pipeline = Pipeline.fit(series.select(series.time < series.time[300]), **choices)
    batch = pipeline.transform(series)
    state = pipeline.start()
    live = np.empty_like(batch.x)
    for row in np.argsort(series.time, kind="stable"):  # the two streams interleave
        live[row], state = pipeline.step(state, series.time[row], series.x[row], int(series.key[row]))
    np.testing.assert_array_equal(live, batch.x)  # to the last bit
    assert batch.names == pipeline.names
    assert batch.x.shape == (800, len(pipeline.names))


def test_step_is_pure():
    series = stream()
    pipeline = Pipeline.fit(series, lags=(1, 2))
    _, state = pipeline.step(pipeline.start(), series.time[0], series.x[0])
    first, _ = pipeline.step(state, series.time[1], series.x[1])
    pipeline.step(state, series.time[2], series.x[2])
    again, _ = pipeline.step(state, series.time[1], series.x[1])
    np.testing.assert_array_equal(first, again)


def test_history_supplies_the_first_lags():
    series = stream()
    pipeline = Pipeline.fit(series, lags=(1, 7))
    past, future = series.split(0.6)
    _, expected = pipeline.transform(series).split(0.6)
    np.testing.assert_array_equal(pipeline.transform(future, history=past).x, expected.x)
    assert not np.array_equal(pipeline.transform(future).x, expected.x)
    with pytest.raises(LatentTrackError, match="does not end before"):
        pipeline.transform(past, history=future)
    with pytest.raises(LatentTrackError, match="history has keys"):
        pipeline.transform(future, history=replace(past, keys=("q", "p")))


@pytest.mark.parametrize("choice", CHOICES)
def test_json_round_trip_is_exact(choice):
    pipeline = Pipeline.fit(stream(), **CHOICES[choice])
    restored = Pipeline.from_dict(json.loads(json.dumps(pipeline.to_dict(), allow_nan=False)))
    assert restored == pipeline
    np.testing.assert_array_equal(restored.transform(stream()).x, pipeline.transform(stream()).x)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("stages"),
        lambda d: d["stages"][0].update(kind="exec"),
        lambda d: d["stages"][0].update(surprise=1),
        lambda d: d.update(stages=None),
    ],
)
def test_damaged_descriptions_are_refused(damage):
    description = Pipeline.fit(stream()).to_dict()
    damage(description)
    with pytest.raises(LatentTrackError, match="description of the feature pipeline is damaged"):
        Pipeline.from_dict(description)


def test_prepare_does_not_see_the_test_part():
    series = stream()
    train, test, pipeline = prepare(series, 0.7, lags=(1, 3), clip=3.0)
    cut = test.time.min()
    changed = replace(
        series,
        x=np.where((series.time >= cut)[:, None], 1e6, series.x),
        y=np.where(series.time >= cut, -1e6, series.y),
    )
    train_2, test_2, pipeline_2 = prepare(changed, 0.7, lags=(1, 3), clip=3.0)
    assert pipeline_2 == pipeline
    np.testing.assert_array_equal(train_2.x, train.x)
    np.testing.assert_array_equal(train_2.y, train.y)
    assert not np.array_equal(test_2.x, test.x)
    assert train.time.max() < cut
    assert len(train) + len(test) == len(series)


def test_labels_that_are_not_known_at_the_cut_do_not_reach_the_pipeline():
    series = stream(y=np.arange(800.0), delay=4)
    train, _, pipeline = prepare(series, 0.5)
    late = np.concatenate([np.flatnonzero(train.key == k)[-3:] for k in (0, 1)])
    y = series.y.copy()
    y[np.flatnonzero(np.isin(series.time, train.time[late]))] = 1e6
    assert prepare(replace(series, y=y), 0.5)[2] == pipeline
    assert prepare(replace(series, y=y, delay=1), 0.5)[2] != pipeline
    assert not np.isnan(train.y).any()  # they are still due in the test part


def test_differences_are_changes_since():
    series = stream()
    pipeline = Pipeline.fit(series, differences={"c": (1, 5)}, standardise=False, missing=False, calendar={})
    batch = pipeline.transform(series)
    assert batch.names[-2:] == ("c_diff1", "c_diff5")
    first = series.x[:400, 2]
    np.testing.assert_array_equal(batch.x[5:400, -1], first[5:] - first[:-5])
    assert np.isnan(batch.x[:5, -1]).all()


def test_standardised_training_part():
    series = stream()
    train, test, pipeline = prepare(series, calendar={}, missing=False)
    known = ~np.isnan(series.select(series.time < test.time.min()).x)
    for column in range(3):
        values = train.x[known[:, column], column]
        assert abs(values.mean()) < 1e-12
        assert abs(values.std() - 1) < 1e-12
    assert np.all(train.x[~known] == 0)
    assert abs(np.nanmean(train.y)) < 1e-12
    assert abs(np.nanstd(train.y) - 1) < 1e-12
    both = np.concatenate([train.y[train.key == 0], test.y[test.key == 0]])
    np.testing.assert_allclose(train.y_loc + train.y_scale * both, series.y[series.key == 0], atol=1e-12)
    assert (pipeline.y_loc, pipeline.y_scale) == (train.y_loc, train.y_scale)


def test_standardising_twice_still_gives_original_labels():
    once = Pipeline.fit(stream()).transform(replace(stream(), y_loc=10.0, y_scale=2.0))
    np.testing.assert_allclose(once.y_loc + once.y_scale * once.y, 10 + 2 * stream().y, atol=1e-12)


def test_labels_can_be_left_alone():
    series = stream()
    out = Pipeline.fit(series, target=False).transform(series)
    np.testing.assert_array_equal(out.y, series.y)
    assert (out.y_loc, out.y_scale) == (0.0, 1.0)


def test_constant_and_empty_columns_stay_finite():
    x = stream().x
    x[:, 0], x[:, 1] = 0.1, np.nan
    out = Pipeline.fit(stream(x=x)).transform(stream(x=x))
    assert np.all(np.isfinite(out.x))
    np.testing.assert_allclose(out.x[:, 0], 0, atol=1e-12)
    assert np.all(out.x[:, out.names.index("b_missing")] == 1)


def test_clip_bounds_measurements():
    x = stream().x
    x[0, 0] = 1e9
    pipeline = Pipeline.fit(stream(), clip=4.0)
    assert np.abs(pipeline.transform(stream(x=x)).x).max() == 4.0


def test_missing_indicators_follow_the_training_part():
    series = stream()
    pipeline = Pipeline.fit(series, calendar={}, clip=1.0)
    assert pipeline.names == ("a", "b", "c", "a_missing", "b_missing")
    np.testing.assert_array_equal(pipeline.transform(series).x[:, 3:], np.isnan(series.x[:, :2]))


def test_sentinels_are_missing():
    x = stream().x
    x[7, 2] = -9999
    pipeline = Pipeline.fit(stream(x=x), sentinels=(-9999,), calendar={})
    assert Pipeline.fit(stream(x=x), sentinels=-9999, calendar={}) == pipeline
    out = pipeline.transform(stream(x=x))
    assert out.x[7, 2] == 0
    assert out.x[7, out.names.index("c_missing")] == 1
    assert max(pipeline.stages[-1].scale) < 3


def test_lags_look_back_inside_one_key():
    series = stream(n=5)
    pipeline = Pipeline.fit(series, lags={"c": (1, 3)}, missing=False, standardise=False, calendar={})
    out = pipeline.transform(series)
    assert out.names == ("a", "b", "c", "c_lag1", "c_lag3")
    for first in (0, 5):
        c = series.x[first : first + 5, 2]
        np.testing.assert_array_equal(out.x[first : first + 5, 3], [np.nan, *c[:-1]])
        np.testing.assert_array_equal(out.x[first : first + 5, 4], [np.nan] * 3 + [*c[:-3]])


def test_calendar_waves():
    day = Calendar((("day", 86400 * 10**9, 2),))
    time = np.array(["2020-05-05T06:00", "2020-05-06T12:00"], "datetime64[ns]")
    waves = day.apply(np.zeros((2, 0)), time, np.zeros((0, 0)))
    assert day.names(()) == ("day_sin1", "day_cos1", "day_sin2", "day_cos2")
    np.testing.assert_allclose(waves, [[1, 0, 0, -1], [0, -1, 0, 1]], atol=1e-15)


def test_calendar_by_default_takes_cycles_that_fit_twice():
    def waves(n, **changes):
        return {name.split("_")[0] for name in Pipeline.fit(stream(n, **changes)).names if "_sin" in name}

    assert waves(40) == set()
    assert waves(60) == {"day"}
    assert waves(400) == {"day", "week"}
    assert waves(60, clock=False) == {"season"}
    assert waves(60, clock=False, period=None) == set()


@pytest.mark.parametrize("clock", [True, False])
@pytest.mark.parametrize("bent", [True, False])
def test_a_profile_is_the_mean_of_the_labels_at_that_step_of_the_season(clock, bent):
    series = stream(clock=clock, delay=3)
    bend = {"kind": "sqrt", "low": -100.0, "offset": 1.0} if bent else None
    choices = {"missing": False, "standardise": False, "calendar": {}, "profile": 24, "labels": bent}
    got = Pipeline.fit(series, bend=bend, **choices).transform(series)
    assert got.names[-2:] == ("season_mean", "season_mean_diff3")
    label = np.sqrt(series.y + 101.0) if bent else series.y
    step = np.tile(np.arange(400), 2) % 24
    mean = np.array([np.nanmean(label[step == i]) for i in range(24)])
    np.testing.assert_allclose(got.x[:, -2], mean[step], rtol=1e-12)
    np.testing.assert_allclose(got.x[:, -1], mean[step] - mean[step - 3], atol=1e-12)


@pytest.mark.parametrize("clock", [True, False])
def test_elapsed_time_is_the_logarithm_of_that_and_the_usual_step(clock):
    series = stream(clock=clock)
    hours = np.cumsum(np.random.default_rng(0).choice([1.0, 1.0, 1.0, 2.5], 400))
    hours = np.concatenate([hours, hours])
    start = np.datetime64("2020-02-03T01:20", "ns")
    time = start + (hours * 3600e9).astype(np.int64).astype("timedelta64[ns]") if clock else hours
    series = replace(series, time=time)
    got = Pipeline.fit(series, elapsed=True, missing=False, standardise=False, calendar={}).transform(series)
    unit = 3600.0 if clock else 1.0
    expected = np.log(unit * (np.diff(hours[:400]) + 1.0))
    assert got.names == ("a", "b", "c", "time_diff1")
    assert np.isnan(got.x[[0, 400], -1]).all()
    np.testing.assert_allclose(got.x[1:400, -1], expected, rtol=1e-6)


def test_a_profile_of_steps_without_labels_is_the_mean_of_all():
    series = stream()
    series.y[np.tile(np.arange(400), 2) % 24 == 7] = np.nan
    pipeline = Pipeline.fit(series, profile=24, missing=False, standardise=False, calendar={})
    assert pipeline.transform(series).x[7, -2] == pytest.approx(np.nanmean(series.y))


def test_output_order():
    kinds = [type(stage) for stage in Pipeline.fit(stream(), sentinels=(0,), lags=(1,)).stages]
    assert kinds[0] is Sentinels
    assert kinds.index(Lags) < kinds.index(Standardise) < kinds.index(Calendar)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"lags": {"aa": (1,)}}, r"no column 'aa' \(did you mean 'a'\?\)"),
        ({"lags": (0,)}, r"lags of 'a' are \[0\]"),
        ({"lags": 3}, r"lags of 'a' are 3: .* as in \[3\]"),
        ({"differences": {"b": 3}}, r"lags of 'b' are 3"),
        ({"calendar": {"dya": 1}}, r"no calendar cycle 'dya' \(did you mean 'day'"),
        ({"calendar": {"day": 0}}, "0 harmonics of 'day'"),
        ({"calendar": {"season": 1}}, "no calendar cycle 'season'"),
        ({"clip": 0}, "clip is 0"),
        ({"profile": 1}, "profile is 1: give the number of steps in a season"),
    ],
)
def test_wrong_choices_are_named(choices, message):
    with pytest.raises(LatentTrackError, match=message):
        Pipeline.fit(stream(), **choices)


def test_wrong_rows_and_series_are_named():
    series = stream()
    pipeline = Pipeline.fit(series)
    with pytest.raises(LatentTrackError, match=r"shape \(2,\).*\(3,\).*a, b, c"):
        pipeline.step(pipeline.start(), series.time[0], np.zeros(2))
    with pytest.raises(LatentTrackError, match="'b' of the row is infinite"):
        pipeline.step(pipeline.start(), series.time[0], np.array([0, np.inf, 0]))
    with pytest.raises(LatentTrackError, match=r"time is 5\.0.*datetime64"):
        pipeline.step(pipeline.start(), 5.0, np.zeros(3))
    with pytest.raises(LatentTrackError, match=r"missing \['c'\], unexpected \['d'\]"):
        pipeline.transform(replace(series, names=("a", "b", "d")))
    with pytest.raises(LatentTrackError, match="has step numbers as time"):
        pipeline.transform(stream(clock=False))
