"""Target transforms: the curve is a bijection, and the forecast on the other side of it is a forecast."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import latenttrack as lt
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.scores import crps, half_spread, score
from latenttrack.filtering.offline import filter_series
from latenttrack.models.components import Gaussian, StudentT, join
from latenttrack.models.predictive import Predictive
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task
from latenttrack.models.transformed import Curve, Transformed, TransformedPredictive, fit_transform
from latenttrack.models.warped import Warped
from latenttrack.training.fit import train
from latenttrack.training.settings import Training

EPS = float(np.finfo(np.float32).eps)
B = 20
FORWARD = {"sqrt": np.sqrt, "log": np.log}
SLOPE = {"sqrt": lambda q: 0.5 / np.sqrt(q), "log": lambda q: 1 / q}
INVERSE = {"sqrt": np.square, "log": np.exp}


def _f32(values):
    return jnp.asarray(values, jnp.float32)


def _labels(n=5000, seed=1):
    """Skewed, whole numbers, one in twelve 0."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 1 / 12, 0.0, np.ceil(rng.gamma(1.2, 100.0, n)))


def _curve(kind, labels=None):
    labels = _labels() if labels is None else labels
    return Curve(**fit_transform(kind, labels, labels.mean(), labels.std()))


def _inner(curve, y):
    """The definition, in double precision."""
    v = curve.loc + curve.scale * np.asarray(y, float)
    within = np.clip(v, curve.low, curve.high)
    q = within - curve.low + curve.offset
    return (FORWARD[curve.kind](q) + SLOPE[curve.kind](q) * (v - within) - curve.centre) / curve.spread


def _label(curve, u):
    """The inverse of the definition, in double precision."""
    g = curve.centre + curve.spread * np.asarray(u, float)
    ends = [FORWARD[curve.kind](v - curve.low + curve.offset) for v in (curve.low, curve.high)]
    within = np.clip(g, *ends)
    q = INVERSE[curve.kind](within)
    v = curve.low - curve.offset + q + (g - within) / SLOPE[curve.kind](q)
    return (v - curve.loc) / curve.scale


@pytest.fixture(params=["sqrt", "log"])
def curve(request):
    return _curve(request.param)


def test_the_curve_is_what_it_says_and_leads_back(curve):
    """From far below `low` to far above `high`; the smallest distance from `low` has 1e-5 of its digits."""
    ends = np.array([curve.low, curve.high])
    y = (np.concatenate([np.linspace(-3000, 9000, 401), _labels()[:200], ends]) - curve.loc) / curve.scale
    u = curve.to_inner(_f32(y))
    np.testing.assert_allclose(u, _inner(curve, _f32(y)), rtol=32 * EPS, atol=1e-5)
    np.testing.assert_allclose(curve.to_label(u), _f32(y), rtol=64 * EPS, atol=64 * EPS)
    np.testing.assert_allclose(curve.label_slope(u), np.exp(-curve.log_slope(_f32(y))), rtol=1e-4)
    assert (np.diff(np.asarray(curve.to_inner(_f32(np.sort(y))))) >= 0).all()


def test_the_jacobian_is_the_derivative_and_goes_on_along_the_tangent(curve):
    y = (np.linspace(-3000, 9000, 401) - curve.loc) / curve.scale
    h, (low, high) = 1e-6, (np.array([curve.low, curve.high]) - curve.loc) / curve.scale
    slopes = np.asarray(curve.log_slope(_f32(y)))
    numerical = (_inner(curve, y + h) - _inner(curve, y - h)) / (2 * h)
    np.testing.assert_allclose(np.exp(slopes), numerical, rtol=1e-4)
    assert np.ptp(slopes[y < low]) == np.ptp(slopes[y > high]) == 0
    assert np.isnan(curve.to_inner(_f32(np.nan)))


def test_a_transform_is_fitted_to_labels(curve):
    labels = _labels()
    u = _inner(curve, (labels - curve.loc) / curve.scale)
    assert abs(u.mean()) < 1e-9
    assert u.std() == pytest.approx(1.0)
    assert abs(stats.skew(u)) < 0.6 * abs(stats.skew(labels))
    assert (curve.low, curve.high) == (0.0, 2 * labels.max())


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1.0, 1e9])
def test_units_do_not_matter(unit):
    labels = _labels()
    y = _f32((labels - labels.mean()) / labels.std())
    one, other = _curve("log", labels), _curve("log", unit * labels)
    np.testing.assert_allclose(other.to_inner(y), one.to_inner(y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("labels", "low", "smallest", "largest"),
    [
        (np.random.default_rng(0).poisson(2.0, 4000), 0.0, 1.0, 1.0),  # as log1p
        (np.random.default_rng(0).poisson(0.3, 4000), 0.0, 1.0, 1.0),  # most are 0
        (np.random.default_rng(0).lognormal(-3, 1, 4000), 0.0, 2e-4, 1e-3),  # small and positive
        (np.append(np.random.default_rng(0).uniform(100, 200, 4000), 0.0), 0.0, 1.4, 1.6),  # one broken value
        (np.random.default_rng(0).exponential(1.0, 4000) - 1e-9, 0.0, 5e-3, 1e-2),  # 0 but for rounding
        (np.random.default_rng(0).exponential(1.0, 4000) - 5, -5.0, 5e-3, 1e-2),
    ],
    ids=["counts", "rare counts", "small", "one zero", "rounding", "negative"],
)
def test_the_offset_suits_what_is_next_to_low(labels, low, smallest, largest):
    fitted = fit_transform("log", np.append(labels, np.nan), float(labels.mean()), float(labels.std()))
    assert fitted["low"] == pytest.approx(low, abs=1e-3)
    assert smallest <= fitted["offset"] <= largest


def test_labels_without_a_transform_are_refused():
    for labels in (np.full(9, 3.0), np.full(9, np.nan)):
        with pytest.raises(LatentTrackError, match="leave the transform out"):
            fit_transform("log", labels, 0.0, 1.0)
    with pytest.raises(LatentTrackError, match="did you mean 'sqrt'"):
        fit_transform("sqr", _labels(), 0.0, 1.0)


def _mixtures():
    """Forecasts of u as a good tracker makes them, one that is unsure, and one with a few wild components."""
    rng = np.random.default_rng(0)
    loc, scale = 0.1 * rng.normal(size=8), 0.3 * np.exp(0.2 * rng.normal(size=8))
    wide = StudentT(_f32([1.0, -1.0]), _f32([0.9, 0.6]), _f32([6.0, 10.0]))
    low = Gaussian(_f32(loc - 1.2), _f32(scale))
    return {
        "gaussian": Predictive.equal(Gaussian(_f32(loc), _f32(scale))),
        "student-t": Predictive.equal(StudentT(_f32(loc + 0.8), _f32(0.8 * scale), _f32(np.full(8, 6.0)))),
        "unsure": Predictive.equal(Gaussian(_f32(3 * loc), _f32(3 * scale))),
        "joined": Predictive(join([low, wide]), _f32(np.log([0.115] * 8 + [0.04] * 2))),
    }


MIXTURES = _mixtures()
_SKEWED = 1 + 0.6 * np.linspace(-1, 1, B)
WARPS = {"plain": None, "warped": _f32(np.concatenate([[0.0], np.cumsum(_SKEWED) / _SKEWED.sum()]))}


CASES = {
    "sqrt": ("gaussian", "plain", "sqrt"),
    "log": ("student-t", "plain", "log"),
    "unsure": ("unsure", "plain", "log"),
    "warped": ("joined", "warped", "sqrt"),
    "warped-log": ("gaussian", "warped", "log"),
}


def _base(name, warp):
    return MIXTURES[name] if WARPS[warp] is None else Warped.of(MIXTURES[name], WARPS[warp])


@pytest.fixture(scope="module", params=CASES)
def forecast(request):
    name, warp, kind = CASES[request.param]
    return _of(_base(name, warp), _curve(kind))


_of = eqx.filter_jit(TransformedPredictive.of)
_functions = eqx.filter_jit(jax.vmap(lambda f, y: (f.cdf(y), f.log_prob(y)), in_axes=(None, 0)))
_quantiles = eqx.filter_jit(jax.vmap(lambda f, q: f.quantile(q), in_axes=(None, 0)))
_crps = eqx.filter_jit(lambda f, y: (crps(f, y), half_spread(f)))
_score = eqx.filter_jit(score)
_interval = eqx.filter_jit(lambda f: f.interval(0.8))


def _double(forecast):
    """Y on a fine grid, F there, and F of each component before a warp, in double precision."""
    parts = getattr(forecast.components, "parts", (forecast.components,))
    m, sd = float(forecast.mixture.mean), float(forecast.mixture.variance) ** 0.5
    u = m + sd * 2000 / np.sinh(12) * np.sinh(12 * np.linspace(-1, 1, 40001))
    each = []
    for part in parts:
        c = jax.tree.map(lambda leaf: np.asarray(leaf, float), part)
        law = stats.norm(c.loc, c.scale) if isinstance(c, Gaussian) else stats.t(c.df, c.loc, c.scale)
        each.append(law.cdf(u[:, None]))
    each = np.concatenate(each, axis=1)
    weights = np.exp(np.asarray(forecast.log_weights, float))
    F = each @ (weights / weights.sum())
    if isinstance(forecast.base, Warped):
        F = np.interp(F, np.linspace(0, 1, B + 1), np.asarray(forecast.base.knots, float))
    return _label(forecast.curve, u), F, each, weights / weights.sum()


def _moments(y, F):
    """Mean and variance of the law(s) with distribution function(s) F [nodes, ...]."""
    middle, mass = 0.5 * (y[1:] + y[:-1]), np.diff(F, axis=0)
    mean = middle @ mass
    return mean, middle**2 @ mass - mean**2


def test_the_density_is_the_derivative_of_the_distribution_function(forecast):
    y, F, _, _ = _double(forecast)
    some = np.linspace(15_000, 25_000, 81).astype(int)
    cdf, log_prob = _functions(forecast, _f32(y[some]))
    # Where the curve is steep, one rounding of y moves u by many.
    slack = EPS * np.exp(log_prob) * (1 + np.abs(y[some]))
    assert (np.abs(cdf - F[some]) <= 16 * slack + 64 * EPS).all()
    ends = np.unique(np.searchsorted(F, np.linspace(1e-3, 1 - 1e-3, 200)))
    density = np.exp(_functions(forecast, _f32(0.5 * (y[ends] + y[ends + 1])))[1])
    numerical = (F[ends + 1] - F[ends]) / (y[ends + 1] - y[ends])
    right = np.abs(density / numerical - 1) < 2e-3
    assert right.mean() >= (0.85 if isinstance(forecast.base, Warped) else 1.0)  # at a warp's edges it jumps


def test_the_density_integrates_to_one(forecast):
    y, _, _, _ = _double(forecast)
    fine = y[5_000:35_000:3]
    p = np.exp(np.asarray(_functions(forecast, _f32(fine))[1], float))
    assert np.trapezoid(p, fine) == pytest.approx(1.0, abs=2e-3)


def test_quantiles_and_intervals_invert_it(forecast):
    q = _f32([1e-3, 0.03, 0.31, 0.5, 0.77, 0.95, 0.999])
    y, F, _, _ = _double(forecast)
    found = np.asarray(_quantiles(forecast, q))
    expected = np.interp(q, F, y)
    spread = np.interp(0.84, F, y) - np.interp(0.16, F, y)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * spread)
    np.testing.assert_allclose(
        _interval(forecast), np.interp([0.1, 0.9], F, y), rtol=1e-4, atol=1e-4 * spread
    )


def test_moments_are_those_of_the_transformed_law(forecast):
    """As accurate as the class says."""
    y, F, each, weights = _double(forecast)
    mean, variance = _moments(y, F)
    assert float(forecast.mean) == pytest.approx(mean, abs=2e-3 * variance**0.5)
    assert float(forecast.variance) == pytest.approx(variance, rel=0.04)
    means, variances = _moments(y, each)
    share = weights @ (means - weights @ means) ** 2 / (weights @ variances)
    assert float(forecast.epistemic / forecast.aleatoric) == pytest.approx(share, rel=0.02)


def test_crps_is_the_integral(forecast):
    """int (F(v) - 1{v >= y})^2 dv."""
    y, F, _, _ = _double(forecast)
    for q in (1e-4, 0.1, 0.5, 0.9, 1 - 1e-4):
        label = np.interp(q, F, y)
        expected = np.trapezoid(np.where(y < label, F, F - 1) ** 2, y)
        found, half = _crps(forecast, _f32(label))
        assert float(found) == pytest.approx(expected, rel=3e-3)
    assert float(half) == pytest.approx(np.trapezoid(F * (1 - F), y), rel=3e-3)


def test_draws_follow_the_forecast():
    forecast, n = TransformedPredictive.of(MIXTURES["gaussian"], _curve("log")), 20_000
    draws = np.asarray(jax.jit(jax.vmap(forecast.sample))(jax.random.split(jax.random.key(0), n)))
    pit = np.asarray(_functions(forecast, _f32(draws))[0])
    assert stats.kstest(pit, "uniform").pvalue > 1e-3
    assert abs(float(draws.mean() - forecast.mean)) < 4 * float(forecast.variance / n) ** 0.5
    kurtosis = float(stats.kurtosis(draws, fisher=False))
    assert float(draws.var() / forecast.variance) == pytest.approx(1, abs=4 * ((kurtosis - 1) / n) ** 0.5)


@pytest.mark.parametrize("warp", WARPS)
def test_where_the_curve_is_straight_nothing_is_lost(warp):
    """All labels are below `low`: y is a straight line of u, with the slope of a square root at 1 / 4."""
    curve = Curve("sqrt", loc=0.0, scale=1.0, offset=0.25, low=100.0, high=200.0, centre=-99.5, spread=1.0)
    base = _base("joined", warp)
    straight = _of(base, curve)
    np.testing.assert_allclose(
        [straight.mean, straight.aleatoric, straight.epistemic],
        [base.mean, base.aleatoric, base.epistemic],
        rtol=1e-3,
        atol=512 * EPS,  # of `low`
    )


def test_affine_is_a_change_of_units(forecast):
    moved = forecast.affine(_f32(3.0), _f32(2.0)).affine(_f32(-1.0), _f32(5.0))
    assert isinstance(moved, TransformedPredictive)
    expected = [14 + 10 * forecast.mean, 100 * forecast.aleatoric, 100 * forecast.epistemic]
    np.testing.assert_allclose([moved.mean, moved.aleatoric, moved.epistemic], expected, rtol=64 * EPS)
    y = _f32([-0.9, 0.1, 1.7])
    here, there = _functions(forecast, y), _functions(moved, 14 + 10 * y)
    np.testing.assert_allclose(there[0], here[0], atol=1e-4)
    np.testing.assert_allclose(there[1], here[1] - np.log(10), rtol=1e-3, atol=1e-3)
    assert float(_crps(moved, _f32(15.0))[0]) == pytest.approx(
        10 * float(_crps(forecast, _f32(0.1))[0]), rel=1e-4
    )


def test_components_too_narrow_for_the_grid_do_no_harm(curve):
    """Two needles far apart: the grid sees neither, and what is left is the straight line."""
    needles = Predictive.equal(Gaussian(_f32([-1.0, 1.0]), _f32([1e-4, 1e-4])))
    for base in (needles, Warped.of(MIXTURES["gaussian"], WARPS["warped"])):
        scores = _score(_of(base, curve), _f32(0.3))
        assert all(np.isfinite(value) for value in scores)
        assert scores.aleatoric > 0


def test_a_missing_label_scores_nothing(curve):
    scores = _score(_of(_base("gaussian", "warped"), curve), _f32(np.nan))
    assert np.isfinite([scores.mean, scores.aleatoric, scores.epistemic, scores.lower, scores.upper]).all()
    assert np.isnan([scores.nll, scores.crps, scores.pit]).all()


def _skewed_series(make_series, n=400, **fields):
    """Exp of a sine with noise, standardised."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    v = 10 * np.exp(0.8 * np.sin(np.arange(n) / 5.0) + 0.5 * x[:, 0] + 0.3 * rng.normal(size=n))
    loc, scale = float(v.mean()), float(v.std())
    return make_series((n,), x=x, y=(v - loc) / scale, y_loc=loc, y_scale=scale, **fields), v


def test_an_unobserved_label_leaves_no_trace(make_series, as_stack):
    """Whatever stands in its place."""
    series, v = _skewed_series(make_series, n=60, delay=2)
    transform = fit_transform("log", v, series.y_loc, series.y_scale)
    tracker = build("rls", Task.of(series), jax.random.key(0), transform=transform, recalibrate=True)
    assert isinstance(tracker, Transformed)
    y = series.y.copy()
    y[20:30] = np.nan
    records = filter_series(as_stack(tracker), dataclasses.replace(series, y=y), jax.random.key(0))
    assert np.isfinite(records.mean).all()
    assert np.array_equal(np.isfinite(records.log_prob[0]), ~np.isnan(y))


def test_skewed_labels_are_better_forecast_bent(make_series, as_stack):
    """Least squares on a stream that is linear after a logarithm; NLL with the Jacobian."""
    series, v = _skewed_series(make_series, n=2000)
    log = fit_transform("log", v, series.y_loc, series.y_scale)
    sqrt = fit_transform("sqrt", v, series.y_loc, series.y_scale)
    scores = []
    for transform in (None, sqrt, log):
        tracker = build("rls-t", Task.of(series), jax.random.key(0), transform=transform)
        records = filter_series(as_stack(tracker), series, jax.random.key(0))
        scores.append(records.log_prob[0, 500:])
        within = np.mean(np.abs(records.pit[0, 500:] - 0.5) < 0.45)
        assert abs(within - 0.9) < 0.03
    for better, worse in ((2, 1), (1, 0)):
        gain = scores[better] - scores[worse]
        assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


@pytest.mark.slow
def test_the_validation_score_is_the_filters(make_series):
    """What early stopping looks at, with the Jacobian of a transform and an anchor's scale."""
    series, v = _skewed_series(make_series, n=300)
    settings = {"anchor": "last-label", "anchor_scale": 0.7, "hidden_size": 4, "encoder_size": 4}
    settings["transform"] = fit_transform("log", v, series.y_loc, series.y_scale)
    make = lambda key: build("gru", Task.of(series), key, predictor=(3,), **settings)  # noqa: E731
    training = Training(objective="prior-predictive", epochs=1, window=50, validation=0.3)
    trained = train(make, series, training, jax.random.key(0))
    records = filter_series(trained.stack, series, jax.random.key(0))
    expected = -np.mean(records.log_prob[0, round(0.7 * 300) :]) - np.log(series.y_scale)
    assert trained.history[-1]["validation"][0] == pytest.approx(expected, abs=1e-4)


def test_a_transform_survives_its_file(make_series, tmp_path):
    series, v = _skewed_series(make_series, n=80)
    settings = {
        "transform": fit_transform("sqrt", v, series.y_loc, series.y_scale),
        "safety_net": ["last-label"],
        "recalibrate": True,
    }
    assert json.loads(json.dumps(settings)) == settings
    task = Task.of(series)
    stack = build_stack(
        lambda key: build("rls", task, key, **settings), jax.random.split(jax.random.key(0), 1)
    )
    lt.Model("rls", settings, task, stack).save(tmp_path / "m.lt")
    loaded = lt.load(tmp_path / "m.lt")
    assert loaded.settings == settings
    assert loaded.stack[0].curve == Curve(**settings["transform"])
    before, after = (filter_series(s, series, jax.random.key(0)) for s in (stack, loaded.stack))
    np.testing.assert_array_equal(before.log_prob, after.log_prob)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "cube"}, "no transform 'cube'"),
        ({"scale": 0.0}, "'transform.scale' is 0.0: give a positive number"),
        ({"offset": -1.0}, "'transform.offset'"),
        ({"spread": float("nan")}, "'transform.spread'"),
        ({"centre": "0"}, "'transform.centre'"),
        ({"high": -1.0}, "low at or above high"),
        ({"lower": 1.0}, "fit_transform"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_impossible_transforms_get_one_sentence(change, says):
    transform = {**fit_transform("log", _labels(), 0.0, 1.0), **change}
    with pytest.raises(LatentTrackError, match=says) as caught:
        build("rls", Task(("a",)), jax.random.key(0), transform=transform)
    assert "\n" not in str(caught.value)


def test_what_is_transformed_is_not_transformed_again(curve):
    with pytest.raises(LatentTrackError, match="transform last, once"):
        TransformedPredictive.of(TransformedPredictive.of(MIXTURES["gaussian"], curve), curve)
