"""What a stream asks for: inputs and transform, chosen from its training part and said in words."""

import json
from dataclasses import replace

import numpy as np
import pytest

from latenttrack.data import Pipeline, Series
from latenttrack.data.choosing import choose_inputs
from latenttrack.data.known_label import KNOWN_LABEL
from latenttrack.errors import LatentTrackError
from latenttrack.training.suit import TAIL, _judge, suit, tail

HOUR = np.timedelta64(3600 * 10**9, "ns")


def stream(y, *, columns=1, clock=True, **changes):
    """Labels with some inputs that have nothing to do with them, hourly."""
    n = len(y)
    time = np.datetime64("2020-01-01", "ns") + np.arange(n) * HOUR if clock else np.arange(n)
    fields = {
        "x": np.random.default_rng(1).normal(size=(n, columns)),
        "y": y,
        "time": time,
        "names": tuple(f"x{i}" for i in range(columns)),
    }
    return Series(**fields | changes)


def wave(n):
    return np.sin(2 * np.pi * np.arange(n) / 24)


def counts(n=900):
    """Variance as large as the mean: the square root makes it even."""
    return np.random.default_rng(0).poisson(40 * np.exp(wave(n))).astype(float)


def prices(n=900):
    """Errors in proportion to the level: the logarithm makes them even."""
    return np.exp(1.0 + wave(n) + 0.4 * np.random.default_rng(0).normal(size=n))


@pytest.mark.parametrize(
    ("labels", "kind", "word"), [(counts, "sqrt", "square root"), (prices, "log", "logarithm")]
)
def test_skewed_labels_get_the_transform_that_evens_them_out(labels, kind, word):
    series = stream(labels(), delay=3)
    suited = suit(series)
    assert suited.transform["kind"] == kind
    assert suited.words[-1].startswith(f"{word} of the target (0.")
    assert suited.words[-1].endswith(" nats better than without)")
    # The label among the inputs is bent as the one that is predicted, and nothing else differs.
    bend = suited.features["bend"]
    assert bend == {name: suited.transform[name] for name in ("kind", "low", "offset")}
    assert suited.features == {**choose_inputs(series).features, "bend": bend}
    train, pipeline = suited.prepare(series)
    assert suited.transform["loc"] == pytest.approx(pipeline.y_loc, rel=1e-9)
    assert suited.transform["scale"] == pytest.approx(pipeline.y_scale, rel=1e-9)
    column = train.x[3:, train.names.index(KNOWN_LABEL)]
    assert np.corrcoef(column, {"sqrt": np.sqrt, "log": np.log}[kind](series.y[:-3] + bend["offset"]))[
        0, 1
    ] == pytest.approx(1.0, abs=1e-3)
    settings = {"transform": suited.transform, "features": suited.features}
    assert json.loads(json.dumps(settings, allow_nan=False)) == settings


@pytest.mark.parametrize(
    "y",
    [
        10 + 3 * wave(600) + np.random.default_rng(0).normal(size=600),
        prices(600) - 5.0,
        -prices(600),
        np.random.default_rng(0).choice([0.0, 1.0], 600, p=[0.9, 0.1]),
    ],
    ids=["symmetric", "skewed with negatives", "skewed to the left", "yes or no"],
)
def test_other_labels_are_left_as_they_are(y, monkeypatch):
    """And no transform is even tried."""

    def judge(plain, known, kind, season):
        assert kind is None
        return np.zeros(90)

    monkeypatch.setattr("latenttrack.training.suit._judge", judge)
    suited = suit(stream(y))
    assert suited.transform is None
    assert "bend" not in suited.features
    assert not any("target" in word for word in suited.words)


def test_without_labels_to_judge_by_nothing_is_transformed():
    """Those of the newest part are missing, or not known yet."""
    y = counts(200)
    for series in (stream(y, delay=40), stream(np.where(np.arange(200) > 175, np.nan, y))):
        suited = suit(series)
        assert suited.transform is None
        assert suited.words[-1] == "no transform of the target: too few labels to judge by"


def test_words_are_sentences_for_people():
    noise = np.random.default_rng(0).normal(size=1500)
    words = suit(stream(10 + wave(800) + noise[:800], delay=6)).words
    assert words == ("daily pattern found", "inputs: labels up to 30 steps back, waves of the day")
    words = suit(stream(np.random.default_rng(0).normal(size=300).cumsum(), clock=False)).words
    assert words == ("no season found", "inputs: labels up to 24 steps back, no calendar")
    daily = np.datetime64("2015-01-01", "ns") + np.arange(1500) * 24 * HOUR
    words = suit(stream(3 * np.sin(2 * np.pi * np.arange(1500) / 7) + noise[:1500], time=daily)).words
    assert words == ("weekly pattern found", "inputs: labels up to 24 steps back, waves of the week and year")


@pytest.mark.parametrize("columns", [0, 1, 8, 20, 60])
def test_inputs_are_bounded(columns):
    """All columns stay; what is derived from them gives way."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random((700, columns)) < 0.1, np.nan, rng.normal(size=(700, columns)))
    series = stream(3 * wave(700) + rng.normal(size=700), columns=columns, x=x)
    train, _ = suit(series).prepare(series)
    assert set(series.names) < {*train.names, "more"}
    own = 1 + 24 + 8  # the known label, its differences, waves of the day
    assert len(train.names) <= max(72, own + columns + 1)
    assert ("x0_diff1" in train.names) == (columns in (1, 8))
    assert np.isfinite(train.x).all()
    assert np.abs(train.x).max() <= 6.0


def test_only_what_is_often_missing_gets_a_flag():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))
    x[rng.random(600) < 0.2, :2] = np.nan  # together: one flag is enough
    x[5, 2] = np.nan
    y = wave(600) + 0.1 * rng.normal(size=600)
    assert choose_inputs(stream(y, columns=4, x=x, delay=9)).features["missing"] == ["x0"]
    y = np.where(rng.random(600) < 0.5, np.nan, y)
    assert choose_inputs(stream(y, columns=4, x=x)).features["missing"] == [KNOWN_LABEL, "x0"]


def test_labels_that_are_not_known_yet_have_no_influence(monkeypatch):
    """The last D - 1 of the training part: neither on choices nor on the pipeline, nor on what is judged."""

    def judge(plain, known, kind, season):
        return np.nan_to_num(known.y) * {None: 0.0, "sqrt": 1.0, "log": 2.0}[kind]

    monkeypatch.setattr("latenttrack.training.suit._judge", judge)
    series = stream(counts(400), delay=30)
    late = np.arange(400) > 400 - 30
    one, *others = [
        suit(replace(series, y=np.where(late, v, series.y))) for v in (series.y, -1e6, 1e6, np.nan)
    ]
    assert all(other == one for other in others)
    pipelines = [one.prepare(replace(series, y=np.where(late, v, series.y)))[1] for v in (0.0, 1e6)]
    assert pipelines[0] == pipelines[1]


def test_choices_come_from_the_training_part_and_hold_for_the_test_part():
    """As they would live: the test part's first inputs reach back into the training part."""
    series = stream(10 + 3 * wave(900) + np.random.default_rng(0).normal(size=900), delay=6)
    past, future = series.split(0.7)
    suited = suit(past)
    train, pipeline = suited.prepare(past)
    whole = pipeline.transform(series)
    np.testing.assert_array_equal(pipeline.transform(future, history=past).x, whole.x[len(past) :])
    np.testing.assert_array_equal(train.x, whole.x[: len(past)])
    assert train.period == suited.period == 24
    assert Pipeline.from_dict(json.loads(json.dumps(pipeline.to_dict()))) == pipeline


def test_several_streams_of_different_length():
    lengths = (500, 120, 40)
    y = np.concatenate([10 + wave(n) for n in lengths]) + 0.2 * np.random.default_rng(0).normal(size=660)
    series = stream(
        y,
        time=np.concatenate([np.arange(n) for n in lengths]),
        keys=("a", "b", "c"),
        key=np.repeat([0, 1, 2], lengths),
        delay=24,
    )
    suited = suit(series)
    assert suited.words[0] == "24-step pattern found"
    train, _ = suited.prepare(series)
    window, counts = tail(train)
    assert window.y.shape == (3, 500)
    # The cut is one in time; labels that are not known where a stream ends do not count.
    cut = np.sort(series.time)[round((1 - TAIL) * 660)]
    expected = [np.sum((np.arange(n) >= cut) & (np.arange(n) <= n - 24)) for n in lengths]
    assert counts.sum(axis=1).tolist() == expected


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (np.full(200, np.nan), "are missing"),
        (np.ones(200), "constant"),
        (np.arange(50.0), "50 rows with a label"),
    ],
)
def test_streams_from_which_nothing_can_be_learned(y, says):
    with pytest.raises(LatentTrackError, match=says):
        suit(stream(y))


def test_a_column_with_the_name_of_the_known_label_is_refused():
    with pytest.raises(LatentTrackError, match=r"'known_label'.*rename the column"):
        suit(stream(wave(200), names=(KNOWN_LABEL,)))


def rush_hours(n: int) -> np.ndarray:
    """Two narrow peaks on five days of the week: more than a few waves can draw."""
    hour = np.arange(n)
    busy = np.isin(hour % 24, (8, 17)) & (hour // 24 % 7 < 5)
    return 5.0 + 10.0 * busy + np.random.default_rng(0).normal(size=n)


def test_a_mean_season_is_an_input_where_it_helps():
    """Its words say which; its means are those of the training part, by the hour of the week."""
    series = stream(rush_hours(24 * 7 * 24))
    suited = suit(series)
    assert suited.features["profile"] == 168
    assert suited.words[-1].startswith("input: the mean course of 168 steps (")
    train, _ = suited.prepare(series)
    means = train.x[:, train.names.index("season_mean")]
    np.testing.assert_allclose(means[:168], means[168:336])
    assert np.corrcoef(means, series.y)[0, 1] > 0.9


def test_a_mean_season_that_does_not_help_is_no_input():
    """A wave is known already; too short a stream says nothing of a week."""
    smooth = stream(10 + 3 * wave(900) + np.random.default_rng(0).normal(size=900))
    assert "profile" not in suit(smooth).features
    assert suit(stream(rush_hours(24 * 7 * 8))).features.get("profile") in (None, 24)


def test_a_mean_season_is_judged_without_the_labels_it_is_judged_by():
    """Of pure noise a mean of few labels would else look good."""
    y = np.random.default_rng(1).normal(size=24 * 21)
    series = replace(stream(y), period=24)
    plain = suit(series)
    gain = _judge(plain, series, None, 24) - _judge(plain, series, None, None)
    assert gain.mean() < 0.0


def test_on_an_irregular_stream_the_elapsed_time_is_an_input():
    hours = np.cumsum(np.random.default_rng(0).exponential(size=500) * 3600e9).astype(np.int64)
    time = np.datetime64("2020-01-01", "ns") + hours.astype("timedelta64[ns]")
    series = stream(np.random.default_rng(1).normal(size=500).cumsum(), time=time)
    suited = suit(series)
    assert suited.words[-1] == "input: the time since the row before, as rows are not evenly spaced"
    assert "time_diff1" in suited.prepare(series)[0].names
    gaps = np.delete(np.arange(500), [100, 101, 300])  # rows are missing, but all lie on the hour
    assert (
        "elapsed"
        not in suit(stream(np.random.default_rng(1).normal(size=500).cumsum()).select(gaps)).features
    )
