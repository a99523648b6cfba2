"""The models by name. To add one: a file in this room, a builder, a line here, a line in the test matrix."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import jax
from jaxtyping import PRNGKeyArray

from latenttrack.data.matching import choose, unknown_name
from latenttrack.errors import LatentTrackError
from latenttrack.models import builders
from latenttrack.models.anchored import Anchored
from latenttrack.models.averaged import Averaged
from latenttrack.models.base import AbstractTracker
from latenttrack.models.checks import check_recalibrate, check_safety_net, check_scale, check_settings
from latenttrack.models.informed import NAMES as INFORMED
from latenttrack.models.informed import Informed
from latenttrack.models.recalibrated import Recalibrated
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
    "lt-deterministic": builders.deterministic_track,
    "gru": builders.plain_recurrent,
    "last-label": builders.last_label,
    "seasonal-naive": builders.seasonal_naive,
    "climatology": builders.climatology,
    "rls": builders.rls,
    "rls-t": builders.rls_t,
}

SUMMARIES = {
    "lt-structured": "LatentTrack, Markov latent",
    "lt-unstructured": "LatentTrack, free latent",
    "vrnn": "recurrent latent network",
    "dssm": "deep state-space model",
    "mc-dropout": "dropout stays on",
    "bbb": "Gaussian over every weight",
    "deep-ensemble": "ten networks",
    "lt-deterministic": "LatentTrack, latent is a point",
    "gru": "LatentTrack's summary, plain head",
    "last-label": "repeats the last label",
    "seasonal-naive": "repeats a season ago",
    "climatology": "least squares on the clock",
    "rls": "online least squares, normal",
    "rls-t": "online least squares, t",
}

REFERENCES = ("last-label", "seasonal-naive", "climatology", "rls", "rls-t")
STATIC = ("mc-dropout", "bbb", "deep-ensemble")
DETERMINISTIC = ("lt-deterministic", "gru")  # stateful, and nothing is drawn


def build(
    name: str,
    task: Task,
    key: PRNGKeyArray,
    *,
    anchor: str | None = None,
    anchor_scale: float = 1.0,
    anchor_settings: Mapping[str, Any] | None = None,
    informant: str | None = None,
    informant_settings: Mapping[str, Any] | None = None,
    safety_net: Sequence[str] | None = None,
    safety_net_settings: Mapping[str, Mapping[str, Any]] | None = None,
    recalibrate: bool = False,
    **settings: Any,
) -> AbstractTracker:
    """The tracker called `name` for a task, with freshly drawn weights.

    Args:
        name: one of `MODELS`.
        task: inputs, label delay and season of the stream.
        key: draws the initial weights.
        anchor: a reference whose point forecast the model corrects, or None.
        anchor_scale: standard deviation of that reference's residuals, in standardised labels.
        anchor_settings: the reference's own settings.
        informant: a reference whose forecast and surprise join the inputs, or None.
        informant_settings: that reference's own settings.
        safety_net: references with which the (anchored) model is averaged online, or None.
        safety_net_settings: their own settings, by name.
        recalibrate: whether the forecasts that come out of all that are recalibrated online.
        **settings: the builder's keyword arguments, where they differ from its defaults.
    """
    builder = choose("model", name, MODELS)
    settings = {setting: _tuples(value) for setting, value in settings.items()}
    check_settings(name, builder, settings)
    check_recalibrate(name, recalibrate)
    if name in REFERENCES and (anchor, informant) != (None, None):
        raise LatentTrackError(
            f"{name!r} is a reference itself and takes no anchor or informant: leave it out"
        )
    if informant is None:
        tracker = builder(task, key, **settings)
    else:
        reference = build_reference(informant, task, **(informant_settings or {}))
        wider = replace(task, names=(*task.names, *INFORMED))
        tracker = Informed(reference, builder(wider, key, **settings), task.delay)
    if anchor is not None:
        check_scale(name, anchor_scale)
        reference = build_reference(anchor, task, **(anchor_settings or {}))
        tracker = Anchored(reference, tracker, anchor_scale, task.delay)
    if safety_net is not None:
        tracker = _with_safety_net(name, tracker, _tuples(safety_net), task, safety_net_settings or {})
    return Recalibrated(tracker, task.size, task.delay) if recalibrate else tracker


def _with_safety_net(
    name: str, main: AbstractTracker, net: Sequence[str], task: Task, settings: Mapping[str, Any]
) -> Averaged:
    check_safety_net(name, net, REFERENCES)
    for member in settings:
        if member not in net:
            raise unknown_name("safety net", member, net)
    references = tuple(build_reference(member, task, **settings.get(member, {})) for member in net)
    return Averaged(main, references, (name, *net), task.size, task.delay)


def build_reference(name: str, task: Task, **settings: Any) -> AbstractReference:
    """A reference by its name; it has no weights, so it needs no key."""
    if name not in REFERENCES:
        raise unknown_name("anchor", name, REFERENCES)
    return cast(AbstractReference, build(name, task, jax.random.key(0), **settings))


def _tuples(value: Any) -> Any:
    """JSON has lists where settings have tuples."""
    return tuple(value) if isinstance(value, list) else value
