"""Panels: networks that see different inputs, weighted by the likelihood of labels."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.filtering.offline import trace_series
from latenttrack.models.averaged import POWER, SHARE
from latenttrack.models.base import step
from latenttrack.models.capacity import capacity
from latenttrack.models.layout import lay_out
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task
from latenttrack.models.use import in_use, innermost, pool_stack

SIZES = {"hidden_size": 6, "latent_size": 2, "encoder_size": 4, "features": 3, "predictor": (3,), "K": 4}
OWN = ("day_sin1", "x0")
D = 2


@pytest.fixture(scope="module")
def series(make_series):
    return make_series((40,), delay=D)


@pytest.fixture(scope="module")
def stack(series):
    def make(key):
        settings = {"informant": "rls", "second_shown": OWN, "anchor": "last-label", **SIZES}
        return build("lt-unstructured", Task.of(series), key, **settings)

    return build_stack(make, jax.random.split(jax.random.key(0), 2))


@pytest.fixture(scope="module")
def panel(stack):
    return innermost(stack[0])


def _seen(panel, T=12):
    rng = np.random.default_rng(1)
    return rng.normal(size=(T, panel.size)).astype(np.float32), rng.normal(size=T).astype(np.float32)


def test_the_first_sees_all_the_second_what_it_is_shown(panel, series):
    """And both hear the informant, whose four numbers come last."""
    names = series.names
    assert panel.columns[0] == tuple(range(len(names) + 4))
    assert panel.columns[1] == (*map(names.index, OWN), *range(len(names), len(names) + 4))


def test_the_forecast_is_the_mixture_by_weights_that_follow_the_rule(panel):
    """Every member goes its own way; w' = (1 - share) w p^eta / Z + share / M, from equal weights on."""
    x, y = map(jnp.asarray, _seen(panel))
    state, key = panel.init(), jax.random.key(0)
    alone = [member.init() for member in panel.members]
    run, weights, kept = eqx.filter_jit(step), np.array([0.5, 0.5]), []
    for t in range(len(x)):
        known = t >= D
        due = (x[t - D], y[t - D], jnp.array(known))
        forecast, state = run(panel, state, due, x[t], key)
        if known:
            p = np.exp([float(f.log_prob(due[1])) for f in kept[t - D]]) ** (POWER / D)
            weights = (1 - SHARE) * weights * p / (weights @ p) + SHARE / 2
        forecasts = []
        for m, (member, columns) in enumerate(zip(panel.members, panel.columns, strict=True)):
            own = (due[0][jnp.array(columns)], *due[1:])
            one, alone[m] = run(member, alone[m], own, x[t][jnp.array(columns)], key)
            forecasts.append(one)
        kept.append(forecasts)
        expected = np.log(weights @ np.exp([float(f.log_prob(y[t])) for f in forecasts]))
        assert float(forecast.log_prob(y[t])) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert abs(weights[0] - 0.5) > 1e-3


def test_each_member_is_trained_by_itself(panel, series):
    """The value is the score of the mixture, the gradient of the mean: none leaves hard steps to others."""
    window, _ = lay_out(series)
    rng = np.random.default_rng(2)
    x = jnp.asarray(rng.normal(size=(*window.y.shape, panel.size)), jnp.float32)
    window = jax.tree.map(jnp.asarray, window._replace(x=x, due_x=x))
    window = jax.tree.map(lambda leaf: leaf[0], window)
    panel, key = in_use(panel), jax.random.key(0)

    def of(one):
        return jnp.sum(one.window_terms(one.init(), window, key)[0].log_predictive)

    gradient = eqx.filter_grad(of)(panel).members
    for member, columns, found in zip(panel.members, panel.columns, gradient, strict=True):
        seen = jnp.array(columns)
        own = window._replace(x=window.x[:, seen], due_x=window.due_x[:, seen])

        def score(one, own=own):
            return 0.5 * jnp.sum(one.window_terms(one.init(), own, key)[0].log_predictive)

        expected = eqx.filter_grad(score)(member)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_weights_of_training_data_are_forgotten(stack, series):
    """Through every wrapper: who sees most columns knows them by heart."""
    pooled = pool_stack(stack, 2)[0]
    for tracker in (stack[0], pooled):
        state = tracker.init()
        panel_state = state.inner.inner
        moved = panel_state._replace(
            log_weights=jnp.zeros_like(panel_state.log_weights) - jnp.array([0.1, 3.0])
        )
        state = state._replace(inner=state.inner._replace(inner=moved))
        renewed = tracker.renew(state).inner.inner.log_weights
        np.testing.assert_allclose(np.exp(renewed), 0.5)


def test_seeds_of_panels_are_pooled(stack, series):
    """Each keeps its own weights; forecasts are finite over a stream."""
    pooled = pool_stack(stack, 2)
    weights = trace_series(pooled[0], series, lambda state: state.inner.inner.log_weights)
    assert np.exp(weights).sum(axis=-1) == pytest.approx(1.0, rel=1e-5)
    assert weights.shape[1:] == (2, 2)


def test_its_parameters_are_those_of_both(series):
    task = Task.of(series)
    both = capacity(lambda key: build("gru", task, key, informant="rls", second_shown=OWN), task.size)
    one = capacity(lambda key: build("gru", task, key, informant="rls"), task.size)
    other = capacity(lambda key: build("gru", task, key, informant="rls", shown=OWN), task.size)
    assert both.total == one.total + other.total
