"""`Model`: a fitted model with everything needed to use it, and its `.lt` file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from latenttrack.data.features import Pipeline
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.models.base import AbstractTracker, parameter_count, partition
from latenttrack.models.leaves import fill_arrays, named_arrays
from latenttrack.models.pooled import Pooled
from latenttrack.models.registry import REFERENCES, build
from latenttrack.models.stack import Stack, stack_shape
from latenttrack.models.task import Task
from latenttrack.models.use import innermost
from latenttrack.store.tensors import read_tensors, write_tensors
from latenttrack.training.automatic import BUDGET, Setup, choose_settings
from latenttrack.training.defaults import check_objective, default_training
from latenttrack.training.fit import Progress, train
from latenttrack.training.settings import Training
from latenttrack.training.suit import Suit, suit
from latenttrack.training.tuning import settle

_KIND = "model"


@dataclass(frozen=True)
class Model:
    """One or several trained seeds of a model.

    Attributes:
        name: the registry name.
        settings: the builder's settings, where they differ from its defaults.
        task: inputs, delay and season that it was built for.
        stack: the trained trackers, one for each seed.
        pipeline: turns raw rows into the model's inputs; None if the series was prepared elsewhere.
        record: how it was trained, JSON-safe.
    """

    name: str
    settings: dict[str, Any]
    task: Task
    stack: Stack
    pipeline: Pipeline | None = None
    record: dict[str, Any] = field(default_factory=dict)

    def trained_on(self, series: Series) -> bool:
        """Whether the weights have seen the end of a series in training."""
        until = self.record.get("until")
        return until is not None and bool(self.record["epochs"]) and _as_number(series.time.max()) <= until

    @property
    def parameters(self) -> int:
        """Trained numbers of one seed."""
        return parameter_count(self.stack[0])

    def save(self, path: str | Path) -> None:
        """Write an `.lt` file: tensors and a JSON header, atomically."""
        header = {
            "model": self.name,
            "settings": self.settings,
            "task": self.task.to_dict(),
            "seeds": len(self.stack),
            "pipeline": None if self.pipeline is None else self.pipeline.to_dict(),
            "record": self.record,
        }
        write_tensors(path, named_arrays(self.stack), header, _KIND)


def load(path: str | Path) -> Model:
    """Read an `.lt` file. Nothing in the file is ever executed."""
    tensors, header = read_tensors(path, _KIND)
    try:
        name, settings, seeds = header["model"], header["settings"], header["seeds"]
        task = Task.from_dict(header["task"])
        pipeline = None if header["pipeline"] is None else Pipeline.from_dict(header["pipeline"])
        record = header["record"]
        shape = stack_shape(_builder(name, task, settings), seeds)
    except (KeyError, TypeError, AttributeError) as error:
        raise LatentTrackError(
            f"{path} describes a model that this version cannot build ({error}): "
            "it was made by another version of latenttrack, so use that one or fit again"
        ) from None
    return Model(name, settings, task, fill_arrays(shape, tensors, str(path)), pipeline, record)


def fit(
    name: str,
    series: Series,
    *,
    seeds: int | Sequence[int] = 1,
    seed: int = 0,
    training: Training | Mapping[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    pipeline: Pipeline | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Model:
    """Train a model by its name on the training part of a stream.

    "latent-track" without settings, training and pipeline chooses all three from the data: give it the series
    as it was loaded.

    Args:
        name: one of the registry's names, such as "lt-unstructured".
        series: the training part, features and labels standardised (see `prepare`); see above for
            "latent-track".
        seeds: how many initialisations to train, or their numbers.
        seed: of everything random; seed number i of the same `seed` is always the same model.
        training: how to train, or the settings that differ from what suits the model, such as {"epochs": 5}.
        settings: the model's sizes and choices, where they differ from the defaults; what the training part
            decides (training/tuning.py) is added.
        pipeline: kept with the model, so that it can be given raw rows later.
        checkpoint: a file to save to after each epoch and to resume from.
        progress: called after each epoch.
    """
    numbers = _seed_numbers(seeds)
    if name == "latent-track" and (training, settings, pipeline) == (None, None, None):
        return fit_chosen(name, series, seeds=seeds, seed=seed, checkpoint=checkpoint, progress=progress)
    task = Task.of(series)
    if not isinstance(training, Training):
        training = default_training(name, training or {})
    check_objective(name, training.objective)
    settings = settle(name, settings or {}, task, series, training.validation)
    trained = train(
        _builder(name, task, settings),
        series,
        training,
        jax.random.key(seed),
        seeds=numbers,
        checkpoint=checkpoint,
        progress=progress,
    )
    record = {
        "training": training.to_dict(),
        "rows": len(series),
        "until": _as_number(series.time.max()),
        "seeds": numbers,
        "seed": seed,
        "epochs": trained.epochs,
        "final_loss": [_finite(v) for v in trained.history[-1]["loss"]] if trained.history else [],
    }
    return Model(name, settings, task, trained.stack, pipeline, record)


def fit_chosen(
    name: str,
    series: Series,
    *,
    suited: Suit | None = None,
    budget: int = BUDGET,
    like: Model | None = None,
    seeds: int | Sequence[int] = 1,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Model:
    """Train a network whose inputs and settings are chosen from the data (training/automatic.py).

    Choices are made once, with seed 0, and hold for all seeds.

    Args:
        name: a model with LatentTrack's memory: "latent-track", "lt-deterministic", "gru".
        series: the training part as it was loaded, not prepared.
        suited: inputs and transform, if they are known already.
        budget: updates that may be spent on trials.
        like: a model that `fit_chosen` gave, whose anchor, dropout and updates are taken in place of trials.
        seeds: how many initialisations to train, or their numbers.
        seed: of everything random.
        checkpoint: a file to save to after each epoch and to resume from; trials are noted beside it, in a
            file with `.trials` at its end.
        progress: called after each epoch of each trial and of training.
    """
    suited = suit(series) if suited is None else suited
    train_part, pipeline = suited.prepare(series)
    notes = None if checkpoint is None else Path(f"{checkpoint}.trials")
    choices = choose_settings(
        name,
        suited,
        train_part,
        seed=seed,
        budget=budget,
        setup=None if like is None else Setup(*like.record["setup"]),
        notes=notes,
        progress=progress,
    )
    model = fit(
        name,
        train_part,
        seeds=seeds,
        seed=seed,
        training=choices.training,
        settings=choices.settings,
        pipeline=pipeline,
        checkpoint=checkpoint,
        progress=progress,
    )
    chosen = {
        "choices": list(choices.words),
        "setup": list(choices.setup),
        "trials": [list(trial[:5]) for trial in choices.trials],
    }
    return replace(model, record={**model.record, **chosen})


def pool(model: Model) -> Model:
    """Mix the seeds of a fitted model into one: a model with a single seed, and no further training.

    Every forecast is the equal mixture of the S networks' forecasts. Anchor, informant, safety net and
    recalibration, which learn online and have no weights, are there once, around that mixture.

    Args:
        model: a network with at least two seeds, as `fit` returns it.
    """
    count = len(model.stack)
    if model.name in REFERENCES:
        raise LatentTrackError(
            f"{model.name} is a reference without weights, and all its seeds are alike: use it as it is"
        )
    if "pool" in model.settings:
        raise LatentTrackError(f"{model.name} is pooled already: pool a model that was fitted without `pool`")
    if count < 2:
        raise LatentTrackError(
            f"{model.name} has one seed, and there is nothing to pool: fit it with seeds=3, for example"
        )
    seeds = [model.stack[i] for i in range(count)]
    # Outside the networks all seeds are alike.
    tracker = eqx.tree_at(innermost, seeds[0], Pooled.of([innermost(seed) for seed in seeds]))
    params, rest = partition(tracker)
    stack = Stack(jax.tree.map(lambda leaf: leaf[None], params), rest, 1)
    return replace(model, settings={**model.settings, "pool": count}, stack=stack)


def _seed_numbers(seeds: int | Sequence[int]) -> list[int]:
    """How many, or which: the numbers of the seeds."""
    numbers = [int(s) for s in (seeds if isinstance(seeds, Iterable) else range(seeds))]
    if not numbers or min(numbers) < 0:
        raise LatentTrackError(f"seeds is {seeds}: give at least one seed, and no negative numbers")
    return numbers


def _builder(name: str, task: Task, settings: dict[str, Any]) -> Callable[[Any], AbstractTracker]:
    return lambda key: build(name, task, key, **settings)


def _as_number(time: np.datetime64 | float) -> int | float:
    """Nanoseconds since 1970, or the number of the step."""
    return int(time.astype(np.int64)) if isinstance(time, np.datetime64) else float(time)


def _finite(value: float) -> float | None:
    """JSON has no NaN."""
    return value if value == value and abs(value) != float("inf") else None
