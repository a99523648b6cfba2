"""Settings that the training part decides, where the user leaves them open.

A reference has no weights, but how fast it forgets, or how far it trusts the last season, decides how good it
is; and a network that corrects a reference must know how large that reference's errors are.
"""

import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from latenttrack.data.series import Series, require_learnable
from latenttrack.models.base import Window
from latenttrack.models.checks import check_transform
from latenttrack.models.layout import hide_unknown, lay_out
from latenttrack.models.references import point_errors
from latenttrack.models.registry import REFERENCES, build_reference
from latenttrack.models.task import Task
from latenttrack.models.transformed import KINDS, Curve

# From a memory of 3 labels to one of 10,000, for a single weight. Not 1: a stream may yet begin to drift.
FORGETTING = (0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999)
_FORGETFUL = ("rls", "rls-t")
_SEASONAL = "seasonal-difference"
_BLOCKS = 20
_WORST = 1e6  # the error of a forecast that is not a number
_LEAST_SCALE = 1e-6


def settle(
    name: str, settings: dict[str, Any], task: Task, series: Series, validation: float
) -> dict[str, Any]:
    """Fill in what the training part decides.

    That is the `forgetting` of least squares and the `weight` of a seasonal difference, be they the model
    itself, its anchor, its informant or in its safety net, and `anchor_scale`.

    Args:
        name: the model.
        settings: those given; what they say stays.
        task: of the series.
        series: the training part.
        validation: newest share of it that decides when to stop: what a network works with may not see it.

    Returns:
        The settings from which the model is built, and which its file keeps.
    """
    check_transform(name, settings.get("transform"), KINDS)
    past = _Past(task, series, 0.0 if name in REFERENCES else validation, settings.get("transform"))
    chosen = past.complete(name, settings)
    for role in ("anchor", "informant"):
        own = past.complete(chosen.get(role), chosen.get(f"{role}_settings"))
        if own:
            chosen[f"{role}_settings"] = own
    net, given = chosen.get("safety_net"), chosen.get("safety_net_settings") or {}
    if isinstance(net, list | tuple):
        completed = {member: past.complete(member, given.get(member)) for member in net}
        filled = {**given, **{member: own for member, own in completed.items() if own}}
        if filled:
            chosen["safety_net_settings"] = filled
    anchor = chosen.get("anchor")
    if anchor is not None and "anchor_scale" not in chosen:
        own = chosen.get("anchor_settings") or {}
        chosen["anchor_scale"] = _error_scale(anchor, own, task, past.window)
    return chosen


class _Past:
    """The part of a series that may decide, and what was learned from it: nothing is computed twice."""

    def __init__(self, task: Task, series: Series, validation: float, transform: Mapping[str, Any] | None):
        self.task, self.series, self.validation, self.transform = task, series, validation, transform

    @functools.cached_property
    def window(self) -> Window:
        """The streams [B, T] without the validation part, with the labels that references will hear."""
        part = self.series.split(1.0 - self.validation)[0] if self.validation > 0 else self.series
        window = _known(part)
        return window if self.transform is None else Curve(**self.transform).window(window)

    @functools.cached_property
    def forgetting(self) -> float:
        """The same for Gaussian and Student-t residuals: they forecast the same points."""
        return best_forgetting("rls", self.task, self.window)

    def complete(self, reference: str | None, settings: Mapping[str, Any] | None) -> dict[str, Any]:
        """A model's own settings, with what the past decides where they leave it open."""
        own = dict(settings or {})
        if reference in _FORGETFUL and "forgetting" not in own:
            own["forgetting"] = self.forgetting
        if reference == _SEASONAL and "weight" not in own:
            own["weight"] = best_weight(self.task, self.window, own.get("period"))
        return own


def best_forgetting(name: str, task: Task, window: Window) -> float:
    """The forgetting factor that the streams of a window [B, T] call for.

    Forgetting moves the point forecast alone, so that is what decides: every candidate forecasts each label
    before it is known, from an empty belief on, all of them side by side in one pass. The longest memory is
    chosen whose mean absolute error exceeds the smallest by at most one standard error, taken over blocks of
    time, so that one odd week does not decide, nor a few labels far out.
    """
    reference = build_reference(name, task)

    def absolute_errors(forgetting: Float[Array, ""], window: Window) -> Float[Array, " T"]:
        candidate = eqx.tree_at(lambda rls: rls.forgetting, reference, forgetting)
        errors = jnp.nan_to_num(jnp.abs(point_errors(candidate, window)), nan=_WORST, posinf=_WORST)
        return jnp.sum(jnp.where(window.observed, errors, 0.0), axis=0)

    errors = jax.jit(jax.vmap(absolute_errors, in_axes=(0, None)))(jnp.asarray(FORGETTING), window)
    blocks = np.stack([block.sum(axis=1) for block in np.array_split(np.asarray(errors, float), _BLOCKS, 1)])
    excess = blocks - blocks[:, [np.argmin(blocks.sum(axis=0))]]  # [blocks, candidates]
    standard_error = excess.std(axis=0, ddof=1) / np.sqrt(_BLOCKS)
    return FORGETTING[int(np.flatnonzero(excess.mean(axis=0) <= standard_error)[-1])]


def best_weight(task: Task, window: Window, period: int | None = None) -> float:
    """The weight of a seasonal difference that the streams of a window [B, T] call for, from 0 to 1.

    With weight 0 it misses y by e, with weight 1 by e - c, c the change that the last season saw. Least
    squares of e on c is sum(e c) / sum(c^2). Without a season, or where none has passed yet, nothing speaks
    for more than the last label.

    Args:
        task: of the streams.
        window: every label is forecast before it is known, from an empty belief on.
        period: steps in the season, if not that of the task.
    """
    if not (period or task.period):
        return 0.0
    reference = build_reference(_SEASONAL, task, period=period)

    def errors(weight: Float[Array, ""], window: Window) -> Float[Array, "B T"]:
        return point_errors(eqx.tree_at(lambda r: r.weight, reference, weight), window)

    both = jax.jit(jax.vmap(errors, in_axes=(0, None)))(jnp.array([0.0, 1.0]), window)
    e, missed = (np.asarray(misses, float)[np.asarray(window.observed)] for misses in both)
    c = e - missed
    return float(np.clip(np.sum(e * c) / np.sum(c**2), 0.0, 1.0)) if np.any(c) else 0.0


def _error_scale(name: str, settings: dict[str, Any], task: Task, window: Window) -> float:
    """Root mean square error of a reference on the window."""
    reference = build_reference(name, task, **settings)
    errors = np.asarray(eqx.filter_jit(point_errors)(reference, window))[np.asarray(window.observed)]
    return max(float(np.sqrt(np.mean(errors**2))), _LEAST_SCALE) if len(errors) else 1.0


def _known(series: Series) -> Window:
    """The streams [B, T], without the labels that were not known yet when they ended."""
    require_learnable(series)
    window, sequences = lay_out(series)
    return jax.tree.map(jnp.asarray, hide_unknown(window, sequences, series.delay))
