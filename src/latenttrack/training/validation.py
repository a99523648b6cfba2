"""Early stopping: how a seed does on the newest part of its training data, and whether to go on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from latenttrack.data.series import Series
from latenttrack.models.base import AbstractTracker, State, Window
from latenttrack.models.corrected import Corrected
from latenttrack.models.layout import hide_unknown, lay_out
from latenttrack.models.predictive import Predictive
from latenttrack.models.scan import filter_stream
from latenttrack.models.use import in_use
from latenttrack.training.step import Learner, Problem

_CONTEXT = 512  # steps before the validation part on which the belief is built up


class Tail(NamedTuple):
    """The validation part with some context before it, and which of its steps count."""

    window: Window  # [B, T, ...]
    counts: Bool[np.ndarray, "B T"]
    unit: Float[np.ndarray, ""]  # their NLL in the window's labels plus this is one in the series' labels


def validation_tail(
    series: Series, cut: np.datetime64 | float, see: Callable[[Window], tuple[Window, np.ndarray]]
) -> Tail:
    """Steps from `cut` on count; up to 512 steps before it warm the belief up.

    Args:
        series: the training part with its tail.
        cut: time at which the tail begins.
        see: from whole streams [B, T, ...] to what the trained tracker sees of them, and the log of its unit
            [B, T].
    """
    window, sequences = lay_out(series)
    window, log_unit = see(hide_unknown(window, sequences, series.delay))
    late = sequences.valid & (series.time[sequences.row] >= cut)
    begin = max(int(np.argmax(late, axis=1)[late.any(axis=1)].min()) - _CONTEXT, 0)
    window = Window(*(leaf[:, begin:] for leaf in window))
    counts = late[:, begin:] & np.asarray(window.observed)
    return Tail(window, counts, mean_unit(log_unit[:, begin:], counts))


def mean_unit(log_unit: Float[np.ndarray, "B T"], counts: Bool[np.ndarray, "B T"]) -> Float[np.ndarray, ""]:
    """The mean over the steps that count; 0 if none does."""
    return np.asarray(log_unit[counts].mean() if counts.any() else 0.0, np.float32)


class Best(NamedTuple):
    """The best weights of one seed so far."""

    params: PyTree[Any]
    score: Float[Array, ""]  # validation NLL, in the series' labels
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
    nll = tail_nll(problem.tracker(learner.average), tail, key)
    score = jnp.sum(jnp.where(tail.counts, nll, 0.0)) / jnp.maximum(jnp.sum(tail.counts), 1)
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


def tail_nll(tracker: AbstractTracker, tail: Tail, key: PRNGKeyArray) -> Float[Array, "B T"]:
    """NLL at every step of the tail, of a tracker as it is used; in the series' labels on average."""
    batch = tail.counts.shape[0]
    tracker = in_use(tracker)
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (batch, *leaf.shape)), tracker.init())
    terms, _ = jax.vmap(tracker.window_terms)(states, tail.window, jax.random.split(key, batch))
    nll: Array = jnp.asarray(tail.unit) - terms.log_predictive
    return nll


def nll_in_use(
    network: AbstractTracker, tail: Tail, delay: int, key: PRNGKeyArray
) -> Float[np.ndarray, " N"]:
    """NLL of the N labels of the tail that count, in order of time, of a network as it is used.

    That is as a filter, corrected online (models/corrected.py) by what it misses from the tail's first label
    on (of several streams, from that of the first one to have any): what a correction can undo is no reason
    to choose another network.
    """
    begin = int(np.argmax(tail.counts.any(axis=0)))
    head, rest = (
        Window(*(jnp.asarray(leaf[:, part]) for leaf in tail.window))
        for part in (slice(begin), slice(begin, None))
    )
    corrected = Corrected(network, rest.x.shape[-1], delay)
    nll = tail.unit - np.asarray(_filter(corrected, head, rest, key))
    return nll.T[tail.counts[:, begin:].T]  # several streams side by side


@eqx.filter_jit
def _filter(tracker: AbstractTracker, head: Window, rest: Window, key: PRNGKeyArray) -> Float[Array, "B T"]:
    """log p of every label of `rest` under the filter itself."""
    tracker = in_use(tracker)

    def keep(forecast: Predictive, _state: State, row: Window) -> Array:
        return forecast.log_prob(row.y)

    def one(head: Window, rest: Window, key: PRNGKeyArray) -> Array:
        scores: Array = filter_stream(tracker, head, rest, key, keep, trained=True)[0]
        return scores

    return jax.vmap(one)(head, rest, jax.random.split(key, rest.y.shape[0]))
