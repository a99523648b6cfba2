"""Seasons: found where there are some, under noise, trends, jumps and gaps, and nowhere else."""

from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from latenttrack.data import Series, read_table
from latenttrack.data.choosing import choose_inputs
from latenttrack.data.jena import jena_series
from latenttrack.data.periods import find_periods
from latenttrack.data.public import public_series

SHARED = Path(__file__).parents[3] / "shared" / "data"
HOUR = np.timedelta64(3600 * 10**9, "ns")


def series(*streams, **changes):
    """One or several streams of labels, without inputs."""
    y = np.concatenate(streams)
    fields = {
        "x": np.zeros((len(y), 0)),
        "y": y,
        "time": np.concatenate([np.arange(len(s), dtype=float) for s in streams]),
        "names": (),
        "keys": tuple(f"k{i}" for i in range(len(streams))),
        "key": np.repeat(np.arange(len(streams)), [len(s) for s in streams]),
    }
    return Series(**fields | changes)


def season(n, *periods, seed=0, noise=0.3):
    """A smooth wave with one overtone for the first period; a longer one changes its height."""
    t = np.arange(n)
    angle = 2 * np.pi * t / periods[0]
    y = np.sin(angle) + 0.5 * np.cos(2 * angle)
    if len(periods) > 1:  # one of seven days is another kind of day
        y = np.where(t % periods[1] < periods[0], 0.2, 1.0) * y
    return y + noise * np.random.default_rng(seed).normal(size=n)


SEASONS = [(24,), (7,), (48,), (5,), (144,), (24, 168), (48, 336), (4, 28)]


@pytest.mark.parametrize("periods", SEASONS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_seasons_are_found(periods, seed):
    assert find_periods(series(season(20 * periods[-1], *periods, seed=seed, noise=0.1))) == periods
    assert find_periods(series(season(4000, *periods, seed=seed)))[0] == periods[0]  # with more noise


def spoilt(how, y, rng):
    n = len(y)
    t = np.arange(n)
    if how == "trend":
        return y + 50 * t / n
    if how == "shifts":
        return y + 30 * (t > n // 3) - 200 * (t > n // 2) + 1e4 * (t == n // 4)
    if how == "walk":
        return y + 0.2 * rng.normal(size=n).cumsum()
    if how == "half missing":
        return np.where(rng.random(n) < 0.5, np.nan, y)
    if how == "a month missing":
        return np.where((t > 900) & (t < 1620), np.nan, y)
    if how == "every third known":
        return np.where(t % 3 > 0, np.nan, y)
    if how == "constant stretch":
        return np.where((t > 900) & (t < 1620), 0.5, y)
    if how == "counts with many zeros":
        return rng.poisson(np.exp(2 * y - 1)).astype(float)
    if how == "negative":
        return -5 * y - 1e6
    raise AssertionError(how)


SPOILT = [
    "trend",
    "shifts",
    "walk",
    "half missing",
    "a month missing",
    "every third known",
    "constant stretch",
    "counts with many zeros",
    "negative",
]


@pytest.mark.parametrize("how", SPOILT)
def test_seasons_are_found_in_spoilt_streams(how):
    rng = np.random.default_rng(3)
    assert find_periods(series(spoilt(how, season(3000, 24), rng))) == (24,)
    hidden = how == "counts with many zeros"  # the noise of counting hides the week
    found = find_periods(series(spoilt(how, season(6000, 24, 168, noise=0.1), rng)))
    assert found == ((24,) if hidden else (24, 168))


def walk(rng, n):
    return rng.normal(size=n).cumsum()


def auto(*coefficients):
    """An autoregression without a cycle."""
    return lambda rng, n: lfilter([1.0], [1.0, *(-c for c in coefficients)], rng.normal(size=n))


NOTHING = {
    "white noise": lambda rng, n: rng.normal(size=n),
    "random walk": walk,
    "AR .5": auto(0.5),
    "AR .9": auto(0.9),
    "AR .99": auto(0.99),
    "AR -.5": auto(-0.5),
    "momentum": lambda rng, n: auto(0.9)(rng, n).cumsum(),  # its changes are alike for a long while
    "damped": auto(1.6, -0.7),
    "rare counts": lambda rng, n: rng.poisson(0.1, n).astype(float),
    "heavy tails": lambda rng, n: rng.standard_t(2, n),
}


@pytest.mark.parametrize("what", NOTHING)
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_no_season_in_streams_without_one(what, missing):
    for n in (100, 200, 700, 1000, 3000, 8000):
        rng = np.random.default_rng(n)
        y = NOTHING[what](rng, n)
        assert find_periods(series(np.where(rng.random(n) < missing, np.nan, y))) == ()


@pytest.mark.parametrize(
    "y",
    [
        np.zeros(500),
        np.arange(500.0),
        1e9 + 0.1 * np.arange(500.0),
        np.full(500, np.nan),
        np.arange(3.0),
        np.where(np.arange(500) == 250, 1.0, 0.0),
        np.where(np.arange(500) < 250, 1.0, 2.0),
        season(90, 24),  # not four seasons
    ],
    ids=["constant", "line", "large line", "missing", "three", "one event", "one jump", "short"],
)
def test_streams_in_which_nothing_can_be_found(y):
    assert find_periods(series(y)) == ()


def test_short_streams():
    assert find_periods(series(season(120, 24, noise=0.1))) == (24,)
    assert find_periods(series(season(100, 7, noise=0.1))) == (7,)


def test_a_short_stream_does_not_bound_the_others():
    assert find_periods(series(season(30, 24), season(4000, 24, 168), season(500, 24))) == (24, 168)


def test_short_streams_together_show_what_none_shows_alone():
    parts = [season(110, 24, seed=s, noise=1.5) for s in range(30)]
    assert all(find_periods(series(part)) == () for part in parts)
    assert find_periods(series(*parts)) == (24,)


def test_the_stream_with_the_largest_unit_does_not_decide_alone():
    loud = 1e4 * np.random.default_rng(0).normal(size=1000)
    assert find_periods(series(loud, season(1000, 24), season(1000, 24, seed=1))) == (24,)


@pytest.mark.parametrize(("scale", "shift"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e6), (-1.0, 0.0)])
def test_units_do_not_matter(scale, shift):
    assert find_periods(series(shift + scale * season(2000, 24))) == (24,)


def test_inputs_follow_the_season_found():
    """Weekly waves for daily data too; no more waves than steps can tell apart; lags for every delay."""
    time = np.datetime64("2020-01-01", "ns") + np.arange(1500) * HOUR
    hourly = choose_inputs(series(season(1500, 24), time=time))
    assert (hourly.period, hourly.features["calendar"]) == (24, {"day": 4})
    assert hourly.words[0] == "daily pattern found"
    weekly = choose_inputs(series(season(1500, 24, 168, noise=0.1), time=time))
    assert weekly.features["calendar"] == {"day": 4, "week": 2}
    assert weekly.words[0] == "daily and weekly pattern found"
    daily = choose_inputs(series(season(1500, 7), time=time[0] + 24 * np.arange(1500) * HOUR))
    assert (daily.period, daily.features["calendar"]) == (7, {"week": 2, "year": 1})
    assert daily.words[0] == "weekly pattern found"
    coarse = choose_inputs(series(season(1500, 4), time=time[0] + 6 * np.arange(1500) * HOUR))
    assert coarse.features["calendar"] == {"day": 1}  # of four steps a day
    steps = choose_inputs(series(season(1500, 5)))
    assert (steps.period, steps.features["calendar"]) == (5, {"season": 2})
    assert steps.words[0] == "5-step pattern found"
    none = choose_inputs(series(walk(np.random.default_rng(0), 1500)))
    assert (none.period, none.features["calendar"]) == (None, {})
    assert none.words == ("no season found", "inputs: labels up to 24 steps back, no calendar")


def test_inputs_ignore_labels_that_are_not_known_yet():
    y = np.append(walk(np.random.default_rng(0), 200), 30 * season(300, 24))
    assert choose_inputs(series(y)).words[0] == "24-step pattern found"
    assert choose_inputs(series(y, delay=301)).words[0] == "no season found"


@pytest.mark.parametrize(
    ("delay", "lags"), [(1, {24}), (6, {18, 24}), (24, {24}), (30, {18, 48}), (48, {48}), (100, {20, 120})]
)
def test_seasonal_lags_reach_the_same_place_one_season_ago(delay, lags):
    """Of step t - D back to t - P and t - P - D, P so many seasons that the label is known."""
    chosen = choose_inputs(series(season(2000, 24), delay=delay)).features["differences"]["known_label"]
    assert set(chosen) == set(range(1, 24)) | lags


def needs(name):
    path = SHARED / name
    return pytest.mark.skipif(not path.is_file(), reason=f"{path} is not here")


def electricity():
    return series(read_table(SHARED / "elec2.csv.gz").columns["nswdemand"])


REAL = {
    "jena": ("jena_hourly_2009_2016.csv.gz", lambda: jena_series(SHARED, sentinels="missing"), (24,)),
    "etth1": ("etth1.csv.gz", lambda: public_series("etth1", SHARED), (24,)),
    "bike": ("bike_hour.csv.gz", lambda: public_series("bike", SHARED), (24, 168)),
    "elec2": ("elec2.csv.gz", electricity, (48, 336)),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=needs(REAL[n][0])) for n in REAL])
def test_seasons_of_real_streams(name):
    _, load, periods = REAL[name]
    stream = load()
    assert find_periods(stream) == periods
    assert find_periods(stream.split(0.7)[0]) == periods
    assert find_periods(stream.select(np.arange(2000)))[0] == periods[0]
