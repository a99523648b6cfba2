"""Correction: what inputs tell of errors is found and undone; where they tell nothing, nothing changes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.filtering.offline import filter_series
from latenttrack.models.base import AbstractTracker, Terms
from latenttrack.models.checks import check_flag
from latenttrack.models.components import Gaussian
from latenttrack.models.corrected import Corrected
from latenttrack.models.predictive import Predictive
from latenttrack.models.registry import build
from latenttrack.models.task import Task

N = 4000
SD = 2.0  # of the errors, and of the forecasts


class Fixed(AbstractTracker):
    """A frozen network: two equal components around `weight` times the first input."""

    weight: float

    def init(self):
        return jnp.zeros(())

    def update(self, state, x, y):
        return state

    def predict(self, state, x, key):
        loc = self.weight * x[0] + jnp.array([-1.0, 1.0])
        return Predictive.equal(Gaussian(loc, jnp.full(2, jnp.sqrt(SD**2 - 1.0))))

    def window_terms(self, state, window, key):
        scores = jax.vmap(lambda x, y: self.predict(state, x, key).log_prob(y))(window.x, window.y)
        return Terms(scores, jnp.zeros_like(scores), scores), state


def _f32(values):
    return jnp.asarray(values, jnp.float32)


def _stream(make_series, delay, told):
    """y = x0 + told(x) + noise, N steps."""
    series = make_series((N,), delay=delay)
    noise = SD * np.random.default_rng(0).normal(size=N)
    return dataclasses.replace(series, y=series.x[:, 0] + told(series.x) + noise)


def _scores(tracker, series, as_stack):
    return filter_series(as_stack(tracker), series, jax.random.key(0))


def _corrected(series, inner=None):
    return Corrected(inner or Fixed(1.0), series.x.shape[1], series.delay)


def _after(tracker, series, steps):
    """The belief after some steps of a stream whose labels are known at once."""

    def body(state, row):
        x, y = row
        return tracker.update(tracker.advance(state, x), x, y), None

    rows = (_f32(series.x[:steps]), _f32(series.y[:steps]))
    return jax.jit(lambda: jax.lax.scan(body, tracker.init(), rows)[0])()


def _oracle(x, y, delay):
    """Mean and sd of every corrected forecast: the docstring of models/corrected.py, in NumPy."""
    weights, covariance = np.zeros((2, x.shape[1] + 1)), 0.03**2 * np.eye(x.shape[1] + 1)
    came, said, one, squares = np.zeros(2), np.zeros(2), 0.0, 0.0
    phi = np.column_stack([np.ones(len(x)), np.clip(x, -6.0, 6.0)])
    told, forecasts = [], []
    for t in range(len(x)):
        a = np.clip(came / (delay + said), 0.0, 1.0)
        if t >= delay:
            s, b = t - delay, told[t - delay]
            r = (y[s] - x[s, 0]) / SD
            rest = np.clip(r - a[0] * b[0], -3.0, 3.0) ** 2
            v = (100 * delay + squares) / (100 * delay + one)
            found = np.array([np.clip(r, -3.0, 3.0), 0.5 * (rest / v - 1.0)])
            # Directional forgetting: 1 / r' = lambda (1 / r + 1), and a little of everything.
            known = covariance @ phi[s]
            doubt = phi[s] @ known
            weights += np.outer(found - weights @ phi[s], known / (1.0 + doubt))
            left = 1.0 / (0.995 * (1.0 / doubt + 1.0))
            covariance -= np.outer(known, known) * (doubt - left) / doubt**2
            grow = np.where(np.diag(covariance) < 0.03**2, 0.9999**-0.5, 1.0)
            covariance *= np.outer(grow, grow)
            fading = 0.5 ** (1.0 / (500 * delay))
            came, said = fading * came + found * b, fading * said + b**2
            one, squares = fading * one + 1.0, fading * squares + rest
            a = np.clip(came / (delay + said), 0.0, 1.0)
        told.append(weights @ phi[t])
        width = np.exp(np.clip(a[1] * told[t][1], -1.0, 1.0))
        forecasts.append((x[t, 0] + SD * a[0] * told[t][0], SD * width))
    return np.array(forecasts)


@pytest.mark.parametrize("delay", [1, 4])
def test_it_is_what_the_docstring_says(delay, make_series, as_stack):
    """Heavy tails, a bias, a width that depends on x by far, and two inputs far out."""
    series = _stream(make_series, delay, lambda x: 0.8 * x[:, 1] - 0.6)
    series = series.select(np.arange(1500))
    x = series.x.copy()
    x[[700, 1100], 1] = 50.0
    errors = np.random.default_rng(2).standard_t(3, size=len(x)) * np.exp(1.2 * np.clip(x[:, 2], -1, 1))
    y = x[:, 0] + 0.8 * np.clip(x[:, 1], -6, 6) - 0.6 + errors
    series = dataclasses.replace(series, x=x.astype(np.float32), y=y.astype(np.float32))
    found = _scores(_corrected(series), series, as_stack)
    mean, sd = _oracle(series.x.astype(float), series.y.astype(float), delay).T
    assert np.abs(np.log(sd / SD)).max() == 1.0  # as far as it may go
    np.testing.assert_allclose(found.mean[0], mean, atol=1e-3 * SD)
    np.testing.assert_allclose(np.sqrt(found.aleatoric[0] + found.epistemic[0]), sd, rtol=1e-3)


@pytest.mark.parametrize("delay", [1, 6])
def test_an_error_that_inputs_tell_of_is_undone(delay, make_series, as_stack):
    """After half of the stream, most of what could be gained is gained."""
    series = _stream(make_series, delay, lambda x: 0.8 * x[:, 1] - 0.6)
    late = slice(N // 2, None)
    before, after, best = (
        np.asarray(_scores(tracker, shifted, as_stack).log_prob[0][late])
        for tracker, shifted in (
            (Fixed(1.0), series),
            (_corrected(series), series),
            (Fixed(1.0), dataclasses.replace(series, y=series.y - 0.8 * series.x[:, 1] + 0.6)),
        )
    )
    assert (after - before).mean() > 0.8 * (best - before).mean()


@pytest.mark.parametrize("delay", [1, 6])
def test_where_inputs_tell_nothing_it_costs_nothing(delay, make_series, as_stack):
    series = _stream(make_series, delay, lambda x: 0.0)
    plain = _scores(Fixed(1.0), series, as_stack)
    corrected = _scores(_corrected(series), series, as_stack)
    assert (plain.log_prob[0] - corrected.log_prob[0]).mean() < 0.002


def test_a_change_is_followed(make_series, as_stack):
    """What was true of the errors turns into its opposite; 1000 labels later half of the gain is there."""
    turn = np.where(np.arange(N) < N // 2, 1.0, -1.0)
    series = _stream(make_series, 1, lambda x: turn * x[:, 1])
    late = slice(N // 2 + 1000, None)
    plain = np.asarray(_scores(Fixed(1.0), series, as_stack).log_prob[0][late])
    corrected = np.asarray(_scores(_corrected(series), series, as_stack).log_prob[0][late])
    straight = dataclasses.replace(series, y=series.y - turn * series.x[:, 1])
    best = np.asarray(_scores(Fixed(1.0), straight, as_stack).log_prob[0][late])
    assert (corrected - plain).mean() > 0.5 * (best - plain).mean()


def test_errors_that_are_larger_here_than_there_are_told_apart(make_series, as_stack):
    """Their size doubles and halves with an input; most of what knowing that is worth is gained."""
    series = _stream(make_series, 1, lambda x: 0.0)
    noise = series.y - series.x[:, 0]
    series = dataclasses.replace(series, y=series.x[:, 0] + noise * np.exp(0.4 * series.x[:, 1] - 0.16))
    late = slice(N // 2, None)
    plain, corrected = (
        np.asarray(_scores(tracker, series, as_stack).log_prob[0][late])
        for tracker in (Fixed(1.0), _corrected(series))
    )
    width = 0.4 * series.x[late, 1] - 0.16
    z = (series.y - series.x[:, 0])[late] / SD
    # Of a normal density, near enough to that of two components one to either side.
    gain = (-width + 0.5 * z**2 * (1.0 - np.exp(-2.0 * width))).mean()
    assert (corrected - plain).mean() > 0.6 * gain > 0.03


def test_the_forecast_is_moved_and_stretched_and_keeps_its_shape(make_series):
    """As the docstring has it: a_1 b standard deviations to the side, exp(a_2 c) times as wide."""
    series = _stream(make_series, 1, lambda x: 3.0)
    noise = series.y - series.x[:, 0] - 3.0
    series = dataclasses.replace(series, y=series.y + noise * (np.exp(0.4 * series.x[:, 1]) - 1.0))
    tracker = _corrected(series)
    state, x = _after(tracker, series, 1500), _f32(series.x[0])
    inner, moved = tracker.inner.predict(None, x, None), tracker.predict(state, x, jax.random.key(0))
    far, wide = np.asarray(tracker.trust(state) * tracker.errors(state, x), float)
    assert far > 0.5
    assert abs(wide) > 0.02
    assert moved.mean - inner.mean == pytest.approx(SD * far, rel=1e-5)
    np.testing.assert_allclose(moved.aleatoric, inner.aleatoric * np.exp(2 * wide), rtol=1e-5)
    np.testing.assert_allclose(moved.epistemic, inner.epistemic * np.exp(2 * wide), rtol=1e-5)


def test_one_label_far_out_moves_little(make_series, as_stack):
    """It counts as three standard deviations, however far it is."""
    series = _stream(make_series, 1, lambda x: 0.0)
    y = series.y.copy()
    y[1000] += 1e6
    calm, wild = (
        _scores(_corrected(series), dataclasses.replace(series, y=labels), as_stack)
        for labels in (series.y, y)
    )
    assert np.abs(np.asarray(calm.mean - wild.mean)).max() < 0.2 * SD


def test_one_input_far_out_costs_little(make_series, as_stack):
    """It counts as six: neither its own forecast nor those after it go astray."""
    series = _stream(make_series, 1, lambda x: 0.8 * x[:, 1])
    x = series.x.copy()
    x[1000, 1] = 1e20
    calm, wild = (
        np.asarray(_scores(_corrected(series), dataclasses.replace(series, x=rows), as_stack).log_prob[0])
        for rows in (series.x, x)
    )
    assert np.isfinite(wild).all()
    assert calm[1000] - wild[1000] < 10.0
    assert abs((calm - wild)[1500:].mean()) < 0.005


def test_what_was_learned_on_training_data_is_forgotten(make_series, same_bits):
    series = _stream(make_series, 1, lambda x: 3.0)
    tracker = _corrected(series)
    state = _after(tracker, series, 200)
    assert float(tracker.trust(state)[0]) > 0.1
    renewed = tracker.renew(tracker.advance(state, _f32(series.x[200])))
    same_bits(renewed.evidence, tracker.init().evidence)
    # The next label is that of a step of which something was said before.
    after = tracker.update(renewed, _f32(series.x[200]), _f32(series.y[200]))
    np.testing.assert_array_equal(tracker.trust(after), 0.0)
    assert float(np.abs(after.evidence.weights).max()) > 0


def test_a_reference_is_not_corrected(make_series):
    task = Task.of(make_series((4,)))
    with pytest.raises(LatentTrackError, match=r"'rls' is a reference itself .* correction"):
        build("rls", task, jax.random.key(0), correct=True)
    with pytest.raises(LatentTrackError, match="'correct' is 1: give True or False"):
        check_flag("gru", "correct", 1)
