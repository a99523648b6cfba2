"""Scores against scoringrules, scipy and numerical integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scoringrules as sr
from scipy import integrate, stats

from latenttrack.evaluation.records import FIELDS
from latenttrack.evaluation.scores import Scores, crps, score
from latenttrack.models.components import Gaussian, StudentT
from latenttrack.models.predictive import Predictive

EPS = float(np.finfo(np.float32).eps)
_crps = jax.jit(crps)


def _mixture(K, seed, spread=2.0, df=None):
    rng = np.random.default_rng(seed)
    loc = spread * rng.normal(size=K)
    scale = np.exp(0.5 * rng.normal(size=K))
    weights = rng.dirichlet(np.ones(K))
    arrays = [jnp.asarray(a, jnp.float32) for a in (loc, scale)]
    components = Gaussian(*arrays) if df is None else StudentT(*arrays, jnp.full(K, df, jnp.float32))
    return Predictive(components, jnp.asarray(np.log(weights), jnp.float32))


def _arrays(predictive):
    c = predictive.components
    return (
        np.asarray(c.loc, float),
        np.asarray(c.scale, float),
        np.exp(np.asarray(predictive.log_weights, float)),
    )


@pytest.mark.parametrize("K", [1, 2, 3, 7, 32])
def test_gaussian_mixture_scores_are_those_of_scoringrules(K):
    """CRPS: a sum of K^2 / 2 pairs nearly cancels the first half, with roundings of the size of E|Y - y|."""
    for seed in range(3):
        predictive = _mixture(K, seed)
        loc, scale, weights = _arrays(predictive)
        for y in (-5.0, 0.3, 8.0):
            expected = sr.crps_mixnorm(y, loc, scale, weights)
            slack = 32 * EPS * (np.abs(loc).max() + scale.max() + abs(y))
            assert float(_crps(predictive, jnp.float32(y))) == pytest.approx(expected, abs=slack)
            nll = sr.logs_mixnorm(y, loc, scale, weights)
            assert -float(predictive.log_prob(jnp.float32(y))) == pytest.approx(
                nll, rel=64 * EPS, abs=16 * EPS
            )


def test_one_gaussian_has_the_closed_form():
    predictive = Predictive.equal(Gaussian(jnp.array([1.0]), jnp.array([2.0])))
    assert float(_crps(predictive, jnp.float32(3.0))) == pytest.approx(
        sr.crps_normal(3.0, 1.0, 2.0), rel=16 * EPS
    )


@pytest.mark.parametrize("df", [2.5, 4.0, 30.0])
def test_one_student_t_has_the_closed_form(df):
    """Simpson's rule on 256 cells and float32 sums of as many terms."""
    predictive = Predictive.equal(StudentT(jnp.array([1.0]), jnp.array([2.0]), jnp.array([df])))
    for y in (-4.0, 1.2, 9.0):
        expected = sr.crps_t(y, df, 1.0, 2.0)
        assert float(_crps(predictive, jnp.float32(y))) == pytest.approx(
            expected, abs=256 * EPS * (abs(y) + 4)
        )


@pytest.mark.parametrize("df", [2.5, 4.0, 30.0])
@pytest.mark.parametrize("K", [2, 9])
def test_student_t_mixture_crps_is_the_integral(K, df):
    """int (F(u) - 1{u >= y})^2 du in double precision."""
    predictive = _mixture(K, seed=K, df=df)
    loc, scale, weights = _arrays(predictive)
    y = 0.7

    def cdf(u):
        return np.sum(weights * stats.t.cdf((u - loc) / scale, df))

    below = integrate.quad(lambda u: cdf(u) ** 2, -np.inf, y, epsabs=1e-9, limit=400)[0]
    above = integrate.quad(lambda u: (1 - cdf(u)) ** 2, y, np.inf, epsabs=1e-9, limit=400)[0]
    slack = 256 * EPS * (np.abs(loc).max() + scale.max() + abs(y))
    assert float(_crps(predictive, jnp.float32(y))) == pytest.approx(below + above, abs=2 * slack)


def test_crps_of_a_nearly_certain_forecast_is_the_absolute_error():
    predictive = Predictive.equal(Gaussian(jnp.zeros(4), jnp.full(4, 1e-4)))
    assert float(_crps(predictive, jnp.float32(2.5))) == pytest.approx(2.5, abs=1e-4)


@pytest.mark.parametrize("df", [None, 5.0], ids=["gaussian", "student-t"])
def test_all_fields_of_a_score(df):
    predictive, y = _mixture(5, 0, df=df), 0.4
    found = jax.jit(score)(predictive, jnp.float32(y))
    assert found._fields == Scores._fields == FIELDS
    loc, scale, weights = _arrays(predictive)
    parts = stats.norm(loc, scale) if df is None else stats.t(df, loc, scale)
    assert float(found.mean) == pytest.approx(np.sum(weights * loc), abs=32 * EPS)
    assert float(found.squared_error) == pytest.approx((np.sum(weights * loc) - y) ** 2, abs=64 * EPS)
    assert float(found.nll) == pytest.approx(-np.log(np.sum(weights * parts.pdf(y))), abs=64 * EPS)
    assert float(found.pit) == pytest.approx(np.sum(weights * parts.cdf(y)), abs=1e-6)
    assert float(found.aleatoric) == pytest.approx(np.sum(weights * parts.var()), rel=32 * EPS)
    for place, level in ((found.lower, 0.05), (found.upper, 0.95)):
        assert np.sum(weights * parts.cdf(float(place))) == pytest.approx(level, abs=1e-5)


def test_the_pit_of_the_truth_is_uniform_and_its_score_is_best():
    """Labels drawn from the forecast: uniform PIT; a shifted or widened forecast scores worse on average."""
    n = 4000
    predictive = _mixture(3, 1)
    labels = jax.vmap(predictive.sample)(jax.random.split(jax.random.key(0), n))
    pit = np.asarray(jax.jit(jax.vmap(predictive.cdf))(labels))
    assert stats.kstest(pit, "uniform").pvalue > 1e-3
    each = jax.jit(jax.vmap(crps, in_axes=(None, 0)))
    own = np.asarray(each(predictive, labels))
    for other in (
        predictive.affine(jnp.float32(0.5), jnp.float32(1.0)),
        predictive.affine(jnp.float32(0), jnp.float32(1.5)),
    ):
        worse = np.asarray(each(other, labels)) - own
        assert worse.mean() > 3 * worse.std() / np.sqrt(n)
