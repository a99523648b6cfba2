"""`forecast`: every path is a live stream that hears its own draws; theory says how its fan opens."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy.special import ndtr

import latenttrack as lt
from latenttrack.data.feed import Feed
from latenttrack.data.series import Series
from latenttrack.filtering.overlap import Overlap
from latenttrack.filtering.stand_ins import StandIns
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task

SMALL = {"hidden_size": 4, "encoder_size": 3, "features": 3, "predictor": [3], "K": 4}
WRAPPED = {
    "informant": "rls",
    "correct": True,
    "safety_net": ["rls-t", "last-label"],
    "anchor": "last-label",
    "recalibrate": True,
}
HOUR = np.timedelta64(3600, "s")
START = np.datetime64("2026-01-01T00:00:00", "ns")
SE = 5.0  # standard errors that chance may take: once in two million


def make_raw(n=120, horizon=1, delay=None, seed=0):
    """Hourly rows; the label is the level `horizon` hours later, which follows the wind."""
    rng = np.random.default_rng(seed)
    wind = rng.normal(0, 1, n + horizon)
    level = np.zeros(n + horizon)
    for t in range(1, len(level)):
        level[t] = 0.7 * level[t - 1] + 2.0 * wind[t - 1] + rng.normal(0, 0.3)
    x = np.column_stack([level, wind])[:n]
    y = np.where(np.arange(n) + horizon < n, level[horizon:], np.nan)
    return Series(
        x,
        y,
        START + np.arange(n) * HOUR,
        ("level", "wind"),
        "level",
        delay=delay or horizon,
        source="level",
        horizon=horizon,
    )


def untrained(raw, **settings):
    """A network as it was drawn: what a path does depends on its parts, and not on how good they are."""
    prepared, _, pipeline = lt.prepare(raw, 0.6, labels=True, lags={"known_label": [1, 5]}, clip=6.0)
    task, settings = Task.of(prepared), {**SMALL, **settings}
    keys = jax.random.split(jax.random.key(0), 1)
    stack = build_stack(lambda key: build("latent-track", task, key, **settings), keys)
    return lt.Model("latent-track", settings, task, stack, pipeline, feed=Feed.of(raw))


def regression(raw, **choices):
    """Online least squares on the rows themselves, where they end."""
    prepared, _, pipeline = lt.prepare(raw, 0.9, calendar={}, missing=False, **choices)
    return lt.fit("rls", prepared, pipeline=pipeline).advance(raw)


def live(model, raw):
    stream = model.stream()
    for i in range(len(raw)):
        said = stream.predict(raw.x[i], time=raw.time[i])
    return stream, said


def table(raw, rows, **changes):
    """Some rows of a raw series as a user's table."""
    columns = {"time": raw.time[rows], "level": raw.x[rows, 0], "wind": raw.x[rows, 1]}
    return {**columns, **changes}


@pytest.fixture(scope="module")
def raw():
    return make_raw()


@pytest.fixture(scope="module")
def rls(raw):
    return regression(raw)


@pytest.fixture(scope="module")
def preset(raw):
    return untrained(raw, **WRAPPED)


@pytest.mark.slow
def test_the_first_step_is_the_streams_own_prediction(preset, raw):
    """The same distribution: moments and quantiles to rounding, and the draws are of it."""
    stream, said = live(preset, raw)
    S = 500
    found = stream.forecast(1, samples=S)
    assert found.time[0] == raw.time[-1] + HOUR
    assert found.mean[0] == pytest.approx(said.mean, abs=1e-4 * said.std)
    assert found.std[0] == pytest.approx(said.std, rel=1e-4)
    for level, value in said.quantiles.items():
        assert found.quantiles[level][0] == pytest.approx(value, abs=1e-3 * said.std)
        below = np.mean(found.paths[:, 0] <= value)
        assert abs(below - level) < SE * np.sqrt(level * (1 - level) / S)
    assert abs(found.paths.mean() - said.mean) < SE * said.std / np.sqrt(S)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("horizon", "delay", "settings"),
    [(1, 1, WRAPPED), (3, 3, {}), (2, 4, {"anchor": "last-label"})],
    ids=["preset", "network", "delay"],
)
def test_every_path_is_a_live_stream(horizon, delay, settings, monkeypatch):
    """A copy of the stream that hears a path's rows and draws finds every draw where the path put it."""
    raw = make_raw(horizon=horizon, delay=delay)
    stream, said = live(untrained(raw, **settings), raw)
    S, H, drawn = 3, horizon + 5, []
    monkeypatch.setattr(Overlap, "push", _recorded(drawn, Overlap.push))
    found = stream.forecast(H, samples=S)
    assert found.unknown == ("wind",)
    scores = np.array(drawn).T
    stand_ins = StandIns(stream.log, 1, S)
    told = np.zeros((S, H - horizon, 2))
    for s in range(S):
        twin, pits = stream.copy(), []
        for j in range(H - horizon):
            row = {"level": found.paths[s, j], "wind": stand_ins.rows(len(raw) + j)[s, 1]}
            answer = twin.predict(row, time=raw.time[-1] + (1 + j) * HOUR)
            told[s, j] = answer.mean, answer.std**2
            pits.append(answer.surprise)
        np.testing.assert_allclose(pits, ndtr(scores[s, : len(pits)]), atol=1e-3)
    if horizon == 1:  # else errors overlap, and more is known of a label than its own forecast says
        mean = told[:, :, 0].mean(axis=0)
        variance = told[:, :, 1].mean(axis=0) + told[:, :, 0].var(axis=0)
        assert found.mean[0] == pytest.approx(said.mean, abs=1e-4 * said.std)
        np.testing.assert_allclose(found.mean[1:], mean, atol=2e-3 * said.std)
        np.testing.assert_allclose(found.std[1:] ** 2, variance, rtol=5e-3)


def _recorded(drawn, push):
    def record(self, scores):
        drawn.append(scores)
        push(self, scores)

    return record


@pytest.mark.slow
def test_the_fan_of_a_random_walk_opens_from_its_first_step():
    """Four steps ahead the error is that of four shocks; of the next step three of them are known by now."""
    rng, n, h = np.random.default_rng(1), 600, 4
    y = np.cumsum(rng.normal(size=n))
    label = np.append(y[h:], np.full(h, np.nan))
    raw = Series(y[:, None], label, START + np.arange(n) * HOUR, ("y",), "y", delay=h, source="y", horizon=h)
    prepared, _, pipeline = lt.prepare(raw, 0.9, calendar={}, missing=False)
    model = lt.fit("last-label", prepared, pipeline=pipeline)
    found = model.advance(raw).forecast(8, samples=2000)
    # In units of what the model says of four steps.
    np.testing.assert_allclose(found.std / found.std[3], np.sqrt(np.arange(1, 9) / 4), rtol=0.2)
    assert abs(found.mean[0] - y[-1]) < 1.0
    # The paths say the same as the fan.
    np.testing.assert_allclose(found.paths.std(axis=0), found.std, rtol=0.12)
    for level, quantile in found.quantiles.items():
        below = (found.paths <= quantile).mean(axis=0)
        np.testing.assert_allclose(below, level, atol=SE * np.sqrt(level * (1 - level) / 2000))
    # Neighbours on a path are close, as in the stream (0.5); independent ones would be 1.41 apart.
    assert np.diff(found.paths, axis=1).std() < 0.8 * found.std[3]


def test_unknown_measurements_are_those_of_earlier_seasons():
    """The tide goes on as it did, and takes the level with it."""
    rng, n = np.random.default_rng(0), 240
    tide = np.sin(2 * np.pi * np.arange(n) / 24)
    level = np.append(0.0, 2.0 * tide[:-1]) + rng.normal(0, 0.1, n)
    raw = Series(
        np.column_stack([level, tide]),
        np.append(level[1:], np.nan),
        START + np.arange(n) * HOUR,
        ("level", "tide"),
        "level",
        source="level",
        horizon=1,
        period=24,
    )
    found = regression(raw).forecast(48, samples=40)
    assert found.unknown == ("tide",)
    expected = 2.0 * np.sin(2 * np.pi * (n - 1 + np.arange(48)) / 24)
    np.testing.assert_allclose(found.mean, expected, atol=0.15)


def test_labels_from_elsewhere(raw, rls):
    """The label of steps to come; the labels that are not due yet are drawn from their own forecasts."""
    feed = dataclasses.replace(rls.feed, source=None, horizon=0, target="load")
    stream = dataclasses.replace(rls, feed=feed, start=None).stream()
    for i in range(60):
        stream.predict(raw.x[i], time=raw.time[i])
        if i < 59:
            stream.observe(raw.y[i], time=raw.time[i])
    future = {"level": raw.x[60:64, 0], "wind": raw.x[60:64, 1]}
    # One path, one live stream; the label of step 59 is drawn as well, but not part of what is asked for.
    alone = stream.forecast(4, covariates=future, samples=1)
    assert alone.target == "load"
    assert not alone.unknown
    twin, means = stream.copy(), []
    (pending,) = _pending(stream)
    twin.observe(pending, time=raw.time[59])
    for k in range(4):
        means.append(twin.predict(raw.x[60 + k], time=raw.time[60 + k]).mean)
        twin.observe(alone.paths[0, k], time=raw.time[60 + k])
    np.testing.assert_allclose(alone.mean, means, atol=2e-3)


def _pending(stream):
    """The labels that the single path of seed 0 draws for steps whose label is not known."""
    from latenttrack.filtering.forecasting import _Paths

    paths = _Paths(stream, 1, 1, 0)
    paths.draw_pending()
    return [float(drawn[0]) for drawn in paths.labels.values()]


@pytest.mark.slow
def test_the_variance_of_an_autoregression_grows_as_theory_says():
    """Var(y_{n+k}) = v (1 - phi^2k) / (1 - phi^2), with v and phi as the regression has found them."""
    rng, n, H, S = np.random.default_rng(0), 2000, 12, 1000
    y = np.zeros(n)
    for t in range(1, n):
        y[t] = 0.8 * y[t - 1] + rng.normal()
    label = np.append(y[1:], np.nan)
    raw = Series(y[:, None], label, START + np.arange(n) * HOUR, ("y",), "y", delay=1, source="y", horizon=1)
    found = regression(raw).forecast(H, samples=S)
    phi = float(np.polyfit(y[:-1], y[1:], 1)[0])
    error = np.sqrt((1 - phi**2) / n)
    k, v = np.arange(1, H + 1), found.std[0] ** 2

    def theory(phi):
        return v * (1 - phi ** (2 * k)) / (1 - phi**2)

    squares = (found.paths - found.mean) ** 2
    chance = squares.std(axis=0) / np.sqrt(S)
    slack = np.abs(theory(phi + error) - theory(phi))
    assert np.all(np.abs(found.std**2 - theory(phi)) < SE * chance + slack)
    assert np.all(np.abs(squares.mean(axis=0) - theory(phi)) < SE * chance + slack)
    # The mean returns to that of the series at the rate phi.
    middle = float(y.mean())
    expected = middle + (y[-1] - middle) * phi**k
    allowed = SE * found.std / np.sqrt(S) + SE * error * np.abs(y[-1]) * k + SE / np.sqrt(n) / (1 - phi)
    assert np.all(np.abs(found.mean - expected) < allowed)


def test_a_forecast_leaves_the_stream_as_it_is(rls, raw):
    model = dataclasses.replace(rls, start=None)
    stream, _ = live(model, raw.select(np.arange(100)))
    other, _ = live(model, raw.select(np.arange(100)))
    stream.observe(1.5, time=raw.time[97])  # a correction that is not run yet
    other.observe(1.5, time=raw.time[97])
    stream.forecast(5, table(raw, slice(100, 110)), samples=3)
    a, b = (s.predict(raw.x[100], time=raw.time[100]) for s in (stream, other))
    assert a == b
    assert stream.counts == other.counts


def test_same_seed_same_forecast(rls):
    one, two, other = (rls.forecast(6, samples=20, seed=seed) for seed in (4, 4, 5))
    assert np.array_equal(one.paths, two.paths)
    assert np.array_equal(one.mean, two.mean)
    assert not np.array_equal(one.paths, other.paths)
    # Draws are independent: no two paths, and no two steps, share them.
    assert len(np.unique(one.paths)) == one.paths.size


def test_known_covariates_are_used(rls, raw):
    """The level follows the wind with a slope of 2: so does its forecast, where the wind is known."""
    windy = {"time": raw.time[-1] + np.arange(1, 4) * HOUR, "wind": np.full(3, 1.5)}
    calm = {"wind": np.full(3, -1.5)}
    up, down, nothing = (rls.forecast(3, covariates=c, samples=400) for c in (windy, calm, None))
    # The first step was predicted from measurements already.
    assert up.mean[0] == down.mean[0] == nothing.mean[0]
    assert up.mean[1] - down.mean[1] == pytest.approx(6.0, abs=0.6)
    assert nothing.unknown == ("wind",)
    assert not up.unknown
    assert up.std[1] < nothing.std[1] + 0.1


def test_recent_rows_are_taken_in_and_later_ones_are_the_known_future(raw):
    model = regression(raw.select(np.arange(90)))
    whole = model.forecast(4, table(raw, slice(80, 110)), samples=50)
    stream = model.stream()
    for i in range(90, 110):
        stream.predict(raw.x[i], time=raw.time[i])
    assert np.array_equal(whole.paths, stream.forecast(4, samples=50).paths)
    assert np.array_equal(whole.past.y[-20:], raw.x[90:110, 0])
    assert whole.past.time[-1] == raw.time[109]
    # Without their target, the last rows say what the wind will be.
    level = np.where(np.arange(30) < 25, raw.x[80:110, 0], np.nan)
    known = model.forecast(4, table(raw, slice(80, 110), level=level), samples=50)
    assert known.time[0] == raw.time[105]
    assert not known.unknown
    assert known.past.time[-1] == raw.time[104]


def test_a_stream_without_a_clock(raw):
    steps = dataclasses.replace(raw, time=np.arange(len(raw), dtype=float))
    model = regression(steps)
    found = model.forecast(3, {"level": [0.1, 0.2, np.nan], "wind": [0.0, 0.1, 0.3]}, samples=5)
    assert found.time.tolist() == [122.0, 123.0, 124.0]
    assert found.unknown == ("wind",)  # known for one step of two
    assert not model.forecast(2, {"level": [0.1, np.nan], "wind": [0.1, 0.3]}, samples=5).unknown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"steps": 2, "samples": 0}, "samples is 0"),
        ({"steps": 2, "seed": -1}, "seed is -1"),
        ({"steps": 2, "recent": {"time": [START], "level": [1.0]}}, "no column 'wind'"),
        ({"steps": 2, "recent": {"time": [START], "level": [1.0], "wind": [0.0]}}, "before the model's own"),
        ({"steps": 2, "recent": {"level": [1.0], "wind": [0.0]}}, "no column of times"),
        ({"steps": 2, "covariates": {"rain": [1.0]}}, "none of the measurements"),
        ({"steps": 2, "covariates": {"time": [START], "wind": [1.0]}}, "before the first step"),
    ],
)
def test_one_sentence_for_each_mistake(rls, options, words):
    with pytest.raises(lt.LatentTrackError, match=words):
        rls.forecast(**options)


def test_models_that_cannot_forecast(preset, rls, raw):
    with pytest.raises(lt.LatentTrackError, match="seen 0 rows"):
        preset.forecast(2)
    with pytest.raises(lt.LatentTrackError, match="several streams"):
        dataclasses.replace(rls, start=None, record={"file": {"key": "site"}}).forecast(2)
    keyed = dataclasses.replace(rls, record={"file": {"key": "site", "time": ["time"]}})
    later = table(raw, slice(0, 4), time=raw.time[-1] + np.arange(1, 5) * HOUR, site=["a", "a", "b", "b"])
    with pytest.raises(lt.LatentTrackError, match="holds 2 streams"):
        keyed.forecast(2, later)
    task = Task.of(raw)
    two = build_stack(lambda key: build("rls", task, key), jax.random.split(jax.random.key(0), 2))
    with pytest.raises(lt.LatentTrackError, match=r"lt\.pool"):
        dataclasses.replace(rls, stack=two).forecast(2)
    hasty = dataclasses.replace(rls, feed=dataclasses.replace(rls.feed, horizon=3))
    with pytest.raises(lt.LatentTrackError, match="not shorter than the horizon"):
        hasty.forecast(2)
