"""Trackers inside trackers: what is trained of them is what is used."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.models.layout import lay_out
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task
from latenttrack.models.transformed import fit_transform
from latenttrack.models.use import in_use, innermost, log_unit, seen_inside

SIZES = {"hidden_size": 4, "latent_size": 2, "encoder_size": 4, "features": 3, "predictor": (3,), "K": 4}
TRANSFORM = fit_transform("log", np.linspace(1.0, 20.0, 50), 4.0, 1.0)  # labels are from -2 to 2
WRAPPED = {
    "plain": {},
    "anchored": {"anchor": "last-label", "anchor_scale": 0.5},
    "informed": {"informant": "rls"},
    "shown": {"informant": "rls", "shown": ("day_sin1", "x0")},
    "two": {"informant": "rls", "second_shown": ("day_sin1", "x0")},
    "transformed": {"transform": TRANSFORM},
    "all": {
        "transform": TRANSFORM,
        "anchor": "rls",
        "anchor_scale": 0.5,
        "informant": "rls-t",
        "safety_net": ("last-label",),
        "recalibrate": True,
        "correct": True,
        "prompt": True,
    },
}


def _build(series, **settings):
    """A tracker whose weights are drawn in one compiled program: quicker than one by one."""
    make = functools.partial(build, "lt-unstructured", Task.of(series), **settings, **SIZES)
    return build_stack(make, jax.random.split(jax.random.key(0), 1))[0]


def _terms(tracker, window):
    return tracker.window_terms(tracker.init(), window, jax.random.key(1))[0]


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("case", WRAPPED)
def test_the_inner_tracker_sees_what_it_would_see_inside(case, delay, make_series):
    """Terms of the whole tracker on a stream from its beginning == terms of the innermost on what it sees."""
    y = make_series((40,)).y.copy()
    y[10:14] = np.nan
    series = make_series((40,), y=y, delay=delay)
    tracker = in_use(_build(series, **WRAPPED[case]))
    inner = innermost(tracker)
    window = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), lay_out(series)[0])
    whole, seen = eqx.filter_jit(lambda t, w: (_terms(t, w), seen_inside(t, w)))(tracker, window)
    alone = eqx.filter_jit(_terms)(inner, seen)
    observed = np.asarray(window.observed)
    np.testing.assert_allclose(
        whole.log_predictive[observed],
        (alone.log_predictive - log_unit(tracker, window))[observed],
        rtol=1e-4,
        atol=1e-4,
    )


def test_an_informant_hears_labels_when_they_are_due(make_series):
    """Its surprise at step t is about the label of step t - D, and 0 where that is missing."""
    y = make_series((30,)).y.copy()
    y[7] = np.nan
    series = make_series((30,), y=y, delay=3)
    tracker = _build(series, informant="rls")
    window = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), lay_out(series)[0])
    seen = np.asarray(seen_inside(tracker, window).x)
    mean, log_sd, u, wild = seen[:, -4:].T
    assert (u[:3] == 0).all()
    assert u[10] == wild[10] == 0
    for t in (5, 12, 29):
        expected = np.clip((float(window.y[t - 3]) - mean[t - 3]) / np.exp(log_sd[t - 3]), -6, 6)
        assert u[t] == pytest.approx(expected, rel=1e-4)
        assert wild[t] == pytest.approx(abs(expected) - 0.7, rel=1e-4, abs=1e-5)


def test_what_is_not_shown_is_heard_of_through_the_informant(make_series):
    """The network sees the columns that are shown, and what the informant says of all."""
    series = make_series((30,), delay=2)
    window = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), lay_out(series)[0])
    every = np.asarray(seen_inside(_build(series, informant="rls"), window).x)
    some = np.asarray(seen_inside(_build(series, informant="rls", shown=("day_sin1", "x0")), window).x)
    names = series.names
    np.testing.assert_array_equal(some[:, :2], every[:, [names.index("day_sin1"), names.index("x0")]])
    np.testing.assert_array_equal(some[:, 2:], every[:, -4:])


def test_a_prompt_memory_hears_x_at_once(make_series):
    """With delay 3 a change of x_t moves the memory that step t is predicted from."""
    series = make_series((12,), delay=3)
    x = jnp.asarray(series.x[5], jnp.float32)
    for prompt in (True, False):
        tracker = _build(series, prompt=prompt)
        before = tracker.memory.read(tracker.advance(tracker.init(), x))
        after = tracker.memory.read(tracker.advance(tracker.init(), x + 1.0))
        assert (np.asarray(before) != np.asarray(after)).any() == prompt
