"""From a user's file to a fitted, judged model: read, hold out the newest part, train, compare.

The model that is returned is the one that was judged. It is not trained again on the held-out part: a stream
goes on from there by filtering, which is how the model was judged as well.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from latenttrack.data.describing import Description, Selection, understand
from latenttrack.data.features import Pipeline
from latenttrack.data.feed import Feed
from latenttrack.data.matching import choose
from latenttrack.data.preparing import prepare
from latenttrack.data.series import Series, require_learnable
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.evaluate import evaluate
from latenttrack.evaluation.judging import Judgement, judge
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.weights import mean_weights
from latenttrack.fitted.fit import fit, fit_chosen
from latenttrack.fitted.model import Model, pool
from latenttrack.models.registry import DETERMINISTIC, MODELS, REFERENCES
from latenttrack.store.atomic import write_bytes
from latenttrack.training.automatic import BUDGET
from latenttrack.training.checkpoint import fingerprint
from latenttrack.training.fit import Progress
from latenttrack.training.suit import TAIL, Suit, suit

SEEDS = 3  # pooled, they are better than any of them
HOLDOUT = 0.15
_FEWEST = 64  # labels to learn from, in what is left without the held-out part and the trials' tail
_FEWEST_HELD_OUT = 10
_SEASONAL = ("seasonal-naive", "seasonal-difference")
# Networks that choose their settings from the data, and how the others are run.
_CHOOSING = ("latent-track", *DETERMINISTIC)
_USUAL = {"head": "student-t", "anchor": "last-label"}


@runtime_checkable
class FitListener(Protocol):
    """Hears what `fit_file` is doing."""

    def understood(self, description: Description) -> None:
        """The file was read; nothing is trained yet."""

    def epoch(self, progress: Progress) -> None:
        """An epoch of a trial or of training is done."""

    def judging(self, model: str) -> None:
        """A model predicts the held-out part."""


@dataclass(frozen=True)
class Parts:
    """A stream, cut in time.

    Attributes:
        past: what was trained on, as it was loaded.
        future: what was held out, as it was loaded.
        train: `past` with the model's inputs.
        test: `future` with the model's inputs.
        pipeline: makes these inputs.
        suited: which inputs and transform the data ask for.
    """

    past: Series
    future: Series
    train: Series
    test: Series
    pipeline: Pipeline
    suited: Suit

    @classmethod
    def of(cls, series: Series, holdout: float) -> "Parts":
        """Cut off the newest share of a series; inputs are chosen on the rest."""
        past, future = series.split(1.0 - holdout)
        suited = suit(past)
        train, test, pipeline = prepare(
            replace(series, period=suited.period), 1.0 - holdout, **suited.features
        )
        return cls(past, future, train, test, pipeline, suited)


@dataclass(frozen=True)
class FitReport:
    """All that came out of `fit_file`.

    Attributes:
        model: trained on `parts.past`, seeds pooled; its record tells of the file and of the judgement.
        series: the whole file as it was loaded, held-out rows too: what a live stream warms up on.
        parts: the same, cut in time and prepared.
        description: what was understood of the file.
        records: forecasts of the held-out rows, of the model and then of the references.
        judgement: their scores.
    """

    model: Model
    series: Series
    parts: Parts
    description: Description
    records: dict[str, Records]
    judgement: Judgement

    def advanced(self) -> Model:
        """The model, whose streams begin where the file ends; of a file with several keys, from nothing."""
        if len(self.series.keys) > 1:
            return self.model
        return self.model.advance(self.parts.past).advance(self.parts.future)


def fit_file(
    selection: Selection,
    *,
    model: str = "latent-track",
    seeds: int = SEEDS,
    seed: int = 0,
    holdout: float = HOLDOUT,
    budget: int = BUDGET,
    checkpoint: Path | None = None,
    listener: FitListener | None = None,
) -> FitReport:
    """Fit a model to a file and judge it on the newest part.

    Args:
        selection: the file, what is predicted, and from what.
        model: a name of the registry; a reference is not trained, only judged.
        seeds: how many networks are trained and then pooled into one model.
        seed: of everything random.
        holdout: newest share of the rows, which is only predicted.
        budget: updates that trials may take.
        checkpoint: a file to save to and to resume from; with the same arguments, the result is the same.
        listener: hears of the progress.
    """
    choose("model", model, MODELS)
    series, description = understand(selection)
    if listener is not None:
        listener.understood(description)
    _require_enough(series, description, holdout)
    plan: dict[str, Any] = {
        "model": model,
        "seeds": seeds,
        "seed": seed,
        "holdout": holdout,
        "budget": budget,
    }
    mark = fingerprint(series, plan | {"names": series.names, "delay": series.delay})
    if checkpoint is not None:
        _check_leftovers(checkpoint, mark)
    parts = Parts.of(series, holdout)
    if checkpoint is not None and model not in REFERENCES:
        write_bytes(_leftovers(checkpoint)[2], mark.encode())
    fitted = _train(model, parts, seeds, seed, budget, checkpoint, listener)
    records = _predict(fitted, parts, listener)
    weights = None
    if "safety_net" in fitted.settings:
        weights = mean_weights(fitted, parts.test, past=parts.train)
    judgement = judge(model, records, delay=series.delay, weights=weights)
    told = {"file": description.to_dict(), "judged": judgement.to_dict()}
    fitted = replace(fitted, record={**fitted.record, **told})
    return FitReport(fitted, series, parts, description, records, judgement)


def forget_checkpoint(checkpoint: Path) -> None:
    """Remove what an interrupted run left, or what a finished one needs no more."""
    for path in _leftovers(checkpoint):
        path.unlink(missing_ok=True)


def _leftovers(checkpoint: Path) -> tuple[Path, Path, Path]:
    """Weights, trials, and a digest of all that decides them."""
    return checkpoint, Path(f"{checkpoint}.trials"), Path(f"{checkpoint}.plan")


def _check_leftovers(checkpoint: Path, mark: str) -> None:
    """Refuse those of another run now, and not after the trials."""
    weights, trials, plan = _leftovers(checkpoint)
    if (weights.exists() or trials.exists()) and not (plan.exists() and plan.read_bytes() == mark.encode()):
        raise LatentTrackError(
            f"{checkpoint} was left by an interrupted run with other data or options: "
            "give those again to go on with it, or add --restart to forget it."
        )


def _require_enough(series: Series, description: Description, holdout: float) -> None:
    """Refuse what cannot be learned from or judged on, before any work is done."""
    horizon, rows = description.selection.horizon, int(np.bincount(series.key).max())
    left = max(rows - horizon, 0)
    if left < min(_FEWEST_HELD_OUT, horizon):
        words = {0: "no label", 1: "1 label"}.get(left, f"{left} labels")
        raise LatentTrackError(
            f"the horizon is {horizon} steps and the stream has {rows}, which leaves {words}: "
            "give a shorter --horizon or more rows."
        )
    require_learnable(series, minimum=1)
    past, future = series.split(1.0 - holdout)
    old, held_out = (int(np.sum(~np.isnan(part.y))) for part in (past.split(1.0 - TAIL)[0], future))
    if old < _FEWEST:
        labels = int(np.sum(~np.isnan(series.y)))
        need = math.ceil(_FEWEST / (1.0 - TAIL) / (1.0 - holdout)) + 1
        raise LatentTrackError(
            f"there are {labels} rows with a label of {series.target!r}, {old} of them early enough to learn "
            f"from: about {need} are needed, so give more rows."
        )
    if held_out < _FEWEST_HELD_OUT:
        raise LatentTrackError(
            f"the newest {holdout:.0%} of the rows have {held_out} labels of {series.target!r}, too few to "
            "judge by: end the file where its labels end, or give a larger --holdout or a shorter --horizon."
        )
    require_learnable(past)


def _train(
    name: str,
    parts: Parts,
    seeds: int,
    seed: int,
    budget: int,
    checkpoint: Path | None,
    listener: FitListener | None,
) -> Model:
    """The seeds of a network, pooled; a reference as it is."""
    if name in REFERENCES:
        return _reference(name, parts)
    common: dict[str, Any] = {
        "seeds": seeds,
        "seed": seed,
        "checkpoint": checkpoint,
        "progress": None if listener is None else listener.epoch,
    }
    if name in _CHOOSING:
        model = fit_chosen(name, parts.past, suited=parts.suited, budget=budget, **common)
    else:
        model = _fit_as_told(name, parts, {**_USUAL, **_transform(parts)}, **common)
        model = replace(model, record={**model.record, "choices": list(parts.suited.words)})
    return pool(model) if seeds > 1 else model


def _predict(model: Model, parts: Parts, listener: FitListener | None) -> dict[str, Records]:
    """The held-out rows, by the model and by references with the same inputs and transform."""
    records = {}
    # Without a season these only repeat the last label.
    skipped = () if parts.train.period else _SEASONAL
    for name in dict.fromkeys((model.name, *(n for n in REFERENCES if n not in skipped))):
        if listener is not None:
            listener.judging(name)
        one = model if name == model.name else _reference(name, parts)
        records[name] = evaluate(one, parts.test, past=parts.train)
    return records


def _reference(name: str, parts: Parts) -> Model:
    return _fit_as_told(name, parts, _transform(parts))


def _fit_as_told(name: str, parts: Parts, settings: dict[str, Any], **common: Any) -> Model:
    """A model that chooses nothing. What is plausible in a live stream is seen in the rows as they came."""
    model = fit(name, parts.train, settings=settings, pipeline=parts.pipeline, **common)
    return replace(model, feed=Feed.of(parts.past))


def _transform(parts: Parts) -> dict[str, Any]:
    return {"transform": parts.suited.transform} if parts.suited.transform else {}
