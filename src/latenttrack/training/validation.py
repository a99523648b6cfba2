"""Early stopping: how a seed does on the newest part of its training data, and whether to go on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from latenttrack.data.series import Series
from latenttrack.models.base import Window
from latenttrack.models.layout import hide_unknown, lay_out
from latenttrack.models.use import in_use
from latenttrack.training.step import Learner, Problem

_CONTEXT = 512  # steps before the validation part on which the belief is built up


class Tail(NamedTuple):
    """The validation part with some context before it, and which of its steps count."""

    window: Window  # [B, T, ...]
    counts: Bool[np.ndarray, "B T"]


def validation_tail(
    series: Series, cut: np.datetime64 | float, see: Callable[[Window], Window] = lambda window: window
) -> Tail:
    """Steps from `cut` on count; up to 512 steps before it warm the belief up.

    Args:
        series: the training part with its tail.
        cut: time at which the tail begins.
        see: from whole streams [B, T, ...] to what the trained tracker sees of them.
    """
    window, sequences = lay_out(series)
    window = see(hide_unknown(window, sequences, series.delay))
    late = sequences.valid & (series.time[sequences.row] >= cut)
    begin = max(int(np.argmax(late, axis=1)[late.any(axis=1)].min()) - _CONTEXT, 0)
    window = Window(*(leaf[:, begin:] for leaf in window))
    return Tail(window, late[:, begin:] & np.asarray(window.observed))


class Best(NamedTuple):
    """The best weights of one seed so far."""

    params: PyTree[Any]
    score: Float[Array, ""]  # validation NLL
    epoch: Int[Array, ""]
    stopped: Bool[Array, ""]  # out of patience: later epochs no longer count for this seed


def no_best(params: PyTree[Any]) -> Best:
    """Before the first epoch."""
    return Best(params, jnp.float32(jnp.inf), jnp.int32(-1), jnp.array(False))


def validate(
    learner: Learner, best: Best, problem: Problem, tail: Tail, epoch: Array, key: PRNGKeyArray
) -> tuple[Best, Float[Array, ""]]:
    """Score the averaged weights on the tail; keep them if they are the best of this seed.

    The score is the model's own filter score: no dropout, prior-predictive mixture, labels when they are due.
    """
    tracker = in_use(problem.tracker(learner.average))
    carry = problem.start(learner.average, tail.counts.shape[0])
    keys = jax.random.split(key, tail.counts.shape[0])
    terms, _ = jax.vmap(tracker.window_terms)(carry.states, tail.window, keys)
    total = jnp.sum(jnp.where(tail.counts, terms.log_predictive, 0.0))
    score = -total / jnp.maximum(jnp.sum(tail.counts), 1)
    better = (score < best.score) & ~best.stopped
    patience = problem.training.patience
    kept = jax.tree.map(lambda new, old: jnp.where(better, new, old), learner.average, best.params)
    best = Best(
        kept,
        jnp.where(better, score, best.score),
        jnp.where(better, epoch.astype(jnp.int32), best.epoch),
        best.stopped | (~better & (epoch - best.epoch >= patience)),
    )
    return best, score
