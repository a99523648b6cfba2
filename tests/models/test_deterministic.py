"""The two controls: LatentTrack with a point for a latent, and its summary with a plain head."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.models.base import Window
from latenttrack.models.layout import lay_out
from latenttrack.models.registry import DETERMINISTIC, build
from latenttrack.models.task import Task

TASK = Task(("a", "b", "c"))
SMALL = {"hidden_size": 6, "encoder_size": 4, "predictor": (5,)}
EPS = float(np.finfo(np.float32).eps)


def _tracker(name, **settings):
    tracker = build(name, TASK, jax.random.key(0), **{**SMALL, **settings})
    # Zero biases would hide a forgotten bias.
    return jax.tree.map(lambda leaf: leaf + 0.1 if eqx.is_inexact_array(leaf) else leaf, tracker)


def test_a_point_for_a_latent_is_latent_track_with_no_spread():
    """LatentTrack whose prior has the same mean and next to no variance gives the same forecast."""
    point = _tracker("lt-deterministic", skip=True)
    full = build("lt-unstructured", TASK, jax.random.key(1), features=24, skip=True, **SMALL)
    weight = jnp.concatenate([point.mean.weight, jnp.zeros_like(point.mean.weight)])
    bias = jnp.concatenate([point.mean.bias, jnp.full_like(point.mean.bias, -100.0)])  # clipped at -7
    full = eqx.tree_at(
        lambda t: (t.memory, t.hypernetwork, t.prior.linear.weight, t.prior.linear.bias),
        full,
        (point.memory, point.hypernetwork, weight, bias),
    )
    x, key = jnp.array([0.3, -1.0, 2.0]), jax.random.key(2)
    states = [t.update(t.init(), 0.5 * x, jnp.array(0.7)) for t in (point, full)]
    one, other = point.predict(states[0], x, key), full.predict(states[1], x, key)
    assert one.components.loc.shape == (1,)
    # The latents of `full` still spread by exp(-7) around the point.
    np.testing.assert_allclose(one.mean, other.mean, atol=6 * np.exp(-7.0))
    np.testing.assert_allclose(one.variance, other.variance, rtol=6 * np.exp(-7.0))


@pytest.mark.parametrize("predictor", [(), (5,), (5, 4)])
def test_the_plain_head_is_a_network_on_summary_and_inputs(predictor):
    tracker = _tracker("gru", predictor=predictor, skip=True)
    h, x = jnp.linspace(-1, 1, 6), jnp.array([0.3, -1.0, 2.0])
    out = np.concatenate([h, x])
    for layer in tracker.layers[:-1]:
        out = np.tanh(np.asarray(layer.weight) @ out + np.asarray(layer.bias))
    out = np.asarray(tracker.layers[-1].weight) @ out + np.asarray(tracker.layers[-1].bias)
    out[0] += float(np.asarray(tracker.skip.weight)[0] @ np.asarray(x) + np.asarray(tracker.skip.bias)[0])
    np.testing.assert_allclose(tracker.outputs(h, x, None), out, atol=64 * EPS)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_one_distribution_and_no_ignorance(name):
    tracker = _tracker(name, head="student-t")
    predictive = tracker.predict(tracker.init(), jnp.ones(3), jax.random.key(0))
    assert predictive.components.loc.shape == (1,)
    assert float(predictive.epistemic) == 0.0


@pytest.mark.parametrize("rate", ["summary_dropout", "hidden_dropout"])
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_dropout_is_for_training_alone(name, rate, make_series):
    tracker = _tracker(name, **{rate: 0.5})
    window = Window(*(jnp.asarray(leaf[0]) for leaf in lay_out(make_series((20,)))[0]))
    terms = eqx.filter_jit(lambda t, key: t.window_terms(t.init(), window, key)[0].log_predictive)
    first, second = (terms(tracker, jax.random.key(k)) for k in (0, 1))
    assert not np.allclose(first, second)
    quiet = eqx.nn.inference_mode(tracker)
    np.testing.assert_array_equal(terms(quiet, jax.random.key(0)), terms(quiet, jax.random.key(1)))
    x, key = jnp.ones(3), jax.random.key(0)
    state = tracker.init()
    np.testing.assert_array_equal(tracker.predict(state, x, key).mean, quiet.predict(state, x, key).mean)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_they_are_about_as_large_as_latent_track(name):
    """Within 10 % of 20k at the paper's 13 inputs."""
    task = Task(tuple(f"x{i}" for i in range(13)))
    shapes = eqx.filter_eval_shape(lambda key: build(name, task, key), jax.random.key(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes) if isinstance(leaf, jax.ShapeDtypeStruct))
    assert abs(count / 20_000 - 1) < 0.10
