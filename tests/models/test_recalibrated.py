"""Recalibration: the warped forecast is a forecast, and the histogram finds what is wrong with one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.scores import crps, half_spread
from latenttrack.filtering.offline import filter_series
from latenttrack.models.averaged import Averaged
from latenttrack.models.base import AbstractTracker, Terms
from latenttrack.models.capacity import capacity
from latenttrack.models.components import Gaussian, StudentT, join
from latenttrack.models.predictive import Predictive
from latenttrack.models.recalibrated import Recalibrated, Tally
from latenttrack.models.registry import build, build_reference
from latenttrack.models.task import Task
from latenttrack.models.use import in_use
from latenttrack.models.warped import Warped

EPS = float(np.finfo(np.float32).eps)
B = 20


def _f32(values):
    return jnp.asarray(values, jnp.float32)


def _mixtures():
    rng = np.random.default_rng(0)
    loc, scale = _f32(0.3 * rng.normal(size=8)), _f32(np.exp(0.2 * rng.normal(size=8)))
    gaussian, t = Gaussian(loc, scale), StudentT(loc, 0.7 * scale, _f32(np.full(8, 5.0)))
    wide = StudentT(_f32([1.0, -1.0]), _f32([3.0, 2.0]), _f32([3.5, 10.0]))
    log_weights = _f32(np.log([0.115] * 8 + [0.04] * 2))
    return {
        "gaussian": Predictive.equal(gaussian),
        "student-t": Predictive.equal(t),
        "joined": Predictive(join([gaussian, wide]), log_weights),
    }


def _warps():
    place = np.linspace(-1, 1, B)
    return {
        "none": np.ones(B),
        "too narrow": 1 + np.abs(place),
        "too wide": 1.6 - np.abs(place),
        "skewed": 1 + 0.6 * place,
        "rough": np.random.default_rng(1).uniform(0.6, 1.6, B),
    }


def _knots(shares):
    climb = np.cumsum(shares)
    return _f32(np.concatenate([[0.0], climb / climb[-1]]))


MIXTURES, WARPS = _mixtures(), _warps()


@pytest.fixture(params=WARPS)
def knots(request):
    return _knots(WARPS[request.param])


@pytest.fixture(params=MIXTURES)
def base(request):
    return MIXTURES[request.param]


@pytest.fixture
def warped(base, knots):
    return Warped.of(base, knots)


def _double(predictive):
    """A fine grid u, and F and p of the unwarped mixture on it, in double precision."""
    parts = getattr(predictive.components, "parts", (predictive.components,))
    weights = np.exp(np.asarray(predictive.log_weights, float))
    weights /= weights.sum()  # a rounding of it would count 2000 standard deviations away
    mean, sd = float(predictive.base.mean), float(predictive.base.variance) ** 0.5
    u = mean + sd * 2000 / np.sinh(12) * np.sinh(12 * np.linspace(-1, 1, 40001))
    F, p, first = np.zeros_like(u), np.zeros_like(u), 0
    for part in parts:
        c = jax.tree.map(lambda leaf: np.asarray(leaf, float), part)
        law = stats.norm(c.loc, c.scale) if isinstance(c, Gaussian) else stats.t(c.df, c.loc, c.scale)
        own = weights[first : first + len(c.loc)]
        F, p = F + law.cdf(u[:, None]) @ own, p + law.pdf(u[:, None]) @ own
        first += len(c.loc)
    return u, F, p


def _integral(values, u):
    return float(np.trapezoid(values, u))


_functions = jax.jit(jax.vmap(lambda f, y: (f.cdf(y), f.log_prob(y)), in_axes=(None, 0)))
_moments = jax.jit(lambda f: (f.mean, f.variance, f.aleatoric, f.epistemic))
_quantiles = jax.jit(jax.vmap(lambda f, q: f.quantile(q), in_axes=(None, 0)))
_crps = jax.jit(lambda f, y: (crps(f, y), half_spread(f)))


def test_the_distribution_function_and_density_are_warped(warped):
    u, F, p = _double(warped)
    some = np.linspace(14_000, 26_000, 41).astype(int)
    edges, H = np.linspace(0, 1, B + 1), np.asarray(warped.knots, float)
    cdf, log_prob = _functions(warped, _f32(u[some]))
    np.testing.assert_allclose(cdf, np.interp(F[some], edges, H), atol=64 * EPS)
    inside = np.abs(F[some] * B - np.round(F[some] * B)) > 1e-4  # at an edge either side may be taken
    inside |= (F[some] < 0.5 / B) | (F[some] > 1 - 0.5 / B)
    h = B * np.diff(H)[np.clip((F[some] * B).astype(int), 0, B - 1)]
    np.testing.assert_allclose(log_prob[inside], np.log(h * p[some])[inside], rtol=1e-4, atol=1e-4)


def test_quantiles_and_intervals_invert_it(warped):
    q = _f32([1e-4, 0.03, 0.05, 0.31, 0.5, 0.77, 0.95, 0.999])
    cdf, _ = _functions(warped, _quantiles(warped, q))
    np.testing.assert_allclose(cdf, q, atol=64 * EPS)
    lower, upper = warped.interval(0.8)
    cdf, _ = _functions(warped, jnp.stack([lower, upper]))
    np.testing.assert_allclose(cdf, [0.1, 0.9], atol=64 * EPS)


def test_moments_are_those_of_the_warped_distribution(warped):
    """As accurate as the class says; the joined mixture has a component with 3.5 degrees of freedom."""
    u, F, _ = _double(warped)
    D = np.interp(F, np.linspace(0, 1, B + 1), np.asarray(warped.knots, float)) - F
    base_mean, base_variance, base_aleatoric, _ = map(float, _moments(warped.base))
    mean = base_mean - _integral(D, u)
    variance = base_variance - 2 * _integral((u - base_mean) * D, u) - (mean - base_mean) ** 2
    found = [float(value) for value in _moments(warped)]
    assert found[0] == pytest.approx(mean, abs=1e-3 * variance**0.5)
    assert found[1] == pytest.approx(variance, abs=2e-3 * variance + 0.04 * abs(variance - base_variance))
    assert found[2] + found[3] == pytest.approx(found[1], rel=8 * EPS)
    assert found[2] / found[1] == pytest.approx(base_aleatoric / base_variance, rel=16 * EPS)


def test_crps_is_the_integral(warped):
    """int (F'(u) - 1{u >= y})^2 du; the grid of the scores has 256 cells across the widest component."""
    u, F, _ = _double(warped)
    G = np.interp(F, np.linspace(0, 1, B + 1), np.asarray(warped.knots, float))
    sd = float(warped.variance) ** 0.5
    for y in u[[14_000, 19_500, 20_300, 25_500]]:
        expected = _integral(np.where(u < y, G, G - 1) ** 2, u)
        found, half = _crps(warped, _f32(y))
        assert float(found) == pytest.approx(expected, abs=3e-3 * sd)
    assert float(half) == pytest.approx(_integral(G * (1 - G), u), abs=2e-3 * sd)


def test_without_a_warp_nothing_changes(base):
    same = Warped.of(base, _knots(np.ones(B)))
    np.testing.assert_allclose(_moments(same), _moments(base), rtol=1e-4, atol=1e-5)
    for y in (-1.0, 0.4, 30.0):
        assert float(_crps(same, _f32(y))[0]) == pytest.approx(float(_crps(base, _f32(y))[0]), abs=1e-3)


def test_affine_is_a_change_of_units(warped):
    moved = warped.affine(_f32(3.0), _f32(2.0))
    assert isinstance(moved, Warped)
    mean, variance, aleatoric, _ = _moments(warped)
    expected = [3 + 2 * float(mean), 4 * float(variance), 4 * float(aleatoric)]
    np.testing.assert_allclose(_moments(moved)[:3], expected, rtol=64 * EPS)
    y = _f32([-2.0, 0.1, 1.7])
    here, there = _functions(warped, y), _functions(moved, 3 + 2 * y)
    np.testing.assert_allclose(there[0], here[0], atol=64 * EPS)
    np.testing.assert_allclose(there[1], here[1] - np.log(2), atol=256 * EPS)


def test_draws_follow_the_warped_distribution():
    warped, n = Warped.of(MIXTURES["gaussian"], _knots(WARPS["skewed"])), 4000
    draws = jax.jit(jax.vmap(warped.sample))(jax.random.split(jax.random.key(0), n))
    assert stats.kstest(np.asarray(_functions(warped, draws)[0]), "uniform").pvalue > 1e-3
    assert abs(float(np.mean(draws) - warped.mean)) < 4 * float(warped.variance) ** 0.5 / np.sqrt(n)


class Stubborn(AbstractTracker):
    """Forecasts N(x[0], sd^2) whatever happens."""

    sd: float

    def init(self):
        return jnp.zeros(())

    def update(self, state, x, y):
        return state + 1.0

    def predict(self, state, x, key):
        return Predictive.equal(Gaussian(x[:1], jnp.full(1, self.sd)))

    def window_terms(self, state, window, key):
        return Terms(*[jnp.zeros_like(window.y)] * 3), state


@pytest.mark.parametrize("delay", [1, 6])
@pytest.mark.parametrize("sd", [0.6, 1.0, 1.7], ids=["too narrow", "right", "too wide"])
def test_a_wrong_scale_is_put_right(sd, delay, make_series, as_stack):
    """After a few half-lives the PIT is nearly uniform and the NLL better, or nothing was wrong with them."""
    rng, n, late = np.random.default_rng(0), 8000, slice(4000, None)
    x = rng.normal(size=(n, 3))
    series = make_series((n,), x=x, y=x[:, 0] + rng.normal(size=n), delay=delay)
    plain = filter_series(as_stack(Stubborn(sd)), series, jax.random.key(0))
    tracker = Recalibrated(Stubborn(sd), 3, delay)
    after = filter_series(as_stack(tracker), series, jax.random.key(0))
    before_ks, after_ks = (stats.kstest(r.pit[0, late], "uniform").statistic for r in (plain, after))
    gain = after.log_prob[0, late] - plain.log_prob[0, late]
    if sd == 1.0:
        # The histogram is an average over some 1443 labels, halved again by the pseudo-counts.
        assert after_ks < before_ks + 0.02
        assert gain.mean() > -0.5 * (B - 1) / 1443
    else:
        # Within the first and last bin H is linear, where it should be steep; and labels have noise.
        assert after_ks < 0.35 * before_ks + 1.6 / np.sqrt(4000)
        assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))
        variance = (after.aleatoric + after.epistemic)[0, late].mean()
        assert abs(np.log(variance)) < abs(np.log(sd**2))


@pytest.mark.parametrize("sd", [0.5, 2.0])
def test_a_wrong_scale_is_noticed_within_a_few_hundred_labels(sd, make_series, as_stack):
    """Before the histogram could: 1000 pseudo-counts stand against its labels."""
    rng, n = np.random.default_rng(1), 600
    x = rng.normal(size=(n, 3))
    series = make_series((n,), x=x, y=x[:, 0] + rng.normal(size=n))
    records = filter_series(as_stack(Recalibrated(Stubborn(sd), 3, 1)), series, jax.random.key(0))
    late = records.pit[0, 300:]
    inside = np.mean((late > 0.05) & (late < 0.95))
    alone = 2 * stats.norm.cdf(1.645 * sd) - 1
    assert abs(inside - 0.9) < 0.8 * abs(alone - 0.9)


def test_what_was_learned_before_is_where_it_starts():
    """s = 2 from the first label on."""
    task = Task(("a",))
    settings = {"recalibrate": True, "recalibrate_start": [0.0] * B, "recalibrate_spread": [1e6, 4e6]}
    tracker = build("last-label", task, jax.random.key(0), **settings)
    knots = np.asarray(tracker.knots(tracker.init().tally), float)
    expected = stats.norm.cdf(stats.norm.ppf(np.linspace(0, 1, B + 1)) / 2)
    np.testing.assert_allclose(knots, expected, atol=1e-3)
    for wrong in ([1.0], [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(LatentTrackError, match="recalibrate_spread"):
            build("last-label", task, jax.random.key(0), recalibrate=True, recalibrate_spread=wrong)


def test_the_histogram_counts_the_forecast_of_the_labels_own_step():
    """With delay 2: x moves the forecast, so that a label belongs to one bin of one step alone."""
    tracker = Recalibrated(Stubborn(1.0), 1, 2)
    state, labels = tracker.init(), []
    places = [0.0, 10.0, -10.0, 20.0, 5.0]
    for t, place in enumerate(places):
        if t >= 2:
            state = tracker.update(state, _f32([0.0]), _f32(places[t - 2] + 0.01))  # PIT just above 1/2
        labels.append(np.asarray(state.tally.counts))
        state = tracker.advance(state, _f32([place]))
    assert not labels[1].any()
    assert set(np.flatnonzero(labels[-1])) == {B // 2}
    decay = 0.5 ** (1 / 1000)
    assert labels[-1][B // 2] == pytest.approx(1 + decay + decay**2, rel=8 * EPS)


def test_labels_before_the_first_forecast_count_nothing():
    """Where a piece of a stream begins, labels of steps that were not forecast are due."""
    tracker = Recalibrated(Stubborn(1.0), 1, 3)
    state = tracker.init()
    for _ in range(3):
        state = tracker.advance(tracker.update(state, _f32([0.0]), _f32(0.5)), _f32([0.0]))
        assert not np.asarray(state.tally.counts).any()
    assert np.asarray(tracker.update(state, _f32([0.0]), _f32(0.5)).tally.counts).sum() == 1


def test_a_missing_label_changes_nothing(make_series, as_stack):
    series = make_series((60,), delay=2)
    y = series.y.copy()
    y[20:] = np.nan
    records = filter_series(
        as_stack(Recalibrated(Stubborn(1.0), 3, 2)), dataclasses.replace(series, y=y), jax.random.key(0)
    )
    variance = (records.aleatoric + records.epistemic)[0]
    assert np.ptp(variance[22:]) <= 64 * EPS
    assert np.ptp(variance[:22]) > 64 * EPS


def test_it_has_no_parameters_and_comes_last():
    task = Task(("a", "b"))
    sizes = {"hidden_size": 6, "latent_size": 2, "features": 3, "K": 8}
    plain = lambda key: build("lt-unstructured", task, key, **sizes)  # noqa: E731
    all_on = lambda key: build(  # noqa: E731
        "lt-unstructured", task, key, anchor="rls", safety_net=("rls-t",), recalibrate=True, **sizes
    )
    assert capacity(all_on, 2) == capacity(plain, 2)
    tracker = in_use(all_on(jax.random.key(0)))
    assert isinstance(tracker, Recalibrated)
    assert isinstance(tracker.inner, Averaged)
    assert tracker.inner.main.inner.summary_dropout.inference


@pytest.mark.parametrize("wrapper", ["again", "averaged"])
def test_what_is_recalibrated_is_not_wrapped_again(wrapper):
    inner = Recalibrated(Stubborn(1.0), 1, 1)
    net = (build_reference("last-label", Task(("a",))),)
    outer = Recalibrated(inner, 1, 1) if wrapper == "again" else Averaged(inner, net, ("a", "b"), 1, 1)
    with pytest.raises(LatentTrackError, match="recalibrate and transform last"):
        outer.predict(outer.init(), _f32([0.0]), jax.random.key(0))


def test_a_warp_ends_at_exactly_one():
    """Whatever was counted: one rounding less, and the far tail of the grid moves the variance by 1e-3."""
    tracker = Recalibrated(build_reference("last-label", Task(("x",))), 1, 1)
    counts = np.random.default_rng(0).gamma(0.3, 40.0, (400, tracker.bins)).astype(np.float32)
    spread = np.random.default_rng(1).gamma(0.5, 400.0, (400, 2)).astype(np.float32)
    knots = np.asarray(jax.jit(jax.vmap(tracker.knots))(Tally(counts, spread)))
    assert (knots[:, 0] == 0.0).all()
    assert (knots[:, -1] == 1.0).all()
    assert (np.diff(knots) > 0).all()
