"""`Model`: a fitted model with everything needed to use it, and its `.lt` file."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PRNGKeyArray

from latenttrack.data.features import Pipeline
from latenttrack.data.feed import Feed
from latenttrack.data.matching import shown
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.keeping import LiveState
from latenttrack.filtering.program import Program
from latenttrack.models.base import AbstractTracker, parameter_count
from latenttrack.models.leaves import fill_arrays, named_arrays
from latenttrack.models.registry import REFERENCES, build
from latenttrack.models.stack import Stack, stack_shape
from latenttrack.models.task import Task
from latenttrack.models.use import innermost, pool_stack
from latenttrack.store.tensors import read_tensors, write_tensors

if TYPE_CHECKING:
    from latenttrack.filtering.forecasting import Forecast
    from latenttrack.fitted.stream import Stream

_KIND = "model"
_START = "start."
_MOST = 1_000_000  # of any count or size in a file
_MOST_LAYERS = 100


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
        feed: how live rows are read.
        start: the belief from which its streams begin; None: from nothing.
        programs: what is compiled for its streams, by the quantiles they report; copies with the same weights
            share it.
    """

    name: str
    settings: dict[str, Any]
    task: Task
    stack: Stack
    pipeline: Pipeline | None = None
    record: dict[str, Any] = field(default_factory=dict)
    feed: Feed | None = None
    start: LiveState | None = None
    programs: dict[tuple[float, ...], Program] = field(default_factory=dict, repr=False, compare=False)

    def trained_on(self, series: Series) -> bool:
        """Whether the weights have seen the end of a series in training."""
        until = self.record.get("until")
        return until is not None and bool(self.record["epochs"]) and as_number(series.time.max()) <= until

    @property
    def file(self) -> dict[str, Any]:
        """What was understood of the file that it was fitted on; empty if it was none."""
        found: dict[str, Any] = self.record.get("file", {})
        return found

    @property
    def parameters(self) -> int:
        """Trained numbers of one seed."""
        return parameter_count(self.stack[0])

    def stream(self, past: Series | None = None, **choices: Any) -> "Stream":
        """The model at work on a live stream: see `Stream` for the choices."""
        from latenttrack.fitted.stream import Stream

        return Stream(self, past, **choices)

    def forecast(
        self,
        steps: int,
        recent: object = None,
        covariates: object = None,
        *,
        samples: int = 200,
        seed: int = 0,
    ) -> "Forecast":
        """The target [H] at each of H = `steps` steps after the model's own data, or after `recent` rows.

        See `Stream.forecast`.
        """
        from latenttrack.fitted.forecast import require_one_stream

        require_one_stream(self)
        return self.stream().forecast(steps, recent, covariates, samples=samples, seed=seed)

    def advance(self, series: Series) -> "Model":
        """The model with a belief that has seen a series, without refitting: its streams begin there.

        Args:
            series: rows of a single stream, as they were loaded: from the beginning for a model that was not
                advanced before, later ones for one that was.
        """
        from latenttrack.fitted.stream import advanced

        return advanced(self, series)

    def save(self, path: str | Path) -> None:
        """Write an `.lt` file: tensors and a JSON header, atomically."""
        tensors, header = to_parts(self)
        write_tensors(path, tensors, header, _KIND)


def load(path: str | Path) -> Model:
    """Read an `.lt` file. Nothing in the file is ever executed."""
    return from_parts(*read_tensors(path, _KIND), str(path))


def to_parts(model: Model) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the JSON header that a file keeps of a model."""
    start = LiveState({}, {}) if model.start is None else model.start
    header = {
        "model": model.name,
        "settings": model.settings,
        "task": model.task.to_dict(),
        "seeds": len(model.stack),
        "pipeline": None if model.pipeline is None else model.pipeline.to_dict(),
        "feed": None if model.feed is None else model.feed.to_dict(),
        "record": model.record,
        "start": None if model.start is None else start.header,
    }
    return {**named_arrays(model.stack), **{_START + n: a for n, a in start.tensors.items()}}, header


def from_parts(tensors: dict[str, np.ndarray], header: dict[str, Any], source: str) -> Model:
    """The inverse of `to_parts`.

    Args:
        tensors: arrays by name.
        header: the JSON header.
        source: where they come from, for the error message.
    """
    try:
        name, settings, seeds = header["model"], header["settings"], header["seeds"]
        _check_sizes(header)
        task = Task.from_dict(header["task"])
        pipeline = None if header["pipeline"] is None else Pipeline.from_dict(header["pipeline"])
        feed = None if header.get("feed") is None else Feed.from_dict(header["feed"])
        record, start = header["record"], header.get("start")
        _check_parts(task, pipeline, feed)
        shape = stack_shape(builder(name, task, settings), seeds)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise LatentTrackError(
            f"{source} describes a model that this version cannot build ({error}): "
            "it was made by another version of latenttrack, so use that one or fit again"
        ) from None
    live = {name[len(_START) :]: a for name, a in tensors.items() if name.startswith(_START)}
    weights = {name: a for name, a in tensors.items() if not name.startswith(_START)}
    stack = fill_arrays(shape, weights, source)
    state = None if start is None else LiveState(live, start)
    return Model(name, settings, task, stack, pipeline, record, feed, state)


def _check_sizes(header: dict[str, Any]) -> None:
    """Refuse numbers in a file by which a model would be built that no memory can hold."""
    task, settings = header["task"], header["settings"]
    if not isinstance(settings, dict) or not isinstance(header["model"], str):
        raise TypeError("its name or settings are of another type")
    if not all(isinstance(name, str) for name in task["names"]):
        raise TypeError("its inputs have no names")
    sizes = [("seeds", header["seeds"]), ("delay", task["delay"]), ("period", task["period"] or 1)]
    sizes += [(f"{name} in its settings", size) for name, value in settings.items() for size in _sizes(value)]
    for what, size in sizes:
        least = -_MOST if "settings" in what else 1
        if not isinstance(size, int) or isinstance(size, bool) or not least <= size <= _MOST:
            raise ValueError(f"{what} is {shown(size)}")


def _check_parts(task: Task, pipeline: Pipeline | None, feed: Feed | None) -> None:
    """Refuse parts that do not fit together."""
    if pipeline is not None and len(pipeline.names) != len(task.names):
        raise ValueError(f"its pipeline gives {len(pipeline.names)} inputs and it takes {len(task.names)}")
    if feed is not None and feed.delay != task.delay:
        raise ValueError(f"its labels come after {feed.delay} steps and it expects them after {task.delay}")
    if feed is not None and pipeline is not None and feed.inputs != pipeline.inputs:
        raise ValueError("its feed and its pipeline have other measurements")


def _sizes(value: Any) -> list[int]:
    """The whole numbers in a setting; of a list the length too, as layers are built one by one."""
    if isinstance(value, list | tuple):
        length = [len(value) * _MOST // _MOST_LAYERS] if all(isinstance(v, int) for v in value) else []
        return length + [size for each in value for size in _sizes(each)]
    if isinstance(value, dict):
        return [size for each in value.values() for size in _sizes(each)]
    return [value] if isinstance(value, int) and not isinstance(value, bool) else []


def pool(model: Model) -> Model:
    """Mix the seeds of a fitted model into one: a model with a single seed, and no further training.

    Every forecast is the equal mixture of the S networks' forecasts. Correction, anchor, informant,
    safety net and recalibration, which learn online and have no trained weights, are there once, around that
    mixture.

    Args:
        model: a network with at least two seeds, as `fit` returns it.
    """
    count = len(model.stack)
    if model.name in REFERENCES:
        raise LatentTrackError(
            f"{model.name} is a reference without weights, and all its seeds are alike: use it as it is"
        )
    if count < 2:
        raise LatentTrackError(
            f"{model.name} has one seed, or is pooled already, and there is nothing to pool: "
            "fit it with seeds=3, for example"
        )
    stack = pool_stack(model.stack, count)
    size = innermost(stack[0]).count
    return replace(model, settings={**model.settings, "pool": size}, stack=stack, programs={})


def builder(name: str, task: Task, settings: dict[str, Any]) -> Callable[[PRNGKeyArray], AbstractTracker]:
    """What draws a model's first weights from a key."""
    return lambda key: build(name, task, key, **settings)


def as_number(time: np.datetime64 | float) -> int | float:
    """Nanoseconds since 1970, or the number of the step."""
    return int(time.astype(np.int64)) if isinstance(time, np.datetime64) else float(time)
