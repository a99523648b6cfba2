"""Credit weights, objectives and the loss of a window against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.models.base import Terms, Window, partition
from latenttrack.training.credit import recency, surprise
from latenttrack.training.objectives import OBJECTIVES, kl_weight
from latenttrack.training.settings import Training
from latenttrack.training.step import Carry, Problem, window_loss

EPS = float(np.finfo(np.float32).eps)


def test_recency_weights():
    np.testing.assert_allclose(recency(4, 0.5), [0.125, 0.25, 0.5, 1.0], rtol=4 * EPS)
    np.testing.assert_array_equal(recency(3, 1.0), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(recency(3, 0.0), [0.0, 0.0, 1.0])


def test_surprise_weights_and_their_running_mean():
    """alpha 0.5, rate 0.25, the mean starts as NaN and is set by the first observed step.

    NLL 2 (mean 2, no excess, mean 2); unobserved; NLL 4 (excess 2, mean 2.5); NLL 1 (no excess, mean 2.125);
    NLL 3 (excess 0.875, mean 2.34375).
    """
    nll = jnp.array([2.0, 99.0, 4.0, 1.0, 3.0])
    seen = jnp.array([True, False, True, True, True])
    weights, ema = surprise(nll, seen, jnp.array(jnp.nan), alpha=0.5, rate=0.25)
    np.testing.assert_allclose(weights, np.exp([0, 0, 1.0, 0, 0.4375]), rtol=8 * EPS)
    assert float(ema) == pytest.approx(2.34375, rel=4 * EPS)
    # ... and goes on from there in the next window
    weights, ema = surprise(jnp.array([3.34375]), jnp.array([True]), ema, alpha=0.5, rate=0.25)
    np.testing.assert_allclose(weights, [np.exp(0.5)], rtol=8 * EPS)
    assert float(ema) == pytest.approx(2.59375, rel=4 * EPS)


def test_surprise_without_labels_knows_nothing():
    weights, ema = surprise(jnp.array([5.0]), jnp.array([False]), jnp.array(jnp.nan), alpha=1.0, rate=0.1)
    np.testing.assert_array_equal(weights, [1.0])
    assert np.isnan(ema)


def test_surprise_carries_no_gradient_and_does_not_overflow():
    gradient = jax.grad(
        lambda v: surprise(v, jnp.ones(2, bool), jnp.array(0.0), alpha=1.0, rate=0.1)[0].sum()
    )(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(gradient, [0.0, 0.0])
    weights, _ = surprise(jnp.array([1e6]), jnp.array([True]), jnp.array(0.0), alpha=1.0, rate=0.1)
    assert np.isfinite(weights).all()


def test_objectives():
    terms = Terms(jnp.array([-1.0, -2.0]), jnp.array([0.5, 4.0]), jnp.array([-1.5, -2.5]))
    beta = jnp.float32(0.25)
    expected = {
        "elbo": [-1.125, -3.0],
        "static-elbo": [-1.0 - 0.125 / 8, -2.0 - 1.0 / 8],
        "prior-predictive": [-1.5, -2.5],
        "nll": [-1.0, -2.0],
    }
    assert set(expected) == set(OBJECTIVES)
    for name, values in expected.items():
        np.testing.assert_allclose(OBJECTIVES[name](terms, beta, 8), values, rtol=4 * EPS)


def test_kl_weight_rises_linearly_in_updates():
    found = [float(kl_weight(jnp.float32(n), 0.8, 4)) for n in range(7)]
    np.testing.assert_allclose(found, [0.0, 0.2, 0.4, 0.6, 0.8, 0.8, 0.8], rtol=4 * EPS)
    assert float(kl_weight(jnp.float32(0), 0.8, 0)) == 0.0
    assert float(kl_weight(jnp.float32(1), 0.8, 0)) == pytest.approx(0.8)


def _problem(level, **settings):
    params, rest = partition(level(jax.random.key(0)))
    training = Training(**{"window": 4, "objective": "elbo", **settings})
    return params, Problem(rest, training, training.make_optimiser(10), 8)


def _window():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    y = rng.normal(size=(2, 4)).astype(np.float32)
    observed = np.array([[True, True, False, True], [True, False, False, False]])
    due = np.zeros_like(observed)
    return Window(*(jnp.asarray(a) for a in (x, y, observed, np.zeros_like(x), np.zeros_like(y), due)))


def test_loss_of_a_window_is_the_weighted_mean_over_observed_steps(level):
    """-sum(w L) / sum(w) over both streams, L = log p - beta KL, w = lambda^(t - tau), nothing due."""
    params, problem = _problem(level, recency=0.5, beta=0.6, beta_warmup=4)
    window = _window()
    loss, _ = window_loss(params, problem, problem.start(params, 2), window, jnp.array(2), jax.random.key(0))
    w, sd = np.asarray(params.weight, float), np.exp(float(params.log_sd))
    residual = np.asarray(window.y, float) - np.asarray(window.x, float) @ w
    log_p = -0.5 * (residual / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    values = log_p - 0.3 * np.sum(w**2)  # after 2 of 4 warm-up updates beta is half of 0.6
    weights = np.array([0.125, 0.25, 0.5, 1.0]) * np.asarray(window.observed)
    assert float(loss) == pytest.approx(-np.sum(weights * values) / np.sum(weights), rel=32 * EPS)


def test_surprise_multiplies_the_weights_of_a_window(level):
    params, problem = _problem(level, recency=0.5, beta=0.0, surprise=0.7, surprise_rate=0.2)
    window = _window()
    start = Carry(problem.start(params, 2).states, jnp.array([0.5, jnp.nan]))
    loss, carry = window_loss(params, problem, start, window, jnp.array(0), jax.random.key(0))
    terms, _ = jax.vmap(problem.tracker(params).window_terms, in_axes=(0, 0, None))(
        start.states, window, jax.random.key(0)
    )
    weights = np.array([0.125, 0.25, 0.5, 1.0]) * np.asarray(window.observed)
    for b in range(2):
        extra, ema = surprise(-terms.log_likelihood[b], window.observed[b], start.nll[b], alpha=0.7, rate=0.2)
        weights[b] *= np.asarray(extra)
        np.testing.assert_allclose(carry.nll[b], ema, rtol=8 * EPS)
    expected = -np.sum(weights * np.asarray(terms.log_likelihood, float)) / weights.sum()
    assert float(loss) == pytest.approx(expected, rel=32 * EPS)


def test_a_window_without_labels_has_no_loss_and_no_gradient(level):
    params, problem = _problem(level)
    window = _window()._replace(observed=jnp.zeros((2, 4), bool))
    (loss, _), gradient = jax.value_and_grad(window_loss, has_aux=True)(
        params, problem, problem.start(params, 2), window, jnp.array(0), jax.random.key(0)
    )
    assert float(loss) == 0.0
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"objective": "elbow"}, ["elbow", "prior-predictive"]),
        ({"schedule": "chunks"}, ["chunks", "exact"]),
        ({"schedule": "exact", "window": 10, "stride": 3}, ["window", "stride"]),
        ({"window": 0}, ["window"]),
        ({"epochs": 0}, ["epochs"]),
        ({"patience": 0}, ["patience"]),
        ({"recency": 1.5}, ["recency"]),
        ({"validation": 0.95}, ["validation"]),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, words):
    with pytest.raises(LatentTrackError) as caught:
        Training(**settings)
    assert all(word in str(caught.value) for word in words)
