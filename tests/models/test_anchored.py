"""A network that corrects a reference learns from residuals, and from nothing that only looks like one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.models.anchored import Anchored
from latenttrack.models.base import AbstractTracker, Terms, Window, observe
from latenttrack.models.components import Gaussian
from latenttrack.models.layout import cut, lay_out, pad_front
from latenttrack.models.predictive import Predictive
from latenttrack.models.registry import build_reference
from latenttrack.models.task import Task

SCALE, STEPS = 0.1, 10  # steps of a piece


class Listener(AbstractTracker):
    """Remembers the largest label it was given and how many there were; its terms show what training saw."""

    def init(self):
        return jnp.zeros(()), jnp.zeros((), jnp.int32)

    def update(self, state, x, y):
        return jnp.maximum(state[0], jnp.abs(y)), state[1] + 1

    def predict(self, state, x, key):
        return Predictive.equal(Gaussian(jnp.zeros(1), jnp.ones(1)))

    def window_terms(self, state, window, key):
        def body(state, row):
            return observe(self, state, (row.due_x, row.due_y, row.due_observed), row.x), None

        state, _ = jax.lax.scan(body, state, window)
        return Terms(*[jnp.zeros_like(window.y)] * 3), state


def _pieces(make_series, delay, padding):
    """A random walk far from 0, of small steps, cut into three pieces."""
    steps = np.random.default_rng(0).uniform(-0.1, 0.1, 3 * STEPS)
    series = make_series((3 * STEPS,), y=50 + np.cumsum(steps), delay=delay)
    pieces = cut(lay_out(series)[0], 3, STEPS)
    return Task.of(series), pad_front(jax.tree.map(jnp.asarray, pieces), padding)


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("padding", [0, 4])
def test_the_due_labels_of_the_piece_before_do_not_reach_the_inner_tracker(make_series, delay, padding):
    """Their anchors are not known. The reference hears them, and so the piece's own steps have anchors."""
    task, pieces = _pieces(make_series, delay, padding)
    tracker = Anchored(build_reference("last-label", task), Listener(), SCALE, delay)
    for number, piece in enumerate(Window(*leaves) for leaves in zip(*pieces, strict=True)):
        _, trained = tracker.window_terms(tracker.init(), piece, jax.random.key(0))
        state = tracker.init()
        for row in (Window(*leaves) for leaves in zip(*piece, strict=True)):
            state = observe(tracker, state, (row.due_x, row.due_y, row.due_observed), row.x)
        for largest, count in (trained.inner, state.inner):
            assert largest <= delay * 0.1 / SCALE + 1e-3  # the steps of the walk, not its level
            # The stream's own first labels have no anchor either: nothing was known before them.
            assert count == STEPS - (delay if number else 2 * delay)


def test_a_first_forecast_is_the_mean(make_series):
    """Before any label the anchor is 0, the training mean, also when nothing was advanced."""
    task, _ = _pieces(make_series, 2, 0)
    tracker = Anchored(build_reference("rls", task), Listener(), SCALE, 2)
    forecast = tracker.predict(tracker.init(), jnp.zeros(3), jax.random.key(0))
    assert (float(forecast.mean), float(forecast.variance)) == (0.0, pytest.approx(SCALE**2))
