"""The compiled step of a live filter: its packing, its device, and that it agrees with the offline filter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.data.features import Pipeline
from latenttrack.data.feed import Feed
from latenttrack.data.series import Series
from latenttrack.filtering import device
from latenttrack.filtering.live import LiveFilter
from latenttrack.filtering.offline import filter_series
from latenttrack.filtering.packing import Packing
from latenttrack.filtering.program import LEVELS, Program, Units
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task

STEPS = 150
PRESET = {
    "informant": "rls",
    "correct": True,
    "safety_net": ["rls-t", "seasonal-naive", "last-label"],
    "anchor": "last-label",
    "recalibrate": True,
    "hidden_size": 4,
    "K": 6,
}


def _series(delay: int) -> Series:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS, 3))
    y = 1000.0 + 5.0 * x[:, 0] + rng.standard_t(4, STEPS)
    hours = np.datetime64("2026-01-01T00", "ns") + np.arange(STEPS) * np.timedelta64(1, "h")
    return Series(x=x, y=y, time=hours, names=("a", "b", "c"), delay=delay, period=24)


def test_packing_keeps_every_bit():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, (3, 5), dtype=np.uint32)  # among them NaNs of every kind
    tree = {
        "words": jnp.asarray(bits),
        "floats": jax.lax.bitcast_convert_type(jnp.asarray(bits), jnp.float32),
        "integer": jnp.int32(-7),
        "flags": jnp.array([True, False]),
        "flag": jnp.array(True),
        "number": jnp.float32(-0.0),
    }
    packing = Packing.of(tree)
    packed = jax.jit(packing.pack)(tree)
    again = jax.jit(packing.unpack)(packed)
    assert packed.shape == (packing.size,)
    for before, after in zip(jax.tree.leaves(tree), jax.tree.leaves(again), strict=True):
        assert after.dtype == before.dtype
        assert np.asarray(after).tobytes() == np.asarray(before).tobytes()


@pytest.mark.parametrize("delay", [1, 6])
def test_the_live_filter_says_what_the_offline_filter_says(delay):
    data = _series(delay)
    pipeline = Pipeline.fit(data, labels=True, lags=[1, 2], clip=6.0)
    prepared = pipeline.transform(data)
    stack = build_stack(
        lambda key: build("latent-track", Task.of(prepared), key, **PRESET),
        jax.random.split(jax.random.key(0), 1),
    )
    offline = filter_series(stack, prepared, jax.random.key(0))
    units = Units(pipeline.y_loc, pipeline.y_scale)
    program = Program(stack[0], len(pipeline.names), units, LEVELS)
    live = LiveFilter(program, pipeline, Feed.of(data))
    said, pits = [], np.full(STEPS, np.nan)
    for t in range(STEPS):
        said.append(live.predict(data.x[t], time=data.time[t]))
        known = t - delay + 1
        if known >= 0:
            pits[known] = live.observe(float(data.y[known]), time=data.time[known]).surprise
    spread = data.y.std()
    np.testing.assert_allclose([p.mean for p in said], offline.mean[0], atol=1e-4 * spread)
    seen = slice(0, STEPS - delay)
    np.testing.assert_allclose(pits[seen], offline.pit[0][seen], atol=1e-4)
    quantiles = np.array([[*p.quantiles.values()] for p in said])
    assert np.all(np.diff(quantiles, axis=1) > 0)
    assert program.start().devices() == {device.live_device()}


def test_reports_and_scores_are_in_original_units():
    """A regression's forecast is known in closed form; labels far from 0 lose no digits on the way."""
    task, units, levels = Task(("a", "b")), Units(1e6, 20.0), (0.1, 0.5, 0.9)
    tracker = build("rls", task, jax.random.key(0))
    program = Program(tracker, 2, units, levels)
    track = program.start()
    rng = np.random.default_rng(1)
    state, due = tracker.init(), np.zeros(2, np.float32)
    learn = jax.jit(lambda state, x, y: tracker.update(state, x, y))
    for number in range(20):
        x, y = rng.normal(size=2).astype(np.float32), 1e6 + 20.0 * rng.normal()
        track = program.step(track, program.inputs(due, y if number else np.nan, x, number))
        if number:
            state = learn(state, due, np.float32((y - units.loc) / units.scale))
        due = x
    forecast = tracker.predict(state, jnp.asarray(due), jax.random.key(0))
    mean, sd = float(forecast.mean), float(jnp.sqrt(forecast.variance))
    quantiles = 1e6 + 20.0 * np.asarray(jax.vmap(forecast.quantile)(jnp.array(levels)), np.float64)
    expected = [1e6 + 20.0 * mean, 20.0 * sd, 400.0 * sd**2, 0.0, *quantiles]
    np.testing.assert_allclose(program.report(track), expected, rtol=0, atol=2e-3 * sd)
    pit, log_score = program.score(track, 1e6 + 7.0)
    assert pit == pytest.approx(float(forecast.cdf(jnp.float32(7.0 / 20.0))), abs=1e-6)
    expected = float(forecast.log_prob(jnp.float32(7.0 / 20.0))) - np.log(20.0)
    assert log_score == pytest.approx(expected, abs=1e-5)


def test_without_a_client_of_its_own_the_live_filter_uses_that_of_jax(monkeypatch):
    from jaxlib import xla_client

    def refuse(**_: object) -> None:
        raise TypeError("another version")

    monkeypatch.setattr(xla_client, "make_cpu_client", refuse)
    device.live_device.cache_clear()
    try:
        assert device.live_device() == jax.devices("cpu")[0]
    finally:
        device.live_device.cache_clear()
