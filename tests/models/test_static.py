"""The static baselines: what their randomness stands for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from latenttrack.models.registry import build
from latenttrack.models.task import Task

TASK = Task(("a", "b", "c"))
X = jnp.array([0.7, -1.2, 0.4])


def _numpy(layers):
    return [(np.asarray(layer.weight, float), np.asarray(layer.bias, float)) for layer in layers]


def test_local_reparameterisation_has_the_law_of_sampled_weights():
    """Raw outputs from noise per unit and from noise per weight: the same mean and variance, and two-sample
    KS.
    """
    n = 20_000
    bbb = build("bbb", TASK, jax.random.key(0), hidden=(6, 5), initial_sd=0.4, draws="independent", K=n)
    local = np.asarray(eqx.filter_jit(bbb.outputs)(X, bbb.draws(jax.random.key(1))), float)

    rng = np.random.default_rng(0)
    hidden = np.broadcast_to(np.asarray(X, float), (n, 3))
    layers = list(zip(_numpy(bbb.means), _numpy(bbb.rhos), strict=True))
    for i, ((weight, bias), (weight_rho, bias_rho)) in enumerate(layers):
        w = weight + np.logaddexp(0, weight_rho) * rng.normal(size=(n, *weight.shape))
        b = bias + np.logaddexp(0, bias_rho) * rng.normal(size=(n, *bias.shape))
        units = np.einsum("noi,ni->no", w, hidden) + b
        hidden = units if i == len(layers) - 1 else np.tanh(units)

    for ours, theirs in zip(local.T, hidden.T, strict=True):
        assert abs(ours.mean() - theirs.mean()) < 5 * np.sqrt((ours.var() + theirs.var()) / n)
        error = np.sqrt((_square_variance(ours) + _square_variance(theirs)) / n)
        assert abs(ours.var() - theirs.var()) < 5 * error
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-3
        assert theirs.std() > 0.1


def _square_variance(values):
    return np.var((values - values.mean()) ** 2)


def test_bbb_weight_kl_is_the_sum_of_closed_forms():
    bbb = build("bbb", TASK, jax.random.key(0), hidden=(4,), initial_sd=0.3)
    total = 0.0
    for (weight, bias), (weight_rho, bias_rho) in zip(_numpy(bbb.means), _numpy(bbb.rhos), strict=True):
        for m, rho in ((weight, weight_rho), (bias, bias_rho)):
            s = np.logaddexp(0, rho)
            total += np.sum(0.5 * (s**2 + m**2 - 1) - np.log(s))
    assert float(bbb.weight_kl()) == pytest.approx(total, rel=1e-5)
    np.testing.assert_allclose(jax.nn.softplus(bbb.rhos[0].weight), 0.3, rtol=1e-5)


def test_mc_dropout_keeps_units_at_its_rate():
    """Units are dropped with probability `rate`, and those kept are scaled so that the mean is unchanged."""
    n, rate = 20_000, 0.3
    net = build("mc-dropout", TASK, jax.random.key(0), hidden=(4,), rate=rate, draws="independent", K=n)
    out = np.asarray(eqx.filter_jit(net.outputs)(X, net.noise(net.draws, jax.random.key(1))), float)
    (w1, b1), (w2, b2) = _numpy(net.layers)
    units = np.tanh(w1 @ np.asarray(X, float) + b1)
    expected = w2 @ units + b2
    variance = (w2**2) @ units**2 * rate / (1 - rate)
    assert (np.abs(out.mean(axis=0) - expected) < 5 * np.sqrt(variance / n)).all()
    errors = np.sqrt([_square_variance(column) / n for column in out.T])
    assert (np.abs(out.var(axis=0) - variance) < 5 * errors).all()


def test_ensemble_forecast_is_its_members():
    ensemble = build("deep-ensemble", TASK, jax.random.key(0), members=3, hidden=(5, 4))
    predictive = ensemble.predict((), X, jax.random.key(0))
    for i in range(3):
        first, second, last = jax.tree.map(lambda leaf, i=i: leaf[i], ensemble.members)
        mean, log_variance = last(jnp.tanh(second(jnp.tanh(first(X)))))
        np.testing.assert_allclose(predictive.components.loc[i], mean, rtol=1e-5)
        np.testing.assert_allclose(predictive.components.scale[i], jnp.exp(0.5 * log_variance), rtol=1e-5)
    assert float(predictive.epistemic) > 0
