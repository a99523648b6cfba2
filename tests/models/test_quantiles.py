"""Quantiles of several levels at once: against `quantile`, which takes them one by one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from latenttrack.models.components import Gaussian, StudentT, _log_gamma_step, join, student_t_cdf
from latenttrack.models.ladder import start_quantiles
from latenttrack.models.levels import bracket_levels
from latenttrack.models.predictive import Predictive
from latenttrack.models.transformed import Curve, TransformedPredictive, fit_transform
from latenttrack.models.warped import Warped

LEVELS = jnp.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
EPS = float(jnp.finfo(jnp.float32).eps)
K = 30


def _mixture(rng: np.random.Generator, spread: float, narrow: float) -> Predictive:
    """Normal and Student-t components; locations `spread` apart, scales from `narrow` to 1."""

    def draw(low: float, high: float) -> jax.Array:
        return jnp.asarray(rng.uniform(low, high, K), jnp.float32)

    gaussian = Gaussian(spread * draw(-1, 1), jnp.exp(draw(np.log(narrow), 0.0)))
    student = StudentT(spread * draw(-1, 1), jnp.exp(draw(np.log(narrow), 0.0)), draw(2.5, 30.0))
    log_weights = jax.nn.log_softmax(jnp.concatenate([draw(-3, 0), draw(-3, 0)]))
    return Predictive(join([gaussian, student]), log_weights)


def _knots(rng: np.random.Generator) -> jax.Array:
    shares = rng.dirichlet(np.full(20, 5.0))
    return jnp.asarray(np.concatenate([[0.0], np.cumsum(shares)]) / shares.sum(), jnp.float32)


@eqx.filter_jit
def _both(forecast: Predictive) -> tuple[jax.Array, ...]:
    mixture = forecast
    while type(mixture) is not Predictive:
        mixture = mixture.base
    found, exact = forecast.quantiles(LEVELS), jax.vmap(forecast.quantile)(LEVELS)
    densities = jnp.exp(jax.vmap(forecast.log_prob)(exact))
    return found, exact, densities, jnp.min(mixture.components.scale), jnp.sqrt(forecast.variance)


def _check(forecast: Predictive, *, unit: float = 1.0, bound: float | None = None) -> None:
    """Within the promised bound: 2e-4 of the smallest scale, and rounding of F and of y."""
    found, exact, densities, scale, sd = (np.asarray(a, np.float64) for a in _both(forecast))
    rounding = 1e-6 / densities + 16 * EPS * np.abs(exact)
    assert np.all(np.abs(found - exact) <= 2e-4 * unit * scale + rounding)
    if bound is not None:
        assert np.all(np.abs(found - exact) <= bound * sd)


@pytest.mark.parametrize("seed", range(12))
def test_ordinary_mixtures_to_a_ten_thousandth_of_the_standard_deviation(seed):
    rng = np.random.default_rng(seed)
    _check(_mixture(rng, spread=1.0, narrow=0.3), bound=1e-4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("spread", [30.0, 1000.0])
@pytest.mark.parametrize("narrow", [0.1, 1e-4])
def test_separated_components_and_tiny_scales_cost_rounds_not_digits(seed, spread, narrow):
    _check(_mixture(np.random.default_rng(seed), spread, narrow))


@pytest.mark.parametrize("seed", range(6))
def test_a_plateau_between_two_far_components(seed):
    """Where F says nothing, any point of the plateau will do: it is judged by its probability."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.2, 0.8)
    scale = 10.0 ** rng.uniform(-4, 0)
    forecast = Predictive(
        Gaussian(jnp.array([-50.0, 50.0]), jnp.full(2, scale, jnp.float32)),
        jnp.log(jnp.array([share, 1.0 - share], jnp.float32)),
    )
    levels = jnp.array([0.05, share, 0.95], jnp.float32)
    found = jax.jit(lambda q: forecast.quantiles(q))(levels)
    assert np.all(np.isfinite(found))
    # A step of y moves F by its density, at most 0.4 / scale.
    slack = 1e-6 + 0.4 * (2e-4 + 16 * EPS * 50.0 / scale)
    np.testing.assert_allclose(jax.vmap(forecast.cdf)(found), levels, atol=slack)


@pytest.mark.parametrize("seed", range(6))
def test_warped_forecasts(seed):
    rng = np.random.default_rng(seed)
    _check(Warped.of(_mixture(rng, spread=1.0, narrow=0.3), _knots(rng)), bound=1e-4)


@pytest.mark.parametrize(("kind", "warped"), [("sqrt", False), ("log", True)])
def test_transformed_forecasts(kind, warped):
    rng = np.random.default_rng(5)
    labels = rng.gamma(3.0, 10.0, 500)
    curve = Curve(**fit_transform(kind, labels, labels.mean(), labels.std()))
    base = _mixture(rng, spread=0.5, narrow=0.3)
    forecast = TransformedPredictive.of(Warped.of(base, _knots(rng)) if warped else base, curve)
    u = jax.vmap(forecast.base.quantile)(LEVELS)
    _check(forecast, unit=float(jnp.max(curve.label_slope(u))))


def test_equal_components_and_one_component():
    for loc, scale in ((0.0, 1.0), (1e3, 1e-2)):
        one = Predictive.equal(Gaussian(jnp.full(3, loc, jnp.float32), jnp.full(3, scale, jnp.float32)))
        expected = loc + scale * special.ndtri(np.asarray(LEVELS, np.float64))
        np.testing.assert_allclose(one.quantiles(LEVELS), expected, atol=1e-4 * scale + 16 * EPS * loc)


@pytest.mark.parametrize("seed", range(8))
def test_the_bracket_holds_every_quantile_and_the_start_lies_near(seed):
    rng = np.random.default_rng(seed)
    mixture = _mixture(rng, spread=10.0 ** rng.uniform(-1, 2), narrow=0.05)
    sd = jnp.sqrt(mixture.variance)
    exact = jax.jit(jax.vmap(mixture.quantile))(LEVELS)
    low, high = bracket_levels(LEVELS, mixture.mean, sd)
    assert np.all((low <= exact) & (exact <= high))
    assert np.all(np.abs(start_quantiles(mixture.ladder(), LEVELS) - exact) < sd)


def test_quantiles_rise_with_their_levels():
    mixture = _mixture(np.random.default_rng(3), spread=3.0, narrow=0.2)
    found = jax.jit(lambda q: mixture.quantiles(q))(jnp.linspace(0.001, 0.999, 300, dtype=jnp.float32))
    assert np.all(np.diff(found) > 0)


def test_quantiles_of_many_forecasts_at_once():
    forecasts = [_mixture(np.random.default_rng(seed), spread=1.0, narrow=0.3) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *forecasts)
    together = jax.jit(jax.vmap(lambda forecast: forecast.quantiles(LEVELS)))(stacked)
    for alone, found in zip(forecasts, together, strict=True):
        np.testing.assert_allclose(found, alone.quantiles(LEVELS), atol=1e-4)


def test_a_forecast_that_is_not_a_number_ends_the_search():
    broken = Predictive.equal(Gaussian(jnp.array([jnp.nan, 0.0]), jnp.ones(2)))
    assert not np.any(np.isfinite(broken.quantiles(LEVELS)))


def test_the_step_of_log_gamma():
    a = np.concatenate([np.linspace(1.0, 20.0, 400), 10.0 ** np.linspace(1.5, 3.0, 50)]).astype(np.float32)
    expected = special.gammaln(a.astype(np.float64) + 0.5) - special.gammaln(a.astype(np.float64))
    np.testing.assert_allclose(_log_gamma_step(jnp.asarray(a)), expected, atol=8 * EPS)


def test_the_student_t_distribution_function_has_its_density_as_slope_everywhere():
    u = jnp.array([-1e20, -5.0, -1e-3, 0.0, 1e-8, 0.7, 5.0, 1e20])
    for df in (2.1, 4.0, 30.0, 1e4):
        slope = jax.vmap(jax.grad(student_t_cdf), in_axes=(0, None))(u, jnp.float32(df))
        density = jax.vmap(lambda y, df=df: StudentT(*jnp.array([[0.0], [1.0], [df]])).log_prob(y)[0])(u)
        np.testing.assert_allclose(slope, jnp.exp(density), atol=1e-5)
