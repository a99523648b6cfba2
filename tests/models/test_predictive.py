"""Properties of the forecast, against scipy in double precision, over random mixtures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from latenttrack.models.components import Gaussian, StudentT
from latenttrack.models.predictive import Predictive

EPS = float(np.finfo(np.float32).eps)
K = 4
# Of the t distribution function: a closed form in single precision, a few roundings. Eight of them near 1.
CDF_ERROR = 8 * EPS


def _floats(low, high):
    return st.floats(low, high, width=32, allow_subnormal=False)


@st.composite
def mixtures(draw, family=None, far=50.0, log_scale=(-6.0, 3.0)):
    """K components with random places, scales and weights; scales over four orders of magnitude."""
    family = family or draw(st.sampled_from(["gaussian", "student-t"]))
    loc = np.array(draw(st.lists(_floats(-far, far), min_size=K, max_size=K)), np.float32)
    scale = np.exp(draw(st.lists(_floats(*log_scale), min_size=K, max_size=K))).astype(np.float32)
    logits = np.array(draw(st.lists(_floats(-5, 5), min_size=K, max_size=K)))
    df = np.array(draw(st.lists(_floats(2.25, 60), min_size=K, max_size=K)), np.float32)
    log_weights = (logits - np.logaddexp.reduce(logits)).astype(np.float32)
    loc, scale, df, log_weights = (jnp.asarray(a) for a in (loc, scale, df, log_weights))
    return Predictive(Gaussian(loc, scale) if family == "gaussian" else StudentT(loc, scale, df), log_weights)


def exact(predictive):
    """(weights, frozen scipy distributions of the components), in double precision."""
    c = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), predictive.components)
    weights = np.exp(np.asarray(predictive.log_weights, np.float64))
    if isinstance(c, Gaussian):
        return weights, stats.norm(c.loc, c.scale)
    return weights, stats.t(c.df, c.loc, c.scale)


def exact_cdf(predictive, y):
    weights, parts = exact(predictive)
    return float(np.sum(weights * parts.cdf(np.float64(y))))


_cdf = jax.jit(lambda p, y: p.cdf(y))
_cdfs = jax.jit(jax.vmap(lambda p, y: p.cdf(y), in_axes=(None, 0)))
_log_prob = jax.jit(lambda p, y: p.log_prob(y))
_interval = jax.jit(lambda p, level: p.interval(level), static_argnums=1)
_affine = jax.jit(lambda p, loc, scale: p.affine(loc, scale))
_mean_distance = jax.jit(lambda p, y: p.components.mean_distance(y))
_quantile = jax.jit(lambda p, q: p.quantile(q))
_moments = jax.jit(lambda p: (p.mean, p.aleatoric, p.epistemic, p.variance))


@given(mixtures(), st.lists(_floats(-200, 200), min_size=16, max_size=16))
def test_cdf_is_a_distribution_function(predictive, places):
    places = np.sort(np.array(places, np.float32))
    values = np.asarray(_cdfs(predictive, places))
    assert (values >= 0).all()
    assert (values <= 1 + K * EPS).all()
    assert (np.diff(values) >= -CDF_ERROR).all()
    np.testing.assert_allclose(values, [exact_cdf(predictive, y) for y in places], atol=CDF_ERROR)


@given(mixtures(), _floats(-100, 100))
def test_log_prob_matches_scipy_even_in_the_far_tails(predictive, y):
    weights, parts = exact(predictive)
    expected = np.logaddexp.reduce(np.log(weights) + parts.logpdf(np.float64(y)))
    # u = (y - loc) / scale carries two roundings, and u^2 doubles them.
    np.testing.assert_allclose(_log_prob(predictive, np.float32(y)), expected, rtol=16 * EPS, atol=64 * EPS)


@given(mixtures(), _floats(2**-13, 1 - 2**-13))
@settings(max_examples=150)
def test_quantile_inverts_the_cdf(predictive, q):
    """Within the resolution of y the exact distribution function crosses q, up to the error of `cdf`."""
    y = float(_quantile(predictive, np.float32(q)))
    reach = 4 * EPS * abs(y) + 4e-6 * float(np.min(predictive.components.scale))
    assert exact_cdf(predictive, y - reach) <= q + CDF_ERROR
    assert exact_cdf(predictive, y + reach) >= q - CDF_ERROR


@pytest.mark.parametrize("q", [0.05, 0.25, 0.4999, 0.5001, 0.75, 0.95])
@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0])
def test_quantile_crosses_a_plateau(scale, q):
    """Two spikes 1e4 scales apart: between them the density underflows, and Newton alone would be lost."""
    predictive = Predictive.equal(Gaussian(jnp.array([-50.0, 50.0]), jnp.full(2, scale, jnp.float32)))
    y = float(_quantile(predictive, jnp.float32(q)))
    side = -50.0 if q < 0.5 else 50.0
    expected = stats.norm.ppf(2 * q if q < 0.5 else 2 * q - 1, side, scale)
    # dy = dq / density: at q = 0.4999 the density is low, so that the rounding of cdf near 1/2 moves y.
    slack = 4 * EPS / (0.5 * stats.norm.pdf(expected, side, scale)) + 4 * EPS * 50 + 1e-5 * scale
    assert y == pytest.approx(expected, abs=slack)


@given(mixtures(), st.sampled_from([0.05, 0.5, 0.9, 0.99]))
def test_interval_holds_its_level(predictive, level):
    lower, upper = _interval(predictive, level)
    assert lower < upper or float(np.min(predictive.components.scale)) < EPS * abs(float(lower)) * 8
    assert float(_cdf(predictive, lower)) == pytest.approx((1 - level) / 2, abs=_steepness(predictive, lower))
    assert float(_cdf(predictive, upper)) == pytest.approx((1 + level) / 2, abs=_steepness(predictive, upper))


def _steepness(predictive, y):
    """How far the cdf may move between neighbouring floats around y, plus its own error."""
    reach = 4 * EPS * abs(float(y)) + 4e-6 * float(np.min(predictive.components.scale))
    return exact_cdf(predictive, float(y) + reach) - exact_cdf(predictive, float(y) - reach) + 2 * CDF_ERROR


@given(mixtures())
def test_the_law_of_total_variance(predictive):
    """total = aleatoric + epistemic == second moment minus squared mean, in double precision."""
    mean, aleatoric, epistemic, variance = (float(v) for v in _moments(predictive))
    weights, parts = exact(predictive)
    weights = weights / weights.sum()
    centre = np.sum(weights * parts.mean())
    second = np.sum(weights * (parts.var() + parts.mean() ** 2))
    size = np.abs(parts.mean()).max() + parts.std().max()
    assert variance == pytest.approx(aleatoric + epistemic, rel=2 * EPS)
    assert mean == pytest.approx(centre, abs=16 * EPS * size)
    # df - 2 loses digits near df = 2; everything else is a sum of K terms.
    assert variance == pytest.approx(second - centre**2, rel=64 * EPS, abs=64 * EPS * size**2)
    assert epistemic >= 0
    assert aleatoric > 0


@given(mixtures(far=5.0, log_scale=(-3.0, 1.5)))
@settings(max_examples=25)
def test_density_integrates_to_the_cdf(predictive):
    """Over [a, b], trapezia of exp(log_prob) == cdf(b) - cdf(a); and [a, b] holds nearly everything."""
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), predictive)
        c = wide.components
        pieces = np.asarray(c.loc)[:, None] + np.asarray(c.scale)[:, None] * np.linspace(-12, 12, 4001)
        y = np.sort(pieces.ravel())
        density = np.exp(_vmapped_log_prob(wide, y))
        area = np.sum(0.5 * (density[1:] + density[:-1]) * np.diff(y))
        ends = np.asarray(_cdfs(wide, y[[0, -1]]))
    # Cells are at most 6e-3 of the scale that rules there: h^2 / 12 max|f''| x 24 scales < 1e-4 of the area.
    assert area == pytest.approx(ends[1] - ends[0], abs=1e-4)
    assert ends[0] < 0.02
    assert ends[1] > 0.98


_vmapped_log_prob = jax.jit(jax.vmap(lambda p, y: p.log_prob(y), in_axes=(None, 0)))


@given(mixtures(), _floats(-30, 30), _floats(0.0625, 30), _floats(-20, 20))
def test_affine_is_a_change_of_units(predictive, loc, scale, y):
    moved = _affine(predictive, np.float32(loc), np.float32(scale))
    weights, parts = exact(moved)
    m, a, e, _ = (float(v) for v in _moments(predictive))
    m2, a2, e2, _ = (float(v) for v in _moments(moved))
    size = np.abs(parts.mean()).max() + scale * np.abs(np.asarray(predictive.components.loc)).max() + abs(loc)
    assert m2 == pytest.approx(loc + scale * m, abs=32 * EPS * size)
    assert a2 == pytest.approx(scale**2 * a, rel=64 * EPS)
    assert e2 == pytest.approx(scale**2 * e, rel=64 * EPS, abs=64 * EPS * size**2)
    # densities: p'(loc + scale y) = p(y) / scale, both in double precision from the rounded parameters
    old_weights, old_parts = exact(predictive)
    place = loc + scale * np.float64(y)
    new = np.logaddexp.reduce(np.log(weights) + parts.logpdf(place))
    old = np.logaddexp.reduce(np.log(old_weights) + old_parts.logpdf(np.float64(y)))
    u = np.abs((place - parts.mean()) / parts.kwds.get("scale", parts.args[-1])).min()
    shift = EPS * size / (scale * float(np.min(predictive.components.scale)))  # rounding of loc, in scales
    assert new == pytest.approx(
        old - np.log(scale), abs=1e-5 + 4 * (u + 1) * (shift + EPS * (u + 1)) + 4 * shift**2
    )


def test_one_component_is_that_component():
    for component in (
        Gaussian(jnp.array([0.3]), jnp.array([1.7])),
        StudentT(jnp.array([0.3]), jnp.array([1.7]), jnp.array([5.0])),
    ):
        predictive, y = Predictive.equal(component), jnp.float32(-0.8)
        assert float(predictive.log_weights[0]) == 0.0
        np.testing.assert_allclose(predictive.log_prob(y), component.log_prob(y)[0], rtol=2 * EPS)
        np.testing.assert_allclose(predictive.cdf(y), component.cdf(y)[0], rtol=2 * EPS)
        np.testing.assert_allclose(predictive.mean, component.loc[0])
        np.testing.assert_allclose(predictive.variance, component.variance()[0])
        assert float(predictive.epistemic) == 0.0


def test_equal_weights_give_the_papers_moments():
    """mean = mean of means, aleatoric = mean of variances, epistemic = variance of means."""
    loc, scale = np.array([1.0, 2.0, 6.0], np.float32), np.array([0.5, 1.0, 2.0], np.float32)
    predictive = Predictive.equal(Gaussian(jnp.asarray(loc), jnp.asarray(scale)))
    np.testing.assert_allclose(predictive.mean, 3.0, rtol=4 * EPS)
    np.testing.assert_allclose(predictive.aleatoric, 1.75, rtol=4 * EPS)
    np.testing.assert_allclose(predictive.epistemic, 14.0 / 3.0, rtol=8 * EPS)


@pytest.mark.parametrize(
    "components",
    [
        Gaussian(jnp.array([-2.0, 0.5, 3.0]), jnp.array([0.3, 1.0, 0.1])),
        StudentT(jnp.array([-2.0, 0.5, 3.0]), jnp.array([0.3, 1.0, 0.1]), jnp.array([9.0, 12.0, 30.0])),
    ],
    ids=["gaussian", "student-t"],
)
def test_samples_follow_the_cdf(components):
    n = 20_000
    predictive = Predictive(components, jnp.log(jnp.array([0.2, 0.5, 0.3])))
    draws = np.asarray(
        jax.jit(jax.vmap(predictive.sample))(jax.random.split(jax.random.key(0), n)), np.float64
    )
    assert abs(draws.mean() - float(predictive.mean)) < 5 * draws.std() / np.sqrt(n)
    square = (draws - float(predictive.mean)) ** 2
    assert abs(square.mean() - float(predictive.variance)) < 5 * square.std() / np.sqrt(n)
    uniform = np.asarray(_cdfs(predictive, jnp.asarray(draws, jnp.float32)))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


@given(_floats(-300, 300), _floats(2.015625, 1000))
@settings(max_examples=300)
def test_student_t_cdf_matches_scipy(u, df):
    components = StudentT(jnp.zeros(1), jnp.ones(1), jnp.full(1, df, jnp.float32))
    found = float(_component_cdf(components, np.float32(u))[0])
    assert found == pytest.approx(
        stats.t.cdf(np.float64(np.float32(u)), np.float64(np.float32(df))), abs=CDF_ERROR
    )


_component_cdf = jax.jit(lambda c, y: c.cdf(y))


@given(mixtures(), _floats(-60, 60))
def test_mean_distance_is_the_expected_absolute_error(predictive, y):
    """E|Y - y| = E(Y - y)_+ + E(y - Y)_+, here by scipy's own closed forms in double precision."""
    y = np.float64(np.float32(y))
    c = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), predictive.components)
    u = (y - c.loc) / c.scale
    if isinstance(c, Gaussian):
        expected = c.scale * (u * (2 * stats.norm.cdf(u) - 1) + 2 * stats.norm.pdf(u))
    else:
        density = stats.t.pdf(u, c.df)
        expected = c.scale * (u * (2 * stats.t.cdf(u, c.df) - 1) + 2 * density * (c.df + u**2) / (c.df - 1))
    found = _mean_distance(predictive, np.float32(y))
    np.testing.assert_allclose(found, expected, rtol=64 * EPS, atol=4 * CDF_ERROR * np.abs(y - c.loc).max())


@pytest.mark.parametrize("df", [2.5, 6.0, 30.0, 200.0])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 50.0])
def test_the_shape_of_a_student_t_is_as_exact_as_it_says(df, scale):
    part = StudentT(jnp.array([0.3]), jnp.array([scale]), jnp.array([df]))
    y = (0.3 + scale * np.linspace(-8.0, 8.0, 2001)).astype(np.float32)
    u = (y.astype(float) - float(part.loc[0])) / float(part.scale[0])
    exact = (1.0 + u**2 / df) ** (-0.5 * (df + 1.0))
    shape = np.asarray(jax.vmap(part.shape)(jnp.asarray(y)))[:, 0]
    known = exact > 1e-20
    assert np.all(np.abs(shape / exact - 1.0)[known] < 3e-7 * (df + 1.0))
