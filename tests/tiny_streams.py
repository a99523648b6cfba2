"""Tiny streams and untrained models for the tests of live filters."""

import dataclasses

import jax
import numpy as np

import latenttrack as lt
from latenttrack.data.feed import Feed
from latenttrack.data.series import Series
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task

SMALL = {"hidden_size": 4, "encoder_size": 3, "features": 3, "predictor": [3], "K": 4}
HOUR = np.timedelta64(3600, "s")


def make_raw(n=160, delay=3, seed=0):
    """Hourly rows whose label is the level `delay` hours later."""
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(0, 0.3, n + delay)) + np.sin(np.arange(n + delay) * 2 * np.pi / 24)
    x = np.column_stack([level[:n], rng.normal(0, 1, n)])
    time = np.datetime64("2026-01-01T00:00:00", "ns") + np.arange(n) * HOUR
    known = np.where(np.arange(n) + delay < n, level[delay:], np.nan)
    return Series(
        x, known, time, ("level", "wind"), "level", delay=delay, period=24, source="level", horizon=delay
    )


def make_model(raw, *, elapsed=False, **settings):
    """Untrained: what a stream says does not depend on how good it is."""
    choices = {"labels": True, "lags": {"known_label": [1, 5]}, "clip": 6.0, "elapsed": elapsed}
    prepared, _, pipeline = lt.prepare(raw, 0.6, **choices)
    task, name = Task.of(prepared), "latent-track"
    settings = {**SMALL, **settings}
    stack = build_stack(
        lambda key: build(name, task, key, **settings), jax.random.split(jax.random.key(0), 1)
    )
    return lt.Model(name, settings, task, stack, pipeline, feed=Feed.of(raw))


def without_source(model):
    """Labels are sent."""
    return dataclasses.replace(model, feed=dataclasses.replace(model.feed, source=None, horizon=0))
