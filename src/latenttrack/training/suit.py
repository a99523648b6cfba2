"""What a stream asks for, whatever the model: inputs and target transform, chosen from its training part."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from latenttrack.data.choosing import choose_inputs
from latenttrack.data.features import Pipeline
from latenttrack.data.known_label import forget_unknown
from latenttrack.data.series import Series, require_learnable
from latenttrack.models.base import AbstractTracker, Window
from latenttrack.models.layout import hide_unknown, lay_out
from latenttrack.models.registry import build
from latenttrack.models.task import Task
from latenttrack.models.transformed import fit_transform
from latenttrack.training.tuning import settle

TAIL = 0.15  # newest share of the training part on which choices are judged
_SKEWED = 0.5  # skewness from which on a transform is tried
_GAIN = 0.02  # nats by which a transform, or the mean season, must be better than without
_JUDGE = "rls-t"  # it is quick, and what suits its residuals suits a network's
_WORST = -1e6  # the score of a forecast that is not a number
_FEWEST = 10  # known labels in the newest part, to judge by
_ROUNDING = 1e-6  # in standard deviations: labels that little below 0 are 0
_KINDS = {"sqrt": "square root", "log": "logarithm"}
Judge = Callable[[str | None, int | None], np.ndarray]  # transform and season -> log p of the newest labels


@dataclass(frozen=True)
class Suit:
    """Inputs and transform for a stream.

    Attributes:
        period: steps in the main season, None if there is none.
        features: choices for `Pipeline.fit`.
        transform: the setting of that name of every model, None for none.
        words: what was found, for people.
    """

    period: int | None
    features: dict[str, Any]
    transform: dict[str, Any] | None
    words: tuple[str, ...]

    def prepare(self, train: Series) -> tuple[Series, Pipeline]:
        """The training part with these inputs, and the pipeline that makes them."""
        train = replace(train, period=self.period)
        pipeline = Pipeline.fit(forget_unknown(train), **self.features)
        return pipeline.transform(train), pipeline


def suit(train: Series) -> Suit:
    """Choose inputs and transform for a training part, as it was loaded.

    Labels that cannot be negative and are skewed are tried with a square root and a logarithm, and then the
    mean season is tried as an input. Each is judged by the NLL, with its Jacobian, of online least squares on
    the newest 15 % of the training part. Labels that are not known yet where it ends have no influence.
    """
    known = forget_unknown(train)
    require_learnable(known)
    inputs = choose_inputs(known)
    plain = Suit(inputs.period, inputs.features, None, inputs.words)
    judge = functools.cache(functools.partial(_judge, plain, known))  # what won is judged once
    kind, words = _choose_transform(known, judge)
    season, more = _choose_season(known, judge, kind, inputs.season)
    return replace(_dress(plain, known, kind, season), words=(*plain.words, *words, *more))


def _choose_transform(known: Series, judge: Judge) -> tuple[str | None, tuple[str, ...]]:
    """Which transform of the target is clearly better than a milder one, and words for people."""
    labels = known.y[~np.isnan(known.y)]
    skewness = np.mean(((labels - labels.mean()) / labels.std()) ** 3)
    if labels.min() < -_ROUNDING * labels.std() or skewness < _SKEWED or len(np.unique(labels)) < 3:
        return None, ()  # of two values (yes and no) every transform is a straight line
    if not _can_judge(known):
        return None, ("no transform of the target: too few labels to judge by",)
    scores = {kind: judge(kind, None) for kind in (None, *_KINDS)}
    best = None
    for kind in _KINDS:
        best = kind if _is_better(scores[kind], scores[best]) else best
    if best is None:
        return None, ("no transform of the target: square root and logarithm did not help",)
    gain = np.mean(scores[best] - scores[None])
    return best, (f"{_KINDS[best]} of the target ({gain:.2f} nats better than without)",)


def _choose_season(
    known: Series, judge: Judge, kind: str | None, season: int | None
) -> tuple[int | None, tuple[str, ...]]:
    """The season, if its mean course is worth being an input, and words for people."""
    if season is None or not _can_judge(known):
        return None, ()
    with_it, without = judge(kind, season), judge(kind, None)
    if not _is_better(with_it, without):
        return None, ()
    gain = np.mean(with_it - without)
    return season, (f"input: the mean course of {season} steps ({gain:.2f} nats better than without)",)


def _dress(plain: Suit, known: Series, kind: str | None, season: int | None) -> Suit:
    """With a transform that is fitted to known labels, and with the mean season as an input.

    The label among the inputs is bent as the one that is predicted.
    """
    features, transform = dict(plain.features), None
    if kind is not None:
        labels = known.y[~np.isnan(known.y)]
        transform = fit_transform(kind, labels, float(labels.mean()), float(labels.std()))
        features["bend"] = {name: transform[name] for name in ("kind", "low", "offset")}
    if season is not None:
        features["profile"] = season
    return replace(plain, features=features, transform=transform)


def _can_judge(known: Series) -> bool:
    return bool(tail(known)[1].sum() >= _FEWEST)


def _judge(plain: Suit, known: Series, kind: str | None, season: int | None) -> np.ndarray:
    """log p of the newest labels under online least squares, one after another.

    All that is fitted is fitted without them: a mean season that had seen them would flatter itself.
    """
    known = replace(known, period=plain.period)
    older = forget_unknown(known.split(1.0 - TAIL)[0])
    option = _dress(plain, older, kind, season)
    prepared = Pipeline.fit(older, **option.features).transform(known)
    task = Task.of(prepared)
    settings = settle(_JUDGE, {"transform": option.transform}, task, prepared, TAIL)
    window, counts = tail(prepared)
    tracker = build(_JUDGE, task, jax.random.key(0), **settings)
    scores = np.asarray(_scores(tracker, jax.tree.map(jnp.asarray, window)), float)[counts]
    return np.nan_to_num(scores, nan=_WORST, neginf=_WORST)


def _is_better(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether scores are better than others of the same labels, by more than chance."""
    gain = one - other
    return bool(gain.mean() > max(_GAIN, 2.0 * gain.std(ddof=1) / np.sqrt(len(gain))))


def tail(series: Series) -> tuple[Window, np.ndarray]:
    """The streams [B, T] of a training part, and which of their labels count: the known ones of the tail."""
    window, sequences = lay_out(series)
    window = hide_unknown(window, sequences, series.delay)
    cut = series.split(1.0 - TAIL)[1].time.min()
    late = sequences.valid & (series.time[sequences.row] >= cut)
    return window, late & np.asarray(window.observed)


@eqx.filter_jit
def _scores(tracker: AbstractTracker, window: Window) -> jax.Array:
    """log p of every label of B streams, [B, T]."""

    def one(stream: Window) -> jax.Array:
        return tracker.window_terms(tracker.init(), stream, jax.random.key(0))[0].log_predictive

    return jax.vmap(one)(window)
