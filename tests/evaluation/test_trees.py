"""Gradient-boosted trees as a reference: they see what the network sees, are causal and calibrated."""

import sys
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation import trees
from latenttrack.evaluation.records import summarise
from latenttrack.evaluation.trees import TreeSettings, evaluate_trees, fit_trees, see
from latenttrack.models.layout import lay_out
from latenttrack.models.transformed import fit_transform
from latenttrack.models.use import seen_inside

CUT, ROWS = 1500, 2000
BEND = 0.02


class Stream(NamedTuple):
    train: Series
    test: Series
    slope: np.ndarray  # of the test part's labels: d label / d w
    settings: TreeSettings


def _noise_scale(x):
    return np.where(x[:, 1] > 0, 0.8, 0.2)


@pytest.fixture(scope="module", params=[(1, None), (3, "log")], ids=["delay-1", "delay-3-log"])
def stream(request):
    """Two streams whose label is the newest known one, plus a change that x gives, plus noise that x scales.

    w_t = w_{t-D} + sin(2 a_t) + sd(b_t) * Student-t(6); the label is 10 + 2 w_t or, to be transformed,
    exp(.02 w_t).
    """
    delay, kind = request.param
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * ROWS, 2))
    w = np.sin(2 * x[:, 0]) + _noise_scale(x) * rng.standard_t(6, size=2 * ROWS)
    time = np.tile(np.arange(ROWS, dtype=float), 2)
    for t in np.flatnonzero(time >= delay):
        w[t] += w[t - delay]
    label = 10.0 + 2.0 * w if kind is None else np.exp(BEND * w)
    slope = np.full(2 * ROWS, 2.0) if kind is None else BEND * label
    loc, scale = label[time < CUT].mean(), label[time < CUT].std()
    y = (label - loc) / scale
    y[[0, 40, 41, 700, CUT - 2, ROWS - 1]] = np.nan
    series = Series(
        x,
        y,
        time,
        ("a", "b"),
        keys=("k0", "k1"),
        key=np.repeat([0, 1], ROWS),
        delay=delay,
        y_loc=loc,
        y_scale=scale,
    )
    past = time < CUT
    transform = None if kind is None else fit_transform(kind, label[past], loc, scale)
    settings = TreeSettings(folds=3, transform=transform)
    return Stream(series.select(past), series.select(~past), slope[~past], settings)


@pytest.fixture(scope="module")
def fitted(stream):
    return fit_trees(stream.train, stream.settings)


def test_inputs_and_residuals_are_the_networks(fitted, stream):
    """As training has them; only the two ways to compute them differ, in single precision."""
    train = stream.train
    seen = see(fitted.tracker, train)
    window = jax.tree.map(jnp.asarray, lay_out(train)[0])
    inside = jax.vmap(lambda one: seen_inside(fitted.tracker, one))(window)
    known = ~np.isnan(train.y)
    assert seen.inputs.shape == (len(train), 2 + 4)
    np.testing.assert_allclose(seen.inputs, np.concatenate(inside.x), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(np.isnan(seen.residual), ~known)
    np.testing.assert_allclose(seen.residual[known], np.concatenate(inside.y)[known], rtol=1e-3, atol=1e-3)


def test_the_anchor_is_the_newest_known_label(fitted, stream):
    """Row by row against the definition, across the cut."""
    train, test, D = stream.train, stream.test, stream.train.delay
    anchor = see(fitted.tracker, test, train).anchor
    curve = trees._curve(fitted.tracker)
    for stream_number in (0, 1):
        y = np.concatenate([part.y[part.key == stream_number] for part in (train, test)])
        for t in (CUT, CUT + 1, CUT + D, CUT + 100, ROWS - 1):
            known = y[: t - D + 1]
            newest = known[~np.isnan(known)][-1]
            expected = newest if curve is None else float(curve.to_inner(jnp.float32(newest)))
            row = stream_number * (ROWS - CUT) + t - CUT
            np.testing.assert_allclose(anchor[row], expected, rtol=1e-5, atol=1e-5)


def test_the_future_is_invisible(fitted, stream):
    """Labels not yet due at step t change no forecast up to t, and those that are due change the next."""
    train, test = stream.train, stream.test
    D, t = test.delay, 100
    y = test.y.copy()
    y[t - D + 1 : ROWS - CUT] += 0.5  # of the first stream
    before, after = (evaluate_trees(fitted, s, train) for s in (test, replace(test, y=y)))
    for name in ("mean", "aleatoric", "lower", "upper"):
        one, other = before.steps[name][0], after.steps[name][0]
        np.testing.assert_array_equal(one[: t + 1], other[: t + 1])
        np.testing.assert_array_equal(one[ROWS - CUT :], other[ROWS - CUT :])  # nor the other stream
    assert (before.steps["mean"][0, t + 1 : t + 4] != after.steps["mean"][0, t + 1 : t + 4]).any()


def test_forecasts_are_sharp_and_calibrated(fitted, stream):
    """NLL near that of the truth, in the label's own units; PIT uniform; and the scale follows x."""
    test = stream.test
    records = evaluate_trees(fitted, test, stream.train)
    known = ~np.isnan(test.y)
    n = known.sum()
    assert (records.model, records.seeds) == ("lightgbm", 1)
    np.testing.assert_array_equal(np.isnan(records.steps["nll"][0]), ~known)
    assert np.isfinite(records.steps["mean"]).all()
    summary = summarise(records)
    assert abs(summary.coverage_90 - 0.9) < 4 * np.sqrt(0.09 / n) + 0.02
    # What the truth would score, on average; the trees pay for what they had to learn.
    entropy = stats.t(6).entropy() + np.log(_noise_scale(test.x) * stream.slope)[known].mean()
    standard_error = np.nanstd(records.steps["nll"]) / np.sqrt(n)
    assert entropy - 4 * standard_error < summary.nll < entropy + 4 * standard_error + 0.1
    loud = test.x[:, 1] > 0
    sd = np.sqrt(records.steps["aleatoric"][0]) / stream.slope
    assert np.median(sd[loud]) > 2 * np.median(sd[~loud])
    assert summary.parameters > 100


def test_the_same_trees_every_time_whatever_is_unknown_at_the_cut(fitted, stream):
    """The last D - 1 labels of each stream arrive when the test part has begun: none is trained on."""
    y = stream.train.y.copy()
    for end in (CUT, 2 * CUT):
        y[end - stream.train.delay + 1 : end] = 1e3
    again = fit_trees(replace(stream.train, y=y), stream.settings)
    assert again.mean.text() == fitted.mean.text()
    assert again.scale.text() == fitted.scale.text()
    assert (again.df, again.spread) == (fitted.df, fitted.spread)


@pytest.mark.parametrize("useful", [True, False])
def test_other_columns_are_left_out_where_they_mislead(useful, monkeypatch):
    """Levels that are known by heart from the time are none for a time that was not seen."""
    monkeypatch.setattr("latenttrack.training.setup.SHORT", ROWS - 1)
    rng = np.random.default_rng(3)
    noise, wind = rng.normal(size=(2, ROWS))
    time = np.arange(ROWS, dtype=float)
    level = np.array([0.0, 3.0, -2.0, 4.0])[np.arange(ROWS) * 4 // ROWS]
    y = np.abs(wind) + 0.2 * noise if useful else level + noise
    x = np.column_stack([np.append(0.0, y[:-1]), wind if useful else time / ROWS])
    fitted = fit_trees(Series(x, y, time, ("known_label", "other")), TreeSettings(folds=4))
    assert (1 in fitted.columns) == useful


@pytest.mark.parametrize("df", [3.0, 6.0, 30.0])
def test_the_student_t_is_the_most_likely_one(df):
    """Against a grid of both parameters."""
    draws = stats.t.rvs(df, scale=1.7, size=4000, random_state=1)
    found_df, found_scale = trees._student_t(draws)
    best = stats.t.logpdf(draws, found_df, scale=found_scale).mean()
    for other in np.geomspace(2.1, 200, 30):
        for scale in found_scale * np.linspace(0.8, 1.2, 21):
            assert stats.t.logpdf(draws, other, scale=scale).mean() <= best + 1e-5


def test_without_the_package_one_sentence_says_what_to_install(stream, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(LatentTrackError, match=r'lightgbm.*pip install "latenttrack\[trees\]"'):
        fit_trees(stream.train)


def test_nothing_to_learn_is_refused(stream):
    train = stream.train
    with pytest.raises(LatentTrackError, match="constant"):
        fit_trees(replace(train, y=np.ones_like(train.y)))
