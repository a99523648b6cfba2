"""The models by name. To add one: a file in this room, a builder, a line here, a line in the test matrix."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

import jax
from jaxtyping import PRNGKeyArray

from latenttrack.errors import LatentTrackError
from latenttrack.models import builders
from latenttrack.models.anchored import Anchored
from latenttrack.models.base import AbstractTracker
from latenttrack.models.choices import choose, suggest
from latenttrack.models.references import AbstractReference
from latenttrack.models.task import Task

Builder = Callable[..., AbstractTracker]

MODELS: dict[str, Builder] = {
    "lt-structured": functools.partial(builders.latent_track, structured=True, features=16),
    "lt-unstructured": functools.partial(builders.latent_track, structured=False, features=24),
    "vrnn": builders.vrnn,
    "dssm": builders.dssm,
    "mc-dropout": builders.mc_dropout,
    "bbb": builders.bayes_by_backprop,
    "deep-ensemble": builders.deep_ensemble,
    "last-label": builders.last_label,
    "seasonal-naive": builders.seasonal_naive,
    "climatology": builders.climatology,
    "rls": builders.rls,
    "rls-t": builders.rls_t,
}

REFERENCES = ("last-label", "seasonal-naive", "climatology", "rls", "rls-t")
STATIC = ("mc-dropout", "bbb", "deep-ensemble")


def build(
    name: str,
    task: Task,
    key: PRNGKeyArray,
    *,
    anchor: str | None = None,
    anchor_scale: float = 1.0,
    **settings: Any,
) -> AbstractTracker:
    """The tracker called `name` for a task, with freshly drawn weights.

    Args:
        name: one of `MODELS`.
        task: inputs, label delay and season of the stream.
        key: draws the initial weights.
        anchor: a reference whose point forecast the model corrects, or None.
        anchor_scale: standard deviation of that reference's residuals, in standardised labels.
        **settings: the builder's keyword arguments, where they differ from its defaults.
    """
    builder = choose("model", name, MODELS)
    known = [p for p in inspect.signature(builder).parameters if p not in ("task", "key", "structured")]
    for setting in settings:
        if setting not in known:
            raise LatentTrackError(f"model {name!r} has no setting {setting!r}{suggest(setting, known)}")
    tracker = builder(task, key, **{k: _tuples(v) for k, v in settings.items()})
    if anchor is None:
        return tracker
    if name in REFERENCES:
        raise LatentTrackError(f"{name!r} is a reference itself and takes no anchor: leave it out")
    return Anchored(build_reference(anchor, task), tracker, anchor_scale, task.delay)


def build_reference(name: str, task: Task) -> AbstractReference:
    """A reference by its name; it has no weights, so it needs no key."""
    if name not in REFERENCES:
        raise LatentTrackError(f"{name!r} cannot be an anchor; choose from {', '.join(REFERENCES)}")
    return cast(AbstractReference, build(name, task, jax.random.key(0)))


def _tuples(value: Any) -> Any:
    """JSON has lists where settings have tuples."""
    return tuple(value) if isinstance(value, list) else value
