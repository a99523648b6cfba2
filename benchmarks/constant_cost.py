"""Constant cost: one filter run of 101,000 steps costs as much per step at its end as at its start.

The run is cut into segments of 1,000 steps that carry the belief on. The beliefs at steps 1,000 and 100,000
are kept (a belief is data), and the segments that follow them are timed in alternation, so that a busy
machine slows both. Memory: the belief, all arrays that JAX holds (exact: anything kept from past steps would
show), and the whole process (blurred by what the allocator takes and gives back).
"""

import resource
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from measuring import Row, alternate, parse, series, show, show_seconds, timed, untrained

from latenttrack.filtering.offline import record_forecast
from latenttrack.models.base import AbstractTracker, State, Window, step
from latenttrack.models.layout import lay_out

SEGMENT = 1_000
EARLY, LATE = 1_000, 100_000
TOLERANCE = 0.05


def rows(*, quick: bool) -> list[Row]:
    tracker = untrained()[0]
    window, _ = lay_out(series(LATE + SEGMENT))
    data = Window(*(jnp.asarray(leaf[0]) for leaf in window))

    @jax.jit
    def segment(state: State, begin: jax.Array) -> tuple[State, jax.Array]:
        return run_segment(tracker, data, state, begin)

    state, kept, memory = tracker.init(), {}, {}
    for begin in range(0, LATE + SEGMENT, SEGMENT):
        if begin in (EARLY, LATE):
            kept[begin] = jax.device_get(state)
            memory[begin] = (array_bytes(state), array_bytes(jax.live_arrays()), peak_memory())
        state, _ = jax.block_until_ready(segment(state, jnp.asarray(begin)))

    sides = {
        str(at): timed(lambda at=at: segment(kept[at], jnp.asarray(at)), SEGMENT) for at in (EARLY, LATE)
    }
    seconds = alternate(sides, 50 if quick else 200)
    late, early = seconds[str(LATE)], seconds[str(EARLY)]
    return [
        _row("cost of a step", late, early, lambda value: f"{show_seconds(value)} a step", TOLERANCE),
        _row("size of the belief", memory[LATE][0], memory[EARLY][0], _show_bytes, 0.0),
        _row("all JAX arrays", memory[LATE][1], memory[EARLY][1], _show_bytes, 0.0),
        _row("peak memory of the process", memory[LATE][2], memory[EARLY][2], _show_bytes, TOLERANCE),
    ]


def _row(what: str, late: float, early: float, show: Callable[[float], str], tolerance: float) -> Row:
    ratio = late / early
    name = f"{what}, at step 100,000 / 1,000"
    return Row(name, show(late), show(early), ratio, f"1 +- {tolerance:g}", abs(ratio - 1.0) <= tolerance)


def _show_bytes(count: float) -> str:
    return f"{count:,.0f} bytes"


def run_segment(
    tracker: AbstractTracker, data: Window, state: State, begin: jax.Array
) -> tuple[State, jax.Array]:
    """Filter 1,000 steps from `begin`: the belief after them, and the sum of what was recorded."""
    rows = Window(*(jax.lax.dynamic_slice_in_dim(leaf, begin, SEGMENT) for leaf in data))
    key = jax.random.key(1)

    def body(state: State, inputs: tuple[Window, jax.Array]) -> tuple[State, jax.Array]:
        row, t = inputs
        due = (row.due_x, row.due_y, row.due_observed)
        forecast, state = step(tracker, state, due, row.x, jax.random.fold_in(key, t))
        return state, sum(record_forecast(forecast, row.y))

    state, records = jax.lax.scan(body, state, (rows, begin + jnp.arange(SEGMENT)))
    return state, jnp.sum(records)


def array_bytes(tree: Any) -> int:
    """Bytes of all arrays of a pytree."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def peak_memory() -> int:
    """Most bytes that this process has held so far."""
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    options = parse(__doc__)
    show(rows(quick=options.quick), markdown=options.markdown)
