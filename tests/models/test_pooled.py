"""Pools: several networks that forecast as one mixture, and are otherwise left alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

import latenttrack as lt
from latenttrack.models.averaged import Averaged
from latenttrack.models.base import step
from latenttrack.models.capacity import capacity
from latenttrack.models.layout import lay_out
from latenttrack.models.pooled import Pooled
from latenttrack.models.registry import build
from latenttrack.models.stack import Stack, build_stack, stack_shape
from latenttrack.models.task import Task
from latenttrack.models.use import in_use, innermost

EPS = float(np.finfo(np.float32).eps)
S = 3
_LT = {"hidden_size": 6, "latent_size": 2, "encoder_size": 4, "features": 3, "predictor": (3,), "K": 4}
SMALL = {
    "lt-unstructured": {**_LT, "head": "student-t", "summary_dropout": 0.5, "hidden_dropout": 0.2},
    "gru": {"hidden_size": 6, "encoder_size": 4, "predictor": (3,), "skip": True, "hidden_dropout": 0.2},
    "deep-ensemble": {"members": 2, "hidden": (4,)},
}
EVERYTHING = {
    "anchor": "last-label",
    "anchor_scale": 0.5,
    "informant": "rls",
    "safety_net": ["rls-t", "last-label"],
    "recalibrate": True,
}


def _stack(name, task, count, **settings):
    make = lambda key: build(name, task, key, **settings)  # noqa: E731
    return build_stack(make, jax.random.split(jax.random.key(0), count))


@pytest.fixture(scope="module")
def series(make_series):
    return make_series((60,), delay=2)


@pytest.fixture(scope="module")
def model(series):
    """Three seeds as `fit` gives them, but untrained: what pooling does to them is the same."""
    task = Task.of(series)
    settings = SMALL["lt-unstructured"]
    return lt.Model("lt-unstructured", settings, task, _stack("lt-unstructured", task, S, **settings))


@pytest.mark.parametrize("name", ["gru", "deep-ensemble"])
def test_the_forecast_is_the_mixture_of_the_members(name, series):
    """And so are its moments; every member goes its own way."""
    stack = _stack(name, Task.of(series), S, **SMALL[name])
    members = [stack[i] for i in range(S)]
    pooled = Pooled.of(members)
    x = jnp.asarray(series.x, jnp.float32)
    due = (x[0], jnp.float32(0.3), jnp.array(True))
    run = eqx.filter_jit(lambda t, s, x: step(t, s, due, x, jax.random.key(0)))
    state, states = pooled.init(), [member.init() for member in members]
    for row in x[:4]:
        forecast, state = run(pooled, state, row)
        alone = [run(member, s, row) for member, s in zip(members, states, strict=True)]
        states = [s for _, s in alone]
    for i, single in enumerate(states):
        for mine, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(single), strict=True):
            np.testing.assert_allclose(mine[i], theirs, rtol=64 * EPS, atol=16 * EPS)
    for y in (-2.0, 0.1, 4.0):
        y = jnp.float32(y)
        scores = jnp.stack([p.log_prob(y) for p, _ in alone])
        expected = float(logsumexp(scores) - jnp.log(S))
        assert float(forecast.log_prob(y)) == pytest.approx(expected, rel=64 * EPS, abs=64 * EPS)
    means = np.array([p.mean for p, _ in alone])
    second = np.array([p.variance for p, _ in alone]) + means**2
    assert float(forecast.mean) == pytest.approx(means.mean(), abs=64 * EPS)
    assert float(forecast.variance) == pytest.approx(second.mean() - means.mean() ** 2, rel=1e-4)
    assert float(jnp.sum(forecast.weights)) == pytest.approx(1.0, rel=16 * EPS)


def test_pooling_seeds_mixes_their_densities(model, series, tmp_path):
    """p(y) of the pool == the mean over seeds, for every step of the filter; and after saving and loading."""
    seeds = lt.evaluate(model, series)
    pooled = lt.pool(model)
    assert (seeds.seeds, len(pooled.stack), pooled.settings["pool"]) == (S, 1, S)
    assert pooled.parameters == S * model.parameters
    assert "pool" not in model.settings
    found = lt.evaluate(pooled, series)
    scores = -seeds.steps["nll"].astype(float)
    np.testing.assert_allclose(
        -found.steps["nll"][0], logsumexp(scores, axis=0) - np.log(S), rtol=1e3 * EPS, atol=1e3 * EPS
    )
    assert not np.allclose(seeds.steps["nll"][0], seeds.steps["nll"][1])
    pooled.save(tmp_path / "m.lt")
    loaded = lt.load(tmp_path / "m.lt")
    assert loaded.settings == {**pooled.settings, "predictor": [3]}
    for field, values in lt.evaluate(loaded, series).steps.items():
        np.testing.assert_array_equal(values, found.steps[field])


@pytest.mark.slow
def test_wrappers_stand_around_the_pool_once(series, tmp_path):
    """Anchor, informant, net and recalibration are shared; the pool has the place of one network."""
    settings = {**SMALL["gru"], **EVERYTHING}
    task = Task.of(series)
    single = lt.Model("gru", settings, task, _stack("gru", task, S, **settings))
    pooled = lt.pool(single)
    tracker = pooled.stack[0]
    assert isinstance(tracker.inner, Averaged)
    assert tracker.inner.names == ("gru", "rls-t", "last-label")
    assert isinstance(innermost(tracker), Pooled)
    assert eqx.tree_equal(tracker.inner.references, single.stack[0].inner.references)
    shape = stack_shape(lambda key: build("gru", task, key, **pooled.settings), 1)
    assert jax.tree.structure(shape) == jax.tree.structure(pooled.stack)
    pooled.save(tmp_path / "m.lt")
    assert eqx.tree_equal(lt.load(tmp_path / "m.lt").stack, pooled.stack)
    records = lt.evaluate(pooled, series)
    assert np.isfinite(records.steps["nll"]).all()


def test_every_member_is_drawn_from_a_key_of_its_own(series):
    task, key = Task.of(series), jax.random.key(3)
    pooled = build("gru", task, key, pool=S, **SMALL["gru"])
    for i, k in enumerate(jax.random.split(key, S)):
        single = build("gru", task, k, **SMALL["gru"])
        for mine, theirs in zip(
            jax.tree.leaves(eqx.filter(pooled.members, eqx.is_array)),
            jax.tree.leaves(eqx.filter(single, eqx.is_array)),
            strict=True,
        ):
            np.testing.assert_allclose(mine[i], theirs, rtol=16 * EPS)
    plain = capacity(lambda k: build("gru", task, k, **SMALL["gru"]), task.size)
    pool = capacity(lambda k: build("gru", task, k, pool=S, **SMALL["gru"]), task.size)
    assert pool == tuple(S * count for count in plain)


def test_in_use_reaches_the_members(series):
    tracker = _stack("lt-unstructured", Task.of(series), 1, pool=2, **SMALL["lt-unstructured"])[0]
    used = in_use(tracker)
    assert not tracker.members.summary_dropout.inference
    assert used.members.summary_dropout.inference
    assert used.members.hypernetwork.dropout.inference
    assert eqx.tree_equal(used.members.train_draws, used.members.draws)
    assert used.members.draws.points.value.shape == (2, 4, 2)
    assert innermost(tracker) is tracker


def test_training_scores_the_mixture_and_moves_every_member_by_itself(series):
    """`log_predictive` is the log of the mean density; its gradient is that of the members' mean score."""
    stack = _stack("gru", Task.of(series), S, **SMALL["gru"] | {"hidden_dropout": 0.0})
    pooled = Pooled.of([stack[i] for i in range(S)])
    window = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, :20]), lay_out(series)[0])

    def total(tracker):
        scores = tracker.window_terms(tracker.init(), window, jax.random.key(0))[0].log_predictive
        return jnp.sum(scores), scores

    run = eqx.filter_jit(eqx.filter_value_and_grad(total, has_aux=True))
    (_, found), gradient = run(pooled)
    alone = [run(stack[i]) for i in range(S)]
    scores = jnp.stack([scores for (_, scores), _ in alone])
    expected = logsumexp(scores, axis=0) - np.log(S)
    np.testing.assert_allclose(found, expected, rtol=1e2 * EPS, atol=1e2 * EPS)
    for i, (_, single) in enumerate(alone):
        for mine, theirs in zip(jax.tree.leaves(gradient.members), jax.tree.leaves(single), strict=True):
            np.testing.assert_allclose(mine[i], theirs / S, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_pool_can_be_trained_directly(make_series):
    series = make_series((150,))
    training = {"epochs": 1, "sequences": 2, "window": 32, "validation": 0.3}
    model = lt.fit("gru", series, training=training, settings={**SMALL["gru"], "pool": 2})
    weights = model.stack[0].members.layers[0].weight
    before = build("gru", model.task, jax.random.key(0), pool=2, **SMALL["gru"]).members.layers[0].weight
    assert weights.shape == before.shape
    assert np.isfinite(weights).all()
    assert not np.allclose(weights[0], weights[1])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m, s: lt.pool(lt.fit("last-label", s, seeds=2)), "last-label is a reference.*use it as it"),
        (lambda m, s: lt.pool(lt.pool(m)), "pooled already.*nothing to pool"),
        (lambda m, s: lt.pool(lt.Model(m.name, m.settings, m.task, _first(m))), "one seed.*seeds=3"),
        (lambda m, s: build("rls", m.task, jax.random.key(0), pool=2), "takes no anchor, informant, pool"),
        (lambda m, s: build("gru", m.task, jax.random.key(0), pool=1), "'pool' is 1: give .* at least 2"),
        (lambda m, s: build("gru", m.task, jax.random.key(0), pool=True), "'pool' is True"),
    ],
)
def test_mistakes_get_one_sentence(model, make_series, call, says):
    with pytest.raises(lt.LatentTrackError, match=says) as caught:
        call(model, make_series((80,)))
    assert "\n" not in str(caught.value)


def _first(model):
    """The stack of the first seed alone."""
    return Stack(jax.tree.map(lambda leaf: leaf[:1], model.stack.params), model.stack.rest, 1)
