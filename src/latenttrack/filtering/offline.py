"""The offline filter: one compiled scan over a whole series, for any number of seeds.

Each step is `models.base.step` (update with the label that is due, advance with x, predict), and then the
forecast is recorded beside the label that it did not see.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.models.base import AbstractTracker, State, Window
from latenttrack.models.layout import lay_out
from latenttrack.models.predictive import Predictive
from latenttrack.models.scan import filter_stream
from latenttrack.models.stack import Stack, in_groups

# (forecast, label) -> a pytree of scalars to keep. Both are in original units, but counted from `y_loc`: the
# scores are the same, and single precision would leave little of labels that lie far from 0.
Recorder = Callable[[Predictive, Float[Array, ""]], PyTree[Any]]
_PLACES = ("mean", "lower", "upper")  # what a recorder calls so is moved to where it belongs afterwards


class Forecast(NamedTuple):
    """The moments of a forecast: what the default recorder keeps."""

    mean: Float[Array, ""]
    aleatoric: Float[Array, ""]
    epistemic: Float[Array, ""]
    log_prob: Float[Array, ""]
    pit: Float[Array, ""]


def record_forecast(predictive: Predictive, y: Float[Array, ""]) -> Forecast:
    """Mean, the two variances, log p(y) and P(Y <= y)."""
    return Forecast(
        predictive.mean, predictive.aleatoric, predictive.epistemic, predictive.log_prob(y), predictive.cdf(y)
    )


def filter_series(
    stack: Stack,
    series: Series,
    key: PRNGKeyArray,
    *,
    past: Series | None = None,
    trained: bool = False,
    record: Recorder = record_forecast,
) -> PyTree[np.ndarray]:
    """Filter a series online with frozen weights: predict, score, update, in that order.

    Args:
        stack: one tracker for each seed.
        series: what to predict; every key is a stream of its own.
        key: for trackers that draw at random; seed s, stream b, step t uses its own fold of it.
        past: the rows before `series`: folded into the belief first, and the source of labels still due.
        trained: whether the weights were trained on `past`: how well it was predicted is then forgotten.
        record: what to keep of each forecast.

    Returns:
        What the recorder gives, with numpy arrays [seeds, rows], in the order of the rows of `series`. Rows
        without a label are predicted too; what the recorder says of their label is NaN.
    """
    head, rest, chosen = _cut(series, past)
    scale = jnp.float32(series.y_scale)
    numbers = jnp.arange(len(stack))

    def run(group: tuple[PyTree[Array], Array]) -> PyTree[Array]:
        return _run(stack.rest, *group, head, rest, scale, key, record, trained)

    records = in_groups(run, (stack.params, numbers))

    # [S, B, T] -> [S, rows]: the rows of each stream stand in order, and streams one after another.
    found = jax.tree.map(lambda leaf: np.asarray(leaf)[:, chosen], records)
    places = {
        name: series.y_loc + getattr(found, name).astype(float) for name in _PLACES if hasattr(found, name)
    }
    return found._replace(**places) if places else found


def trace_series(
    tracker: AbstractTracker,
    series: Series,
    look: Callable[[State], Array],
    *,
    past: Series | None = None,
    trained: bool = False,
) -> np.ndarray:
    """What can be seen in the belief from which each row of a series is predicted.

    Args:
        tracker: one seed.
        series: what to filter; every key is a stream of its own.
        look: from a state to an array [...].
        past: the rows before `series`, folded into the belief first.
        trained: as for `filter_series`.

    Returns:
        [rows, ...], in the order of the rows of `series`.
    """
    parts = _cut(series, past)

    @eqx.filter_jit
    def run(tracker: AbstractTracker, head: Window, rest: Window) -> Array:
        def keep(_forecast: Predictive, state: State, _row: Window) -> Array:
            return look(state)

        def one(head: Window, rest: Window) -> Array:
            key = jax.random.key(0)  # a belief is the same whatever is drawn from it
            return filter_stream(tracker, head, rest, key, keep, trained=trained)[0]

        return jax.vmap(one)(head, rest)

    return np.asarray(run(tracker, *jax.tree.map(jnp.asarray, parts[:2])))[parts.chosen]


class _Cut(NamedTuple):
    """What is filtered: steps that are only folded in, steps that are predicted, and which of those count."""

    head: Window
    rest: Window
    chosen: Bool[np.ndarray, "B T"]


def _cut(series: Series, past: Series | None) -> _Cut:
    whole = series if past is None else _append(past, series)
    window, sequences = lay_out(whole)
    new = sequences.valid & ~_contains(past, whole, sequences.row)
    # Every stream is in its past for at least `begin` steps: there nothing need be predicted.
    begin = int(np.argmax(new, axis=1)[new.any(axis=1)].min())
    head, rest = (Window(*(leaf[:, part] for leaf in window)) for part in (slice(begin), slice(begin, None)))
    return _Cut(head, rest, new[:, begin:])


@eqx.filter_jit
def _run(
    fixed: PyTree[Any],
    params: PyTree[Array],
    seeds: Int[Array, " S"],
    head: Window,
    rest: Window,
    scale: Float[Array, ""],
    key: PRNGKeyArray,
    record: Recorder,
    trained: bool,
) -> PyTree[Array]:
    """Some seeds x all streams: warm up on `head`, filter `rest`; leaves [S, B, T]."""

    def keep(forecast: Predictive, _state: State, row: Window) -> PyTree[Array]:
        return _recorded(forecast, row.y, row.observed, scale, record)

    def one_seed(params: PyTree[Array], seed: Array) -> PyTree[Array]:
        tracker = eqx.combine(params, fixed)
        keys = jax.random.split(jax.random.fold_in(key, seed), rest.y.shape[0])

        def one(head: Window, rest: Window, key: PRNGKeyArray) -> PyTree[Array]:
            return filter_stream(tracker, head, rest, key, keep, trained=trained)[0]

        return jax.vmap(one)(head, rest, keys)

    return jax.vmap(one_seed)(params, seeds)


def _recorded(
    predictive: Predictive, y: Array, observed: Bool[Array, ""], scale: Float[Array, ""], record: Recorder
) -> PyTree[Array]:
    """Forecast and label as a `Recorder` sees them; a missing label is NaN and so is what depends on it."""
    label = jnp.where(observed, scale * y, jnp.nan)
    return record(predictive.affine(jnp.zeros_like(scale), scale), label)


def _append(past: Series, series: Series) -> Series:
    """The rows of both, stream by stream."""
    if past.names != series.names or past.delay != series.delay or past.keys != series.keys:
        raise LatentTrackError(
            "past and series differ in features, delay or keys: prepare both with the same pipeline"
        )
    if (past.y_loc, past.y_scale) != (series.y_loc, series.y_scale):
        raise LatentTrackError(
            f"the labels of past are standardised by ({past.y_loc:g}, {past.y_scale:g}) and those of series "
            f"by ({series.y_loc:g}, {series.y_scale:g}): prepare both with the same pipeline"
        )
    order = np.argsort(np.concatenate([past.key, series.key]), kind="stable")

    def join(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.concatenate([a, b])[order]

    return dataclasses.replace(
        series,
        x=join(past.x, series.x),
        y=join(past.y, series.y),
        time=join(past.time, series.time),
        key=join(past.key, series.key),
    )


def _contains(past: Series | None, whole: Series, row: np.ndarray) -> Bool[np.ndarray, "B T"]:
    """Which cells of the layout are rows of the past: the first ones of each stream."""
    if past is None:
        return np.zeros(row.shape, bool)
    lengths = np.bincount(past.key, minlength=len(whole.keys))
    return np.arange(row.shape[1])[None, :] < lengths[:, None]
