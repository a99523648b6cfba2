"""`train`: every seed of a model from one compiled program, with progress, checkpoints and early stopping."""

import operator
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from latenttrack.data.series import Series, require_learnable
from latenttrack.models.base import AbstractTracker, Window
from latenttrack.models.layout import cut, hide_unknown, lay_out
from latenttrack.models.stack import Stack, build_stack, in_groups
from latenttrack.models.use import innermost, log_unit, seen_inside
from latenttrack.training.checkpoint import describe_optimiser, fingerprint, load_checkpoint, save_checkpoint
from latenttrack.training.schedules import EPOCHS, updates_per_epoch
from latenttrack.training.settings import Training
from latenttrack.training.step import Learner, Problem, new_learner
from latenttrack.training.validation import Best, Tail, no_best, validate, validation_tail

# From this many parallel sequences on, one update alone keeps the cores busy, and seeds one after another are
# faster than side by side (benchmarks/seeds.py).
_WIDE_ENOUGH = 16


class Progress(NamedTuple):
    """One finished epoch."""

    epoch: int  # epochs finished
    epochs: int  # epochs planned
    loss: float  # training loss, mean over the seeds that still run
    validation: float  # NLL on the validation tail, likewise; NaN without one


class Trained(NamedTuple):
    """The result of `train`."""

    stack: Stack
    history: list[dict[str, Any]]  # one entry an epoch: loss and validation of every seed
    epochs: list[int]  # the epoch whose weights each seed ended with


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
        together: True vmaps the seeds, False trains them one after another; None takes what is faster for the
            shape.
        checkpoint: a file to which every epoch is saved; if it exists the run goes on from there.
        progress: called after every epoch.
    """
    require_learnable(series)
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    keys = jnp.stack([jax.random.fold_in(key, s) for s in numbers])
    whole = build_stack(build, jax.vmap(lambda k: jax.random.fold_in(k, 0))(keys))
    if not jax.tree.leaves(whole.params):  # a reference: it learns online, there is nothing to train
        return Trained(whole, [], [0] * len(numbers))

    start = Stack(innermost(whole.params), innermost(whole.rest), len(whole))
    data, tail = _prepare(series, training, whole[0])
    updates = updates_per_epoch(training, data.y.shape[1]) * training.epochs
    problem = Problem(
        start.rest, training, training.make_optimiser(updates), max(int(data.observed.sum()), 1)
    )
    runs = jax.vmap(lambda p: _Run(new_learner(problem, p), no_best(p)))(start.params)
    wide = data.y.shape[0] >= _WIDE_ENOUGH
    loop = _Loop(problem, data, tail, log_unit(whole[0]), together=not wide if together is None else together)
    plan = {
        "training": training.to_dict(),
        "seeds": numbers,
        "key": jax.random.key_data(key).tolist(),
        "delay": series.delay,
        # Without the addresses of functions, which are others in the next process.
        "model": re.sub(r" at 0x[0-9a-f]+", "", eqx.tree_pformat(whole)),
    }
    if training.optimiser is not None:
        plan["optimiser"] = describe_optimiser(training.optimiser, start.params)
    mark = fingerprint(series, plan)
    runs, history = _all_epochs(
        loop, runs, keys, None if checkpoint is None else Path(checkpoint), mark, progress
    )
    if tail is None:
        params, epochs = runs.learner.average, [training.epochs] * len(numbers)
    else:
        params, epochs = runs.best.params, [int(e) + 1 for e in runs.best.epoch]
    return Trained(whole.replace(eqx.tree_at(innermost, whole.params, params)), history, epochs)


def _all_epochs(
    loop: "_Loop",
    runs: _Run,
    keys: Array,
    checkpoint: Path | None,
    mark: str,
    progress: Callable[[Progress], None] | None,
) -> tuple[_Run, list[dict[str, Any]]]:
    """Epoch after epoch until the last, or until every seed has run out of patience."""
    epochs = loop.problem.training.epochs
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


def _prepare(series: Series, training: Training, tracker: AbstractTracker) -> tuple[Window, Tail | None]:
    """What the trained tracker sees: the training windows, and the validation tail if one is kept."""

    def see(window: Window) -> Window:
        if innermost(tracker) is tracker:
            return window
        inside = jax.jit(jax.vmap(lambda stream: seen_inside(tracker, stream)))
        seen: Window = jax.tree.map(np.asarray, inside(jax.tree.map(jnp.asarray, window)))
        return seen

    tail, past = None, series
    if training.validation > 0:
        past, late = series.split(1.0 - training.validation)
        require_learnable(past)
        tail = validation_tail(series, late.time.min(), see)
    window, sequences = lay_out(past)
    window = see(hide_unknown(window, sequences, series.delay))
    multiple = training.stride if training.schedule == "exact" else training.window
    pieces = max(round(training.sequences / len(series.keys)), 1)
    return cut(window, pieces, multiple), tail


class _Loop:
    """The compiled epoch and its data: one program for every epoch and every seed."""

    def __init__(self, problem: Problem, data: Window, tail: Tail | None, unit: float, *, together: bool):
        self.problem = problem
        self.unit = unit  # added to an NLL in the trained tracker's labels, it is one in the series' labels
        self.together = together
        self.data = jax.tree.map(jnp.asarray, (data, tail))
        self.one = jax.jit(self._epoch)
        self.all = jax.jit(jax.vmap(self._epoch, in_axes=(0, 0, None, None)))

    def epoch(self, runs: _Run, keys: Array, epoch: int) -> tuple[_Run, dict[str, list[float]]]:
        """One epoch of every seed, side by side or one after another; stopped seeds rest."""
        number, nothing = jnp.asarray(epoch), _Report(jnp.array(jnp.nan), jnp.array(jnp.nan))
        if self.together:
            resting = runs.best.stopped
            runs, report = in_groups(lambda group: self.all(*group, number, self.data), (runs, keys))
            report = _Report(*(jnp.where(resting, jnp.nan, value) for value in report))
        else:
            results = [
                (run, nothing) if run.best.stopped else self.one(run, k, number, self.data)
                for run, k in zip(_split(runs, len(keys)), keys, strict=True)
            ]
            runs, report = _join([r for r, _ in results]), _join([e for _, e in results])
        return runs, {k: (np.asarray(v) + self.unit).tolist() for k, v in report._asdict().items()}

    def _epoch(
        self, run: _Run, key: PRNGKeyArray, epoch: Array, data: tuple[Window, Tail | None]
    ) -> tuple[_Run, "_Report"]:
        windows, tail = data
        k_epoch, k_validate = jax.random.split(jax.random.fold_in(key, epoch + 1))
        learner, loss = EPOCHS[self.problem.training.schedule](run.learner, self.problem, windows, k_epoch)
        if tail is None:
            return _Run(learner, run.best), _Report(loss, jnp.array(jnp.nan))
        best, score = validate(learner, run.best, self.problem, tail, epoch, k_validate)
        return _Run(learner, best), _Report(loss, score)


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
