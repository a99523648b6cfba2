"""How long one step of the filter takes: update with the due label, then predict."""

import time
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array, Float

from latenttrack.data.series import Series
from latenttrack.filtering.offline import filter_series
from latenttrack.models.predictive import Predictive
from latenttrack.models.stack import Stack


def microseconds_per_step(stack: Stack, series: Series, steps: int = 2000, repeats: int = 3) -> float:
    """The median over a few timed runs of the compiled scan: one seed, one stream, no scoring.

    Args:
        stack: the trackers; the first seed is timed.
        series: at least some rows of its first stream.
        steps: rows to run over, at most.
        repeats: timed runs after one that compiles.
    """
    one = Stack(jax.tree.map(lambda leaf: leaf[:1], stack.params), stack.rest, 1)
    stream = _first_stream(series, steps)
    taken = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        filter_series(one, stream, jax.random.key(0), record=_moments)
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken[1:])) / len(stream) * 1e6


def _first_stream(series: Series, steps: int) -> Series:
    """The first rows of the first stream, as a series of that stream alone."""
    rows = series.select(np.flatnonzero(series.key == series.key[0])[:steps])
    return replace(rows, keys=(series.keys[series.key[0]],), key=np.zeros(len(rows), np.int32))


def _moments(predictive: Predictive, y: Float[Array, ""]) -> tuple[Array, Array, Array]:
    """What any user of a forecast needs at least."""
    del y
    return predictive.mean, predictive.aleatoric, predictive.epistemic
