"""The models by name. To add one: a file in this room, a builder, a line here, a line in the test matrix."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from latenttrack.data.matching import choose, unknown_name
from latenttrack.models import builders
from latenttrack.models.anchored import Anchored
from latenttrack.models.averaged import POWER, Averaged
from latenttrack.models.base import AbstractTracker
from latenttrack.models.checks import (
    check_flag,
    check_plain,
    check_pool,
    check_prior,
    check_safety_net,
    check_scale,
    check_settings,
    check_shown,
    check_start,
    check_transform,
)
from latenttrack.models.corrected import Corrected
from latenttrack.models.informed import NAMES as INFORMED
from latenttrack.models.informed import Informed
from latenttrack.models.panel import Panel
from latenttrack.models.pooled import Pooled
from latenttrack.models.recalibrated import Recalibrated
from latenttrack.models.references import AbstractReference
from latenttrack.models.task import Task
from latenttrack.models.transformed import KINDS, Curve, Transformed

Builder = Callable[..., AbstractTracker]

# LatentTrack as it predicts best; what it leaves open is chosen from the data (training/automatic.py).
_LATENT_TRACK = functools.partial(
    builders.latent_track,
    structured=False,
    encoder_size=32,
    features=8,
    predictor=(16,),
    head="student-t",
    skip=True,
    prompt=True,
    summary_dropout=0.5,
    hidden_dropout=0.2,
    train_K=8,
)

MODELS: dict[str, Builder] = {
    "latent-track": _LATENT_TRACK,
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
    "seasonal-difference": builders.seasonal_difference,
    "climatology": builders.climatology,
    "rls": builders.rls,
    "rls-t": builders.rls_t,
}

SUMMARIES = {
    "latent-track": "LatentTrack, chosen from the data",
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
    "seasonal-difference": "last label and the season's change",
    "climatology": "least squares on the clock",
    "rls": "online least squares, normal",
    "rls-t": "online least squares, t",
}

REFERENCES = ("last-label", "seasonal-naive", "seasonal-difference", "climatology", "rls", "rls-t")
STATIC = ("mc-dropout", "bbb", "deep-ensemble")
DETERMINISTIC = ("lt-deterministic", "gru")  # stateful, and nothing is drawn


def build(
    name: str,
    task: Task,
    key: PRNGKeyArray,
    *,
    pool: int | None = None,
    correct: bool = False,
    anchor: str | None = None,
    anchor_scale: float = 1.0,
    anchor_settings: Mapping[str, Any] | None = None,
    informant: str | None = None,
    informant_settings: Mapping[str, Any] | None = None,
    shown: Sequence[str] | None = None,
    second_shown: Sequence[str] | None = None,
    safety_net: Sequence[str] | None = None,
    safety_net_settings: Mapping[str, Mapping[str, Any]] | None = None,
    safety_net_start: Sequence[float] | None = None,
    recalibrate: bool = False,
    recalibrate_prior: float = 1000.0,
    recalibrate_start: Sequence[float] | None = None,
    recalibrate_spread: Sequence[float] | None = None,
    transform: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AbstractTracker:
    """The tracker called `name` for a task, with freshly drawn weights.

    Args:
        name: one of `MODELS`.
        task: inputs, label delay and season of the stream.
        key: draws the initial weights.
        pool: how many networks are mixed, each with weights of its own, or None: a single one.
        correct: whether its forecasts are moved and stretched by what the inputs tell of its errors.
        anchor: a reference whose point forecast the model corrects, or None.
        anchor_scale: standard deviation of that reference's residuals, in standardised labels.
        anchor_settings: the reference's own settings.
        informant: a reference whose forecast and surprise join the inputs, or None.
        informant_settings: that reference's own settings.
        shown: names of the inputs that the model sees itself, while the informant hears all; None: all.
        second_shown: the same of a second network of this kind, to be mixed with the first; None: there is
            none.
        safety_net: references with which the (anchored) model is averaged online, or None.
        safety_net_settings: their own settings, by name.
        safety_net_start: first weights, the model's and then those of the net; None: all alike.
        recalibrate: whether the forecasts that come out of all that are recalibrated online.
        recalibrate_prior: pseudo-counts; the fewer, the sooner and the further it corrects.
        recalibrate_start: first counts of the histogram of PITs; None: nothing counted.
        recalibrate_spread: how many labels that was, and the sum of their squared normal scores.
        transform: the bend of the labels that all of that hears and forecasts (see `fit_transform`), or None.
        **settings: the builder's keyword arguments, where they differ from its defaults.
    """
    builder = choose("model", name, MODELS)
    settings = {setting: _tuples(value) for setting, value in settings.items()}
    check_settings(name, builder, settings)
    check_flag(name, "recalibrate", recalibrate)
    check_flag(name, "correct", correct)
    check_transform(name, transform, KINDS)
    check_pool(name, pool)
    if name in REFERENCES:
        check_plain(name, anchor, informant, pool, correct)
    make: Builder = functools.partial(builder, **settings)
    check_shown(name, "shown", shown, informant, task.names)
    check_shown(name, "second_shown", second_shown, informant, task.names if shown is None else shown)
    if second_shown is not None:
        make = functools.partial(_panel, make, (*second_shown, *INFORMED))
    draw = functools.partial(_draw, make, key, pool, correct)
    tracker = (
        draw(task) if informant is None else _inform(draw, task, informant, informant_settings or {}, shown)
    )
    if anchor is not None:
        tracker = _anchor(name, tracker, task, anchor, anchor_scale, anchor_settings or {})
    if safety_net is not None:
        net, own = _tuples(safety_net), safety_net_settings or {}
        tracker = _average(name, tracker, task, net, own, safety_net_start)
    if recalibrate:
        tracker = _recalibrate(name, tracker, task, recalibrate_prior, recalibrate_start, recalibrate_spread)
    return tracker if transform is None else Transformed(tracker, Curve(**transform))


def _draw(make: Builder, key: PRNGKeyArray, pool: int | None, correct: bool, task: Task) -> AbstractTracker:
    """One network or a pool of them, corrected online or not."""
    if pool is None:
        network = make(task, key)
    else:
        network = Pooled(eqx.filter_vmap(lambda k: make(task, k))(jax.random.split(key, pool)), pool)
    return Corrected(network, task.size, task.delay) if correct else network


def _panel(make: Builder, second: tuple[str, ...], task: Task, key: PRNGKeyArray) -> Panel:
    """A network that sees all inputs of a task, and one that sees those of some names."""
    first_key, second_key = jax.random.split(key)
    return Panel(
        (make(task, first_key), make(replace(task, names=second), second_key)),
        (tuple(range(task.size)), tuple(map(task.names.index, second))),
        task.size,
        task.delay,
        power=POWER / task.delay,
    )


def _inform(
    draw: Callable[[Task], AbstractTracker],
    task: Task,
    informant: str,
    settings: Mapping[str, Any],
    shown: Sequence[str] | None,
) -> Informed:
    reference = build_reference(informant, task, **settings)
    names = task.names if shown is None else tuple(shown)
    columns = None if shown is None else tuple(task.names.index(name) for name in names)
    return Informed(reference, draw(replace(task, names=(*names, *INFORMED))), task.delay, columns)


def _anchor(
    name: str, main: AbstractTracker, task: Task, anchor: str, scale: float, settings: Mapping[str, Any]
) -> Anchored:
    check_scale(name, scale)
    return Anchored(build_reference(anchor, task, **settings), main, scale, task.delay)


def _average(
    name: str,
    main: AbstractTracker,
    task: Task,
    net: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
    start: Sequence[float] | None,
) -> Averaged:
    check_safety_net(name, net, REFERENCES)
    for member in settings:
        if member not in net:
            raise unknown_name("safety net", member, net)
    references = tuple(build_reference(member, task, **settings.get(member, {})) for member in net)
    tracker = Averaged(main, references, (name, *net), task.size, task.delay, power=POWER / task.delay)
    check_start(name, "safety_net_start", start, len(tracker.names))
    return tracker if start is None else replace(tracker, start=tuple(start))


def _recalibrate(
    name: str,
    inner: AbstractTracker,
    task: Task,
    prior: float,
    start: Sequence[float] | None,
    spread: Sequence[float] | None,
) -> Recalibrated:
    check_prior(name, prior)
    tracker = Recalibrated(inner, task.size, task.delay, prior=float(prior))
    check_start(name, "recalibrate_start", start, tracker.bins)
    check_start(name, "recalibrate_spread", spread, 2)
    tracker = tracker if start is None else replace(tracker, start=tuple(start))
    return tracker if spread is None else replace(tracker, start_spread=tuple(spread))


def build_reference(name: str, task: Task, **settings: Any) -> AbstractReference:
    """A reference by its name; it has no weights, so it needs no key."""
    if name not in REFERENCES:
        raise unknown_name("anchor", name, REFERENCES)
    return cast(AbstractReference, build(name, task, jax.random.key(0), **settings))


def _tuples(value: Any) -> Any:
    """JSON has lists where settings have tuples."""
    return tuple(value) if isinstance(value, list) else value
