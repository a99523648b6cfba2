"""What a network's safety net and recalibration start from: what they learned where it was not trained."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from latenttrack.data.series import Series
from latenttrack.models.base import AbstractTracker, State, Window
from latenttrack.models.predictive import Predictive
from latenttrack.models.recalibrated import Recalibrated
from latenttrack.models.scan import filter_stream
from latenttrack.models.task import Task
from latenttrack.training.suit import tail

_PRIORS = {"strong": 200.0, "medium": 500.0, "mild": 1000.0}  # pseudo-counts of recalibration
_WORTH = 0.0005  # nats: so much a stronger one may cost, for the better calibration
_COST = 0.005  # nats that recalibration may cost at all


class Learned(NamedTuple):
    """Which recalibration, in words, and the settings that it and the safety net start from."""

    recalibration: str
    settings: dict[str, Any]


def learn_online(tracker: AbstractTracker, series: Series) -> Learned:
    """Choose the strongest recalibration that costs nothing on the newest part, and keep what it learned.

    Args:
        tracker: trained on the older part, with a safety net, not recalibrated.
        series: the whole training part, prepared.
    """
    task = Task.of(series)
    window, counts = tail(series)
    begin = int(np.argmax(counts, axis=1)[counts.any(axis=1)].min())
    head, rest = (
        Window(*(jnp.asarray(leaf[:, part]) for leaf in window))
        for part in (slice(begin), slice(begin, None))
    )
    pits, states = _filter(tracker, head, rest)
    # A transform has no state of its own: this is the net's.
    start = {"safety_net_start": _mean(jnp.exp(states.log_weights))}
    gains, first = {}, {}
    for strength, prior in _PRIORS.items():
        recalibrated = Recalibrated(tracker, task.size, task.delay, prior=prior)
        gain, first[strength] = jax.jit(jax.vmap(recalibrated.replay))(pits, rest.observed)
        gains[strength] = float(np.asarray(gain)[counts[:, begin:]].mean())
    best = next(strength for strength in _PRIORS if gains[strength] >= max(gains.values()) - _WORTH)
    if gains[best] < -_COST:
        return Learned("none, it would cost", {**start, "recalibrate": False})
    chosen = {
        "recalibrate": True,
        "recalibrate_prior": _PRIORS[best],
        "recalibrate_start": _mean(first[best].counts),
        "recalibrate_spread": _mean(first[best].spread),
    }
    return Learned(best, {**start, **chosen})


def _mean(values: Float[Array, "B n"]) -> list[float]:
    """Over streams, to plain numbers."""
    return [round(float(value), 4) for value in np.asarray(values).mean(axis=0)]


@eqx.filter_jit
def _filter(tracker: AbstractTracker, head: Window, rest: Window) -> tuple[Float[Array, "B T"], State]:
    """The PIT of every label of `rest` under the filter itself, and the beliefs [B, ...] after it."""

    def keep(forecast: Predictive, _state: State, row: Window) -> Array:
        return forecast.cdf(row.y)

    def one(head: Window, rest: Window) -> tuple[Array, State]:
        return filter_stream(tracker, head, rest, jax.random.key(0), keep, trained=True)

    return jax.vmap(one)(head, rest)
