"""The bench: every model of a track, many seeds, trained, filtered and scored. Killed, it goes on.

In the folder, for each model: `NAME.checkpoint` while it trains, then `NAME.lt` (all seeds), then
`NAME.parquet` (a row for each step of each seed), then `NAME.json` (its part of the summary). Each appears
whole or not at all, and a run goes on with the first that is missing. `summary.json` comes last. Trees
(evaluation/trees.py) are not kept: they are trained within a minute or two, and always alike; nor are the
pooled seeds of latent-track, which are those of `latent-track.lt`.
"""

import functools
import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from latenttrack.data.features import Pipeline
from latenttrack.data.preparing import prepare
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation import published
from latenttrack.evaluation.archive import write_records
from latenttrack.evaluation.evaluate import evaluate
from latenttrack.evaluation.paired import LEADING
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.statistics import failure_rate, seed_scores
from latenttrack.evaluation.summary import finite, summarise_bench
from latenttrack.evaluation.tracks import Track
from latenttrack.evaluation.trees import TreeSettings, evaluate_trees, fit_trees, import_lightgbm
from latenttrack.evaluation.weights import mean_weights
from latenttrack.fitted.fit import fit, fit_chosen
from latenttrack.fitted.model import Model, load, pool
from latenttrack.models.capacity import capacity
from latenttrack.models.registry import DETERMINISTIC, MODELS, REFERENCES, build
from latenttrack.store.atomic import make_folder, write_bytes
from latenttrack.training.fit import Progress
from latenttrack.training.presets import POOLED, TREES, Preset, preset
from latenttrack.training.suit import Suit, suit

# Beside the paper's models; named one by one, so that its tables stay as they are when references are added.
_BESIDE_PAPER = ("last-label", "seasonal-naive", "climatology", "rls", "rls-t")
# What the paper compares, and what needs no training.
PAPER = tuple(name for name in MODELS if name in (*published.MODELS, *_BESIDE_PAPER))
# What one would use: the best of LatentTrack, what it is taken apart into, and what one would have instead.
HONEST = (LEADING, POOLED, *DETERMINISTIC, *REFERENCES, TREES)
_COMPARED = {"paper": PAPER, "honest": HONEST, "both": tuple(dict.fromkeys((*HONEST, *PAPER)))}


def compared(track: Track) -> tuple[str, ...]:
    """The models that are run on a track unless told otherwise, in the order of the tables."""
    return _COMPARED[track.compared]


@runtime_checkable
class Listener(Protocol):
    """Hears what a bench is doing."""

    def begin(self, model: str, epochs: int) -> None:
        """A model starts, with so many epochs ahead of it."""

    def epoch(self, progress: Progress) -> None:
        """An epoch of a trial or of training is done."""

    def filtering(self) -> None:
        """It is trained and is now being filtered and scored."""

    def end(self, model: str, seconds: float | None) -> None:
        """It is done; None if it was done before."""


@dataclass(frozen=True)
class Bench:
    """What is run.

    Attributes:
        track: data and protocol.
        folder: where everything is kept.
        models: names, in the order of the tables; None: those of `compared`.
        seeds: how many of each network, None: as its preset says; references and trees have no chance in
            them and run once.
        epochs: instead of the presets' number; for a quick look. Without effect where it is chosen.
        rows: only the newest so many rows of each stream; for a quick look.
        data_dir: where the dataset is; None: the usual places.
    """

    track: Track
    folder: Path
    models: tuple[str, ...] | None = None
    seeds: int | None = None
    epochs: int | None = None
    rows: int | None = None
    data_dir: Path | None = None

    def run(self, listener: Listener, command: str = "") -> dict[str, Any]:
        """Train, filter and score what is not yet done, and write the summary.

        Args:
            listener: hears of the progress.
            command: how it was called, for the record.

        Returns:
            The content of `summary.json`.
        """
        presets = {name: self.preset(name) for name in self.names}
        self._check_pooled()
        if TREES in presets:
            import_lightgbm()  # refuses now, and not after hours of training, if it is not there
        series = _newest(self.track.load(self.data_dir), self.rows)
        make_folder(self.folder)
        stream = _Stream(series, self.track.fraction)
        for name, chosen in presets.items():
            _OneModel(self, name, chosen, stream).run(listener)
        return summarise_bench(self.folder, self.track, series, self.names, command)

    @property
    def names(self) -> tuple[str, ...]:
        """The models that are run; a single seed is not pooled."""
        if self.models is not None:
            return self.models
        return tuple(name for name in compared(self.track) if name != POOLED or self.seeds != 1)

    def epochs_of(self, name: str) -> int:
        """How many epochs a model trains for; 0 for one that has none, or that finds out by itself."""
        chosen = self.preset(name)
        return 0 if _is_reference(name) or chosen.suited else chosen.training.epochs

    def preset(self, name: str) -> Preset:
        """How a model is run on this track."""
        chosen = preset(self.track.presets, name)
        if self.epochs is None:
            return chosen
        return replace(chosen, training=replace(chosen.training, epochs=self.epochs))

    def _check_pooled(self) -> None:
        if POOLED not in self.names:
            return
        if LEADING not in self.names[: self.names.index(POOLED)]:
            raise LatentTrackError(f"{POOLED} mixes the seeds of {LEADING}: name {LEADING} before it.")
        if self.seeds == 1:
            raise LatentTrackError(f"{POOLED} mixes seeds and there is one: give --seeds 2 or more.")


def _is_reference(name: str) -> bool:
    """Whether a model is what a user would have instead: an online reference, or trees."""
    return name in (*REFERENCES, TREES)


class _Outcome(NamedTuple):
    """What became of a model."""

    records: Records
    parameters: dict[str, int]
    settings: dict[str, Any]
    training: dict[str, Any] | None
    more: dict[str, Any]  # what the network chose, how much each member of its safety net counted
    trained: float  # when training ended, by the clock of `time.perf_counter`


class _Stream:
    """The data of a bench, and what they ask for: found once for all models."""

    def __init__(self, series: Series, fraction: float):
        self.series, self.fraction = series, fraction

    @functools.cached_property
    def past(self) -> Series:
        """The training part as it was loaded."""
        return self.series.split(self.fraction)[0]

    @functools.cached_property
    def suit(self) -> Suit:
        """Inputs and target transform."""
        return suit(self.past)

    def complete(self, chosen: Preset) -> Preset:
        """A preset with what the data ask for in place of what it leaves open."""
        if not chosen.suited:
            return chosen
        settings = {"transform": self.suit.transform} if self.suit.transform else {}
        return replace(chosen, features=self.suit.features, settings=settings)

    def prepare(self, chosen: Preset) -> tuple[Series, Series, Pipeline]:
        """Training part, test part and the pipeline that made them."""
        series = replace(self.series, period=self.suit.period) if chosen.suited else self.series
        return prepare(series, self.fraction, **chosen.features)


class _OneModel:
    """One model's way through the bench."""

    def __init__(self, bench: Bench, name: str, chosen: Preset, stream: _Stream):
        self.bench, self.name, self.stream = bench, name, stream
        self.chosen = stream.complete(chosen)
        self.reference = _is_reference(name)
        self.seeds = 1 if self.reference else bench.seeds or chosen.seeds
        self.train, self.test, self.pipeline = stream.prepare(self.chosen)
        self.plan = self._plan()

    def run(self, listener: Listener) -> None:
        """Whatever is still missing of it."""
        facts = _read_json(self.file("json"))
        if facts is not None:
            self._check(facts.get("plan"), "json")
            listener.end(self.name, None)
            return
        listener.begin(self.name, self.bench.epochs_of(self.name))
        begin = time.perf_counter()
        outcome = self._trees(listener) if self.name == TREES else self._tracker(listener)
        write_records(self.file("parquet"), outcome.records)
        scores = seed_scores(outcome.records)
        end = time.perf_counter()
        facts = {
            "plan": self.plan,
            "reference": self.reference,
            "seeds": [{name: finite(value) for name, value in row.items()} for row in scores],
            "failure_rate": failure_rate(np.array([row["nll_max"] for row in scores])),
            "parameters": outcome.parameters,
            "features": _plain(self.chosen.features),
            "settings": _plain(outcome.settings),
            "training": outcome.training,
            **outcome.more,
            "seconds": {
                "train": round(outcome.trained - begin, 1),
                "evaluate": round(end - outcome.trained, 1),
            },
        }
        write_bytes(self.file("json"), json.dumps(facts, indent=1).encode())
        listener.end(self.name, end - begin)

    def file(self, ending: str) -> Path:
        """Where a part of it is kept."""
        return self.bench.folder / f"{self.name}.{ending}"

    def _tracker(self, listener: Listener) -> _Outcome:
        model = self._trained(listener)
        trained = time.perf_counter()
        listener.filtering()
        records = replace(evaluate(model, self.test, past=self.train), model=self.name)
        build_it = functools.partial(build, model.name, model.task, **model.settings)
        counts = capacity(build_it, model.task.size)._asdict()
        training = None if self.reference else model.record["training"]
        more: dict[str, Any] = {n: model.record[n] for n in ("choices", "trials") if n in model.record}
        if "safety_net" in model.settings:
            more["weights"] = mean_weights(model, self.test, past=self.train)
        return _Outcome(records, counts, model.settings, training, more, trained)

    def _trees(self, listener: Listener) -> _Outcome:
        settings = TreeSettings(**self.chosen.settings)
        trees = fit_trees(self.train, settings)
        trained = time.perf_counter()
        listener.filtering()
        records = evaluate_trees(trees, self.test, past=self.train)
        counts = {"total": trees.parameters, "inference": trees.parameters}
        return _Outcome(records, counts, asdict(settings), None, {}, trained)

    def _trained(self, listener: Listener) -> Model:
        if self.name == POOLED:
            return pool(load(self._leading))
        if self.file("lt").exists():
            model = load(self.file("lt"))
            self._check(model.record.get("plan"), "lt")
            return model
        model = self._fit(listener)
        model = replace(model, record={**model.record, "plan": self.plan})
        model.save(self.file("lt"))
        for ending in ("checkpoint", "checkpoint.trials"):
            self.file(ending).unlink(missing_ok=True)
        return model

    def _fit(self, listener: Listener) -> Model:
        if self.chosen.suited and not self.reference:
            return fit_chosen(
                self.chosen.model,
                self.stream.past,
                suited=self.stream.suit,
                like=self._original(),
                seeds=self.seeds,
                checkpoint=self.file("checkpoint"),
                progress=listener.epoch,
            )
        return fit(
            self.chosen.model,
            self.train,
            seeds=self.seeds,
            training=self.chosen.training,
            settings=dict(self.chosen.settings),
            pipeline=self.pipeline,
            checkpoint=self.file("checkpoint"),
            progress=listener.epoch,
        )

    def _original(self) -> Model | None:
        """For LatentTrack's control the model that it is the control of: all else must be alike."""
        alike = self.name == "lt-deterministic" and LEADING in self.bench.names
        return load(self._leading) if alike and self._leading.exists() else None

    def _networks(self) -> bytes:
        """Those that are pooled: others are another run."""
        try:
            return self._leading.read_bytes()
        except FileNotFoundError:
            raise LatentTrackError(
                f"{self._leading} is gone, and {POOLED} mixes its networks: delete {LEADING}.json there, and "
                "they are trained again"
            ) from None

    @property
    def _leading(self) -> Path:
        """Where LatentTrack itself is kept."""
        return self.bench.folder / f"{LEADING}.lt"

    def _plan(self) -> str:
        """A digest of all that decides the result."""
        chosen = {
            "model": self.chosen.model,
            "features": _plain(self.chosen.features),
            "settings": _plain(self.chosen.settings),
            "training": self.chosen.training.to_dict(),
            "seeds": self.seeds,
            "delay": self.train.delay,
        }
        digest = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode())
        for part in (self.train, self.test):
            for array in (part.x, part.y, part.time):
                digest.update(np.ascontiguousarray(array).tobytes())
        if self.name == POOLED:
            digest.update(self._networks())
        return digest.hexdigest()

    def _check(self, plan: object, ending: str) -> None:
        if plan != self.plan:
            raise LatentTrackError(
                f"{self.file(ending)} belongs to a run with other data, seeds or settings: "
                "choose another folder with -o, or delete this one"
            )


def _newest(series: Series, rows: int | None) -> Series:
    """The last `rows` rows of every stream."""
    if rows is None:
        return series
    keep = np.zeros(len(series), bool)
    for key in range(len(series.keys)):
        keep[np.flatnonzero(series.key == key)[-rows:]] = True
    return series.select(keep)


def _read_json(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file; None if it is not there."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise LatentTrackError(f"{path} cannot be read ({error}): delete it and start again") from None
    if not isinstance(content, dict):
        raise LatentTrackError(f"{path} is not part of a bench: delete it and start again")
    return content


def _plain(value: Any) -> Any:
    """The same in plain JSON values."""
    return json.loads(json.dumps(value, default=list))
