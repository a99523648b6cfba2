"""`train`: every seed of a model from one compiled program, with progress, checkpoints and early stopping."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from latenttrack.data.series import Series, require_learnable
from latenttrack.models.base import AbstractTracker, Window
from latenttrack.models.layout import cut, hide_unknown, lay_out
from latenttrack.models.stack import Stack, build_stack, in_groups
from latenttrack.models.use import innermost, log_unit, pool_stack, seen_inside
from latenttrack.training.checkpoint import describe_optimiser, fingerprint, load_checkpoint, save_checkpoint
from latenttrack.training.schedules import EPOCHS, updates_per_epoch
from latenttrack.training.settings import Training
from latenttrack.training.step import Learner, Problem, new_learner
from latenttrack.training.validation import Best, Tail, mean_unit, no_best, validate, validation_tail

# From this many parallel sequences on, one update alone keeps the cores busy, and seeds one after another are
# faster than side by side (benchmarks/seeds.py).
_WIDE_ENOUGH = 16


class Progress(NamedTuple):
    """One finished epoch."""

    epoch: int  # epochs finished
    epochs: int  # epochs planned
    loss: float  # training loss, mean over the seeds that still run
    validation: float  # NLL on the validation tail, likewise; NaN without one
    stage: str = "training"  # or which trial


class Trained(NamedTuple):
    """The result of `train`."""

    stack: Stack
    history: list[dict[str, Any]]  # one entry an epoch: loss and validation of every seed
    epochs: list[int]  # the epoch whose weights each seed ended with
    seen: "Seen | None" = None  # what the network saw of the series


class _Run(NamedTuple):
    """The state of one seed: what is being learned, and the best of it."""

    learner: Learner
    best: Best


def train(
    build: Callable[[PRNGKeyArray], AbstractTracker],
    series: Series,
    training: Training,
    key: PRNGKeyArray,
    *,
    seeds: int | Sequence[int] = 1,
    together: bool | None = None,
    pool: int | None = None,
    seen: "Seen | None" = None,
    last: bool = False,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Trained:
    """Train a model on a series, many seeds at once.

    Args:
        build: draws a tracker's initial weights from a key.
        series: the training part, standardised; several keys train one model together, each with its own
            state.
        training: objective, schedule, optimiser, ...
        key: seed s uses `fold_in(key, s)` and nothing else, so its result does not depend on the other seeds.
        seeds: how many, or which.
        pool: networks of each seed, trained one by one and then mixed into one tracker; None: a single one.
        together: True vmaps the seeds, False trains them one after another; None takes what is faster for the
            shape.
        seen: what `see_series` gave for the same series, validation and tracker, to save its time.
        last: keep the last weights of a seed, not those that did best on the validation part.
        checkpoint: a file to which every epoch is saved; if it exists the run goes on from there.
        progress: called after every epoch.
    """
    require_learnable(series)
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if pool is not None:
        numbers = [number * pool + member for number in numbers for member in range(pool)]
    keys = jnp.stack([jax.random.fold_in(key, s) for s in numbers])
    whole = build_stack(build, jax.vmap(lambda k: jax.random.fold_in(k, 0))(keys))
    if not jax.tree.leaves(whole.params):  # a reference: it learns online, there is nothing to train
        return Trained(whole, [], [0] * len(numbers))

    start = Stack(innermost(whole.params), innermost(whole.rest), len(whole))
    seen = see_series(series, training, whole[0]) if seen is None else seen
    loop = _Loop(start.rest, training, seen, together)
    optimiser = training.make_optimiser(loop.updates)
    runs = jax.vmap(lambda p: _Run(new_learner(optimiser, p), no_best(p)))(start.params)
    mark = _mark(series, training, whole, numbers, key)
    runs, history = _all_epochs(
        loop, runs, keys, None if checkpoint is None else Path(checkpoint), mark, progress
    )
    if seen.tail is None or last:
        params, epochs = runs.learner.average, [training.epochs] * len(numbers)
    else:
        params, epochs = runs.best.params, [int(e) + 1 for e in runs.best.epoch]
    stack = whole.replace(eqx.tree_at(innermost, whole.params, params))
    return Trained(stack if pool is None else pool_stack(stack, pool), history, epochs, seen)


def _mark(series: Series, training: Training, whole: Stack, numbers: list[int], key: PRNGKeyArray) -> str:
    """The digest of all that decides a run: by it a checkpoint is known to be of the same one."""
    plan = {
        "training": training.to_dict(),
        "seeds": numbers,
        "key": jax.random.key_data(key).tolist(),
        "delay": series.delay,
        # Without the addresses of functions, which are others in the next process.
        "model": re.sub(r" at 0x[0-9a-f]+", "", eqx.tree_pformat(whole)),
    }
    if training.optimiser is not None:
        plan["optimiser"] = describe_optimiser(training.optimiser, innermost(whole.params))
    return fingerprint(series, plan)


def _all_epochs(
    loop: "_Loop",
    runs: _Run,
    keys: Array,
    checkpoint: Path | None,
    mark: str,
    progress: Callable[[Progress], None] | None,
) -> tuple[_Run, list[dict[str, Any]]]:
    """Epoch after epoch until the last, or until every seed has run out of patience."""
    epochs = loop.epochs
    first, history = 0, list[dict[str, Any]]()
    if checkpoint is not None and checkpoint.exists():
        runs, first, history = load_checkpoint(checkpoint, runs, mark)
    for epoch in range(first, epochs):
        if bool(jnp.all(runs.best.stopped)):
            break
        runs, report = loop.epoch(runs, keys, epoch)
        history.append(report)
        if checkpoint is not None:
            save_checkpoint(checkpoint, runs, epoch + 1, history, mark)
        if progress is not None:
            progress(Progress(epoch + 1, epochs, _mean(report["loss"]), _mean(report["validation"])))
    return runs, history


class Seen(NamedTuple):
    """What the trained tracker sees of a series: training windows, validation tail, mean log of its unit."""

    data: Window
    tail: Tail | None
    unit: float


def see_series(series: Series, training: Training, tracker: AbstractTracker) -> Seen:
    """Let references speak from the streams' beginning on, and cut the streams into training windows."""

    def see(window: Window) -> tuple[Window, np.ndarray]:
        if innermost(tracker) is tracker:
            return window, np.zeros(window.y.shape, np.float32)
        inside = jax.jit(jax.vmap(lambda stream: (seen_inside(tracker, stream), log_unit(tracker, stream))))
        seen: tuple[Window, np.ndarray] = jax.tree.map(np.asarray, inside(jax.tree.map(jnp.asarray, window)))
        return seen

    tail, past = None, series
    if training.validation > 0:
        past, late = series.split(1.0 - training.validation)
        require_learnable(past)
        tail = validation_tail(series, late.time.min(), see)
    window, sequences = lay_out(past)
    window, units = see(hide_unknown(window, sequences, series.delay))
    multiple = training.stride if training.schedule == "exact" else training.window
    pieces = max(round(training.sequences / len(series.keys)), 1)
    return Seen(cut(window, pieces, multiple), tail, float(mean_unit(units, np.asarray(window.observed))))


class _Loop:
    """Epochs of one training run, all of them with one compiled program."""

    def __init__(self, rest: PyTree[Any], training: Training, seen: Seen, together: bool | None):
        data = seen.data
        self.epochs = training.epochs
        self.updates = updates_per_epoch(training, data.y.shape[1]) * training.epochs
        self.unit = seen.unit  # a loss in the trained tracker's labels plus this is one in the series' labels
        self.together = data.y.shape[0] < _WIDE_ENOUGH if together is None else together
        # What may differ between runs of one shape is an array, not a constant of the program, so that runs
        # with other data, seeds or lengths need not be compiled again.
        steps = jnp.asarray(max(int(data.observed.sum()), 1), jnp.float32)
        fixed = replace(training, epochs=1)
        self.setting = _Setting(rest, fixed, jnp.asarray(self.updates, jnp.float32), steps)
        self.data = jax.tree.map(jnp.asarray, (data, seen.tail))

    def epoch(self, runs: _Run, keys: Array, epoch: int) -> tuple[_Run, dict[str, list[float]]]:
        """One epoch of every seed, side by side or one after another; stopped seeds rest."""
        number, nothing = jnp.asarray(epoch), _Report(jnp.array(jnp.nan), jnp.array(jnp.nan))
        if self.together:
            resting = runs.best.stopped
            runs, report = in_groups(
                lambda g: _epoch_of_all(g[0], g[1], number, self.data, self.setting), (runs, keys)
            )
            report = _Report(*(jnp.where(resting, jnp.nan, value) for value in report))
        else:
            results = [
                (run, nothing) if run.best.stopped else _epoch_of_one(run, k, number, self.data, self.setting)
                for run, k in zip(_split(runs, len(keys)), keys, strict=True)
            ]
            runs, report = _join([r for r, _ in results]), _join([e for _, e in results])
        report = report._replace(loss=report.loss + self.unit)
        return runs, {k: np.asarray(v).tolist() for k, v in report._asdict().items()}


class _Setting(NamedTuple):
    """What stays fixed during a run."""

    rest: PyTree[Any]  # the tracker's non-trained part
    training: Training
    updates: Float[Array, ""]  # planned
    steps: Float[Array, ""]  # labelled training steps


def _epoch(
    run: _Run, key: PRNGKeyArray, epoch: Array, data: tuple[Window, Tail | None], setting: _Setting
) -> tuple[_Run, "_Report"]:
    training = setting.training
    problem = Problem(setting.rest, training, training.make_optimiser(setting.updates), setting.steps)
    windows, tail = data
    k_epoch, k_validate = jax.random.split(jax.random.fold_in(key, epoch + 1))
    learner, loss = EPOCHS[training.schedule](run.learner, problem, windows, k_epoch)
    if tail is None:
        return _Run(learner, run.best), _Report(loss, jnp.array(jnp.nan))
    best, score = validate(learner, run.best, problem, tail, epoch, k_validate)
    return _Run(learner, best), _Report(loss, score)


_epoch_of_one = eqx.filter_jit(_epoch)


@eqx.filter_jit
def _epoch_of_all(
    runs: _Run, keys: Array, epoch: Array, data: tuple[Window, Tail | None], setting: _Setting
) -> tuple[_Run, "_Report"]:
    return jax.vmap(lambda run, key: _epoch(run, key, epoch, data, setting))(runs, keys)


class _Report(NamedTuple):
    """What one epoch of one seed reports; NaN where there is nothing to say."""

    loss: Array
    validation: Array


def _mean(values: list[float]) -> float:
    finite = [v for v in values if not np.isnan(v)]
    return float(np.mean(finite)) if finite else float("nan")


def _join(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _split(tree: PyTree[Any], count: int) -> list[Any]:
    return [jax.tree.map(operator.itemgetter(i), tree) for i in range(count)]
