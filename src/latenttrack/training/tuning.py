"""Settings that the training part decides, where the user leaves them open.

A reference has no weights, but how fast it forgets decides how good it is; and a network that corrects a
reference must know how large that reference's errors are.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from latenttrack.data.series import Series, require_learnable
from latenttrack.models.base import Window
from latenttrack.models.layout import hide_unknown, lay_out
from latenttrack.models.references import point_errors
from latenttrack.models.registry import build_reference
from latenttrack.models.task import Task

# From a memory of 10 steps to one of 10,000. Not 1: a stream that has not drifted yet may begin to.
FORGETTING = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999)
_FORGETFUL = ("rls", "rls-t")
_BLOCKS = 20
_WORST = 1e6  # the squared error of a forecast that is not a number
_LEAST_SCALE = 1e-6


def settle(
    name: str, settings: dict[str, Any], task: Task, series: Series, validation: float
) -> dict[str, Any]:
    """Fill in what the training part decides: `forgetting`, `anchor_settings` and `anchor_scale`.

    Args:
        name: the model.
        settings: those given; what they say stays.
        task: of the series.
        series: the training part.
        validation: newest share of it that decides when to stop: a network's anchor may not see it.

    Returns:
        The settings from which the model is built, and which its file keeps.
    """
    anchor, informant, chosen = settings.get("anchor"), settings.get("informant"), dict(settings)
    if informant in _FORGETFUL and "informant_settings" not in chosen:
        window = _known(series.split(1.0 - validation)[0] if validation > 0 else series)
        chosen["informant_settings"] = {"forgetting": best_forgetting(informant, task, window)}
    if anchor is None:
        if name in _FORGETFUL and "forgetting" not in chosen:
            chosen["forgetting"] = best_forgetting(name, task, _known(series))
        return chosen
    window = _known(series.split(1.0 - validation)[0] if validation > 0 else series)
    own = dict(chosen.get("anchor_settings") or {})
    if anchor in _FORGETFUL and "forgetting" not in own:
        chosen["anchor_settings"] = own = {**own, "forgetting": best_forgetting(anchor, task, window)}
    if "anchor_scale" not in chosen:
        chosen["anchor_scale"] = _error_scale(anchor, own, task, window)
    return chosen


def best_forgetting(name: str, task: Task, window: Window) -> float:
    """The forgetting factor that the streams of a window [B, T] call for.

    Forgetting moves the point forecast alone, so that is what decides: every candidate forecasts each label
    before it is known, from an empty belief on, all of them side by side in one pass. The longest memory is
    chosen whose mean squared error exceeds the smallest by at most two standard errors, taken over blocks of
    time, so that one odd week does not decide.
    """
    reference = build_reference(name, task)

    def squared_errors(forgetting: Float[Array, ""], window: Window) -> Float[Array, " T"]:
        candidate = eqx.tree_at(lambda rls: rls.forgetting, reference, forgetting)
        errors = jnp.nan_to_num(point_errors(candidate, window) ** 2, nan=_WORST, posinf=_WORST)
        return jnp.sum(jnp.where(window.observed, errors, 0.0), axis=0)

    errors = jax.jit(jax.vmap(squared_errors, in_axes=(0, None)))(jnp.asarray(FORGETTING), window)
    blocks = np.stack([block.sum(axis=1) for block in np.array_split(np.asarray(errors, float), _BLOCKS, 1)])
    excess = blocks - blocks[:, [np.argmin(blocks.sum(axis=0))]]  # [blocks, candidates]
    standard_error = excess.std(axis=0, ddof=1) / np.sqrt(_BLOCKS)
    return FORGETTING[int(np.flatnonzero(excess.mean(axis=0) <= 2.0 * standard_error)[-1])]


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
