"""Gradient-boosted trees as a reference: causal, calibrated, and as good as they should be."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation import trees
from latenttrack.evaluation.records import summarise
from latenttrack.evaluation.trees import TreeSettings, evaluate_trees, fit_trees, tree_inputs

CUT, ROWS = 1500, 2000


def _noise_scale(x):
    return np.where(x[:, 1] > 0, 0.8, 0.2)


@pytest.fixture(scope="module", params=[1, 3], ids=["delay-1", "delay-3"])
def parts(request):
    """Two streams whose label is the newest known one, plus a change that x gives, plus noise that x scales.

    y_t = y_{t-D} + sin(2 a_t) + sd(b_t) * Student-t(6)
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * ROWS, 2))
    change = np.sin(2 * x[:, 0]) + _noise_scale(x) * rng.standard_t(6, size=2 * ROWS)
    time = np.tile(np.arange(ROWS, dtype=float), 2)
    y = change.copy()
    for t in np.flatnonzero(time >= request.param):
        y[t] += y[t - request.param]
    y[[0, 40, 41, 700, CUT - 2, ROWS - 1]] = np.nan
    key = np.repeat([0, 1], ROWS)
    series = Series(
        x, y, time, ("a", "b"), keys=("k0", "k1"), key=key, delay=request.param, y_loc=10.0, y_scale=2.0
    )
    return series.select(time < CUT), series.select(time >= CUT)


@pytest.fixture(scope="module")
def fitted(parts):
    return fit_trees(parts[0], TreeSettings(lags=4, folds=3))


def test_inputs_are_what_is_known(parts):
    """Row by row against the definition: labels up to t - D, the newest and its differences to others."""
    train = parts[0]
    D, lags = train.delay, (train.delay + 1, train.delay + 5)
    inputs, last = tree_inputs(train, lags)
    for t in (0, D - 1, D, D + 1, 700, CUT - 1):
        for start in (0, CUT):
            y = train.y[start : start + CUT]
            known = y[: max(t - D + 1, 0)]
            known = known[~np.isnan(known)]
            newest = known[-1] if len(known) else np.nan
            earlier = [y[t - lag] if t >= lag else np.nan for lag in lags]
            expected = [*train.x[start + t], newest, *(newest - np.array(earlier))]
            np.testing.assert_array_equal(inputs[start + t], expected)
            np.testing.assert_array_equal(last[start + t], newest)


def test_the_future_is_invisible(fitted, parts):
    """Labels not yet due at step t change no forecast up to t, and those that are due change the next."""
    train, test = parts
    D, t = test.delay, 100
    y = test.y.copy()
    y[t - D + 1 : ROWS - CUT] += 5.0  # of the first stream
    before, after = (evaluate_trees(fitted, s, train) for s in (test, replace(test, y=y)))
    for name in ("mean", "aleatoric", "lower", "upper"):
        one, other = before.steps[name][0], after.steps[name][0]
        np.testing.assert_array_equal(one[: t + 1], other[: t + 1])
        np.testing.assert_array_equal(one[ROWS - CUT :], other[ROWS - CUT :])  # nor the other stream
    assert (before.steps["mean"][0, t + 1 : t + 4] != after.steps["mean"][0, t + 1 : t + 4]).any()


def test_labels_unknown_at_the_cut_are_not_trained_on(parts):
    """The last D - 1 labels of each stream: they arrive when the test part has begun."""
    train = parts[0]
    y = train.y.copy()
    for end in (CUT, 2 * CUT):
        y[end - train.delay + 1 : end] = 1e3
    settings = TreeSettings(lags=2, folds=2)
    one, other = fit_trees(train, settings), fit_trees(replace(train, y=y), settings)
    assert one.mean.model_to_string() == other.mean.model_to_string()
    assert (one.df, one.spread) == (other.df, other.spread)


def test_forecasts_are_sharp_and_calibrated(fitted, parts):
    """NLL near that of the truth, PIT uniform, and the scale follows x."""
    train, test = parts
    records = evaluate_trees(fitted, test, train)
    known = ~np.isnan(test.y)
    n = known.sum()
    assert (records.model, records.seeds) == ("lightgbm", 1)
    np.testing.assert_array_equal(np.isnan(records.steps["nll"][0]), ~known)
    assert np.isfinite(records.steps["mean"]).all()
    summary = summarise(records)
    assert abs(summary.coverage_90 - 0.9) < 4 * np.sqrt(0.09 / n) + 0.02
    # What the truth would score, on average; the trees pay for what they had to learn.
    entropy = stats.t(6).entropy() + np.log(_noise_scale(test.x[known]) * test.y_scale).mean()
    standard_error = np.nanstd(records.steps["nll"]) / np.sqrt(n)
    assert entropy - 4 * standard_error < summary.nll < entropy + 4 * standard_error + 0.1
    loud = test.x[:, 1] > 0
    sd = np.sqrt(records.steps["aleatoric"][0])
    assert np.median(sd[loud]) > 2 * np.median(sd[~loud])
    assert summary.parameters > 100


def test_the_same_trees_every_time(fitted, parts):
    again = fit_trees(parts[0], TreeSettings(lags=4, folds=3))
    assert again.mean.model_to_string() == fitted.mean.model_to_string()
    assert (again.df, again.spread) == (fitted.df, fitted.spread)


@pytest.mark.parametrize("df", [3.0, 6.0, 30.0])
def test_the_student_t_is_the_most_likely_one(df):
    """Against a grid of both parameters."""
    draws = stats.t.rvs(df, scale=1.7, size=4000, random_state=1)
    found_df, found_scale = trees._student_t(draws)
    best = stats.t.logpdf(draws, found_df, scale=found_scale).mean()
    for other in np.geomspace(2.1, 200, 30):
        for scale in found_scale * np.linspace(0.8, 1.2, 21):
            assert stats.t.logpdf(draws, other, scale=scale).mean() <= best + 1e-5


def test_without_the_package_one_sentence_says_what_to_install(parts, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(LatentTrackError, match=r'lightgbm.*pip install "latenttrack\[trees\]"'):
        fit_trees(parts[0])


def test_nothing_to_learn_is_refused(parts):
    train = parts[0]
    with pytest.raises(LatentTrackError, match="constant"):
        fit_trees(replace(train, y=np.ones_like(train.y)))
