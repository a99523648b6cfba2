"""`fit`: from a name and a training part to a `Model`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from latenttrack.data.features import Pipeline
from latenttrack.data.feed import Feed
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.fitted.model import Model, as_number, builder
from latenttrack.models.task import Task
from latenttrack.training.automatic import BUDGET, choose_settings
from latenttrack.training.defaults import check_objective, default_training
from latenttrack.training.fit import Progress, Trained, train
from latenttrack.training.settings import Training
from latenttrack.training.setup import Setup
from latenttrack.training.suit import Suit, suit
from latenttrack.training.tuning import settle


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
    # Members of a pool are trained one by one: on the score of their mixture they would leave hard steps to
    # each other.
    single = {n: v for n, v in settings.items() if n != "pool"}
    trained = train(
        builder(name, task, single),
        series,
        training,
        jax.random.key(seed),
        seeds=numbers,
        pool=settings.get("pool"),
        checkpoint=checkpoint,
        progress=progress,
    )
    record = _record(series, training, trained, numbers, seed)
    feed = None if pipeline is None else _feed(series, pipeline)
    return Model(name, settings, task, trained.stack, pipeline, record, feed)


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
        like: a model of `fit_chosen`, whose anchor, size, dropout and updates take the place of trials.
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
        "trials": [[*trial.setup, trial.nll] for trial in choices.trials],
    }
    return replace(model, record={**model.record, **chosen}, feed=Feed.of(series))


def _record(
    series: Series, training: Training, trained: Trained, numbers: list[int], seed: int
) -> dict[str, Any]:
    """How a model was trained, in plain JSON values."""
    return {
        "training": training.to_dict(),
        "rows": len(series),
        "until": as_number(series.time.max()),
        "seeds": numbers,
        "seed": seed,
        "epochs": trained.epochs,
        "final_loss": [_finite(v) for v in trained.history[-1]["loss"]] if trained.history else [],
    }


def _feed(series: Series, pipeline: Pipeline) -> Feed:
    """How to go on after a prepared series: what was plausible before it was prepared is not known."""
    everything = (-math.inf, math.inf)
    return replace(
        Feed.of(series),
        inputs=pipeline.inputs,
        limits=(everything,) * len(pipeline.inputs),
        target_limits=everything,
    )


def _seed_numbers(seeds: int | Sequence[int]) -> list[int]:
    """How many, or which: the numbers of the seeds."""
    numbers = [int(s) for s in (seeds if isinstance(seeds, Iterable) else range(seeds))]
    if not numbers or min(numbers) < 0:
        raise LatentTrackError(f"seeds is {seeds}: give at least one seed, and no negative numbers")
    return numbers


def _finite(value: float) -> float | None:
    """JSON has no NaN."""
    return value if value == value and abs(value) != float("inf") else None
