"""The references, followed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.models.base import observe
from latenttrack.models.components import Gaussian, StudentT
from latenttrack.models.noise import GaussianNoise, StudentTNoise
from latenttrack.models.registry import build
from latenttrack.models.task import Task

EPS = float(np.finfo(np.float32).eps)
NAN = np.nan


def _points(name, labels, delay, **settings):
    """The point forecast of every step; steps have no inputs."""
    tracker = build(name, Task((), delay), jax.random.key(0), **settings)
    state, points, x = tracker.init(), [], jnp.zeros(0)
    for t in range(len(labels)):
        label = labels[t - delay] if t >= delay else NAN
        due = (x, jnp.float32(label), jnp.array(not np.isnan(label)))
        state = observe(tracker, state, due, x)
        points.append(float(tracker.locate(state, x)))
    return points


@pytest.mark.parametrize(
    ("delay", "labels", "expected"),
    [
        (1, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4]),
        (1, [1, NAN, NAN, 4, 5], [0, 1, 1, 1, 4]),
        (3, [1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 2, 3]),
        (3, [1, NAN, 3, 4, 5, 6], [0, 0, 0, 1, 1, 3]),
        (2, [NAN, NAN, 3, 4, 5, 6], [0, 0, 0, 0, 3, 4]),
    ],
)
def test_last_label(delay, labels, expected):
    """The newest label that is known, 0 (the training mean) before there is one."""
    assert _points("last-label", labels, delay) == expected


@pytest.mark.parametrize(
    ("delay", "period", "labels", "expected"),
    [
        (1, 3, [1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 1, 2, 3, 4]),  # last label until a season is known
        (1, 3, [1, NAN, 3, 4, 5, 6, 7], [0, 1, 1, 1, 4, 3, 4]),  # the hole is filled by the last label
        (2, 3, [1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 2, 3, 4]),
        (3, 3, [1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 1, 2, 3, 4]),
        (4, 3, [1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 0, 0, 1, 2, 1, 2]),  # a season ago is not known: two seasons
    ],
)
def test_seasonal_naive(delay, period, labels, expected):
    assert _points("seasonal-naive", labels, delay, period=period) == expected


def test_seasonal_naive_takes_the_period_of_the_task():
    assert build("seasonal-naive", Task(("a",), 1, 24), jax.random.key(0)).lag == 24
    assert build("seasonal-naive", Task(("a",), 30, 24), jax.random.key(0)).lag == 48
    assert build("seasonal-naive", Task(("a",), 5, None), jax.random.key(0)).lag == 5


@pytest.mark.parametrize(
    ("delay", "period", "labels", "expected"),
    [
        # the last label until two labels a season ago are known; then 6 + (3 - 1) / 2, ...
        (1, 3, [1, 3, 4, 6, 5, 9, 9], [0, 1, 3, 4, 7, 5.5, 10]),
        (2, 3, [1, 3, 4, 6, 5, 9, 9], [0, 0, 1, 3, 4, 7.5, 6.5]),
        (4, 3, [1, 3, 4, 6, 5, 9, 9, 7, 8, 9, 7], [0, 0, 0, 0, 1, 3, 4, 6, 5, 9, 11]),  # two seasons back
        # step 4 is missing: step 5 goes on from step 3, by what came in two steps a season ago
        (1, 3, [1, 3, 4, 6, NAN, 9, 9], [0, 1, 3, 4, 7, 7.5, 10]),
        # the two of a season ago are needed
        (1, 3, [1, NAN, 4, 6, 5, 9, 9], [0, 1, 1, 4, 6, 5, 10]),
    ],
)
def test_seasonal_difference(delay, period, labels, expected):
    assert _points("seasonal-difference", labels, delay, period=period, weight=0.5) == expected


@pytest.mark.parametrize("settings", [{"weight": 0.0, "period": 3}, {}])
def test_without_weight_or_season_the_last_label_is_repeated(settings):
    labels = [1, 3, NAN, 6, 5, 9, 9]
    assert _points("seasonal-difference", labels, 2, **settings) == _points("last-label", labels, 2)


def test_a_seasonal_difference_learns_from_the_errors_that_it_made():
    """Its noise has seen y_s - m_s for every label that came, m_s as it was forecast then."""
    delay, labels = 2, jnp.asarray(np.random.default_rng(0).normal(size=20), jnp.float32)
    tracker = build("seasonal-difference", Task((), delay, 3), jax.random.key(0))
    points = _points("seasonal-difference", labels, delay, period=3)
    state, expected, x = tracker.init(), tracker.noise.init(), jnp.zeros(0)
    for t in range(len(labels)):
        if t >= delay:
            state = tracker.update(state, x, labels[t - delay])
            expected = tracker.noise.update(expected, labels[t - delay] - jnp.float32(points[t - delay]))
        state = tracker.advance(state, x)
    np.testing.assert_allclose(state.noise.score, expected.score, rtol=64 * EPS)


def test_climatology_reads_the_clock_alone():
    names = ("temperature", "day_sin1", "day_cos1", "daylight", "week_sin1", "year_cos2", "x_day_sin1")
    assert build("climatology", Task(names), jax.random.key(0)).columns == (1, 2, 4, 5)


def test_gaussian_noise_is_an_exponentially_weighted_variance():
    noise = GaussianNoise(rate=0.25)
    state = noise.init()
    for residual in (2.0, -1.0):
        state = noise.update(state, jnp.float32(residual))
    variance = 0.75 * (0.75 * 1.0 + 0.25 * 4.0) + 0.25 * 1.0
    predictive = noise.around(state, jnp.float32(3.0))
    assert isinstance(predictive.components, Gaussian)
    assert float(predictive.mean) == 3.0
    assert float(predictive.variance) == pytest.approx(variance, rel=8 * EPS)


@pytest.mark.parametrize("df", [3.0, 30.0])
def test_student_t_noise_finds_the_tails(df):
    """After many residuals the weight sits on candidates with about the right df, and the scale is theirs."""
    rng = np.random.default_rng(0)
    residuals = rng.standard_t(df, size=4000).astype(np.float32)
    noise = StudentTNoise(rate=0.005)
    state, _ = jax.jit(lambda r: jax.lax.scan(lambda s, r: (noise.update(s, r), None), noise.init(), r))(
        residuals
    )
    predictive = noise.around(state, jnp.zeros(()))
    assert isinstance(predictive.components, StudentT)
    np.testing.assert_allclose(predictive.weights.sum(), 1.0, rtol=25 * EPS)
    found = float(jnp.sum(predictive.weights * predictive.components.df))
    assert found < 6 if df == 3.0 else found > 8
    # at the centre of the distribution, where scale and df together show
    truth = rng.standard_t(df, size=200_000)
    for q in (0.25, 0.75):
        assert float(predictive.cdf(jnp.float32(np.quantile(truth, q)))) == pytest.approx(q, abs=0.05)
