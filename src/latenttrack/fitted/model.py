"""`Model`: a fitted model with everything needed to use it, and its `.lt` file."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

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
        return until is not None and bool(self.record["epochs"]) and as_number(series.time.max()) <= until

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
        shape = stack_shape(builder(name, task, settings), seeds)
    except (KeyError, TypeError, AttributeError) as error:
        raise LatentTrackError(
            f"{path} describes a model that this version cannot build ({error}): "
            "it was made by another version of latenttrack, so use that one or fit again"
        ) from None
    return Model(name, settings, task, fill_arrays(shape, tensors, str(path)), pipeline, record)


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


def builder(name: str, task: Task, settings: dict[str, Any]) -> Callable[[PRNGKeyArray], AbstractTracker]:
    """What draws a model's first weights from a key."""
    return lambda key: build(name, task, key, **settings)


def as_number(time: np.datetime64 | float) -> int | float:
    """Nanoseconds since 1970, or the number of the step."""
    return int(time.astype(np.int64)) if isinstance(time, np.datetime64) else float(time)
