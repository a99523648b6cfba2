"""Several steps ahead: S sampled paths, each of which goes on as the live filter would.

At every new step each path has its own belief, its own memory of the pipeline and its own log of labels:

    place       the row: what is known of the future, and the target as the path has drawn it
    run         update with the label that is due, advance with x, predict: the live step, for S paths at once
    draw        the label of the step from the path's own forecast, independent of all other draws

A draw is heard of when it would have become known: as a measurement `horizon` steps later, as a label when it
is due. Labels that are not known yet where the stream stands are drawn first, from the forecasts that were
given out for them. What the gate would keep out of a live stream is kept out of a path too.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from latenttrack.data.features import Pipeline
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.fanning import fan_of
from latenttrack.filtering.gate import Gate
from latenttrack.filtering.live import LiveFilter
from latenttrack.filtering.log import Entry
from latenttrack.filtering.program import Program, Track


class Future(NamedTuple):
    """What is known of the H steps to come.

    Attributes:
        time: [H] as `Feed.time` gives it.
        rows: [H, F] measurements, NaN where they are not known.
    """

    time: list[int | float]
    rows: np.ndarray


class Past(NamedTuple):
    """The target where it is known, newest last: what a figure shows beside a forecast.

    Attributes:
        time: [N] as in `Forecast`.
        y: [N], NaN where it is missing.
    """

    time: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class Forecast:
    """The target at each of the H steps to come, in original units.

    Mean, standard deviation and quantiles are those of the equal mixture of what the S paths forecast for a
    step: less noisy than those of the S values that were drawn.

    Attributes:
        time: [H] datetime64[ns], or numbers of steps.
        mean: [H].
        std: [H].
        quantiles: [H] by level.
        paths: [S, H] what was drawn; every row is one possible future.
        target: name of what is forecast.
        unknown: measurements whose future is not known, and which count as missing there.
        past: the newest known values of the target.
    """

    time: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    quantiles: dict[float, np.ndarray]
    paths: np.ndarray
    target: str = "y"
    unknown: tuple[str, ...] = ()
    past: Past = field(default_factory=lambda: Past(np.zeros(0), np.zeros(0)), repr=False)


def roll(
    live: LiveFilter, program: Program, pipeline: Pipeline, future: Future, *, samples: int, seed: int
) -> Forecast:
    """Roll a live filter forward; it stays as it is.

    With the newest step n, horizon h and k = 1..H, the target at n + k is the label of step n + k - h: for
    k <= h that of a step which was predicted already, and for k > h that of a step which is still to come.

    Args:
        live: a filter with nothing left to run again (a copy of one is always in that state).
        program: its model, compiled.
        pipeline: makes its inputs.
        future: what is known of the H steps.
        samples: S, how many paths.
        seed: of the draws.
    """
    feed, now = live.feed, newest_step(live).number
    h = feed.horizon if feed.source is not None else 0
    if feed.delay < h:
        raise LatentTrackError(
            f"labels of this model are due {feed.delay} steps after their row but measured only after {h}: "
            "fit it without a delay, or with one that is not shorter than the horizon."
        )
    paths = _Paths(live, program, pipeline, samples, seed)
    for number in range(now - (h or feed.delay) + 1, now + 1):
        paths.wait(number)
    ahead = len(future.time) - h
    for i in range(ahead):
        paths.step(now + 1 + i, future.time[i], future.rows[i])
    numbers = range(now + 1 - h, now + 1 + ahead)
    fan = np.array([paths.fans[number] for number in numbers])
    unknown = np.isnan(future.rows[: max(ahead, 0)]).any(axis=0)
    return Forecast(
        time=np.array([feed.stamp(time) for time in future.time]),
        mean=fan[:, 0],
        std=fan[:, 1],
        quantiles=dict(zip(program.levels, fan[:, 2:].T, strict=True)),
        paths=np.array([paths.labels[number] for number in numbers]).T,
        target=feed.source or feed.target,
        unknown=tuple(n for n, u in zip(feed.inputs, unknown, strict=True) if u and n != feed.source),
        past=_past(live, h),
    )


def newest_step(live: LiveFilter) -> Entry:
    """The step that a forecast begins after."""
    newest, h = live.log.newest, live.feed.horizon if live.feed.source is not None else 0
    if newest is None or len(live.log) < h:
        raise LatentTrackError(
            f"the model has seen {len(live.log)} rows of this stream, too few to forecast from: "
            f"give at least {max(h, 1)} recent ones."
        )
    return newest


class _Paths:
    """S paths, from the newest step of a live filter on.

    Attributes:
        labels: [S] drawn labels, by the number of their step.
        fans: [2 + Q] mean, standard deviation and quantiles of these labels, likewise.
    """

    def __init__(self, live: LiveFilter, program: Program, pipeline: Pipeline, samples: int, seed: int):
        self.labels: dict[int, np.ndarray] = {}
        self.fans: dict[int, np.ndarray] = {}
        self._live, self._program, self._pipeline = live, program, pipeline
        self._samples, self._key = samples, jax.random.key(seed)
        self._fan = fan_of(program)
        # On JAX's own device: S paths keep more than one core busy.
        first = np.asarray(_first_belief(live, program))
        self._tracks = jnp.tile(jnp.asarray(first), (samples, 1))
        self._memories = [live.memory] * samples
        self._features: dict[int, np.ndarray] = {}  # [S, F'] by step
        self._low, self._high = _limits(live.gate)

    def wait(self, number: int) -> None:
        """Draw a label that the live filter waits for, from the forecast that was given out."""
        entry = self._live.log.get(number)
        if entry is None or entry.forecast is None:
            return
        if entry.label == entry.label:  # it came early
            self.labels[number] = np.full(self._samples, entry.label)
            self.fans[number] = np.array([entry.label, 0.0, *[entry.label] * len(self._program.levels)])
            return
        self._draw(number, jnp.asarray(np.asarray(entry.forecast))[None])

    def step(self, number: int, time: int | float, row: np.ndarray) -> None:
        """Run a step that is still to come, and draw its label.

        Args:
            number: of the step.
            time: of the step.
            row: [F] what is known of it.
        """
        feed = self._live.feed
        rows = np.tile(row, (self._samples, 1))
        if feed.source in feed.inputs:
            measured = self.labels.get(number - feed.horizon)
            rows[:, feed.inputs.index(feed.source)] = math.nan if measured is None else measured
        rows = self._through_gate(rows, slice(None, -1))
        due_x, due_y = self._due(number - feed.delay)
        inputs = []
        for s, memory in enumerate(self._memories):
            features, self._memories[s] = self._pipeline.follow(memory, time, rows[s], label=float(due_y[s]))
            inputs.append(self._program.inputs(due_x[s], float(due_y[s]), features, number))
        packed, F = np.array(inputs), due_x.shape[1]
        self._features[number] = packed[:, F : 2 * F]
        self._tracks = self._fan.roll(self._tracks, packed)
        self._draw(number, self._tracks)

    def _draw(self, number: int, tracks: jax.Array) -> None:
        """Label and fan of a step from its tracks: [S, n], or [1, n] if all are alike."""
        keys = jax.random.split(jax.random.fold_in(self._key, number), self._samples)
        each = jnp.broadcast_to(tracks, (self._samples, tracks.shape[1]))
        self.labels[number] = self._fan.draw(each, keys)
        self.fans[number] = self._fan.mix(tracks)

    def _due(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Features [S, F'] and label [S] of the step whose label is due; NaN if there is none."""
        if number in self._features:
            return self._features[number], self._usable(number)
        entry = self._live.log.get(number)
        if entry is None:
            nothing = np.zeros((self._samples, len(self._pipeline.names)), np.float32)
            return nothing, np.full(self._samples, math.nan)
        features = np.tile(entry.features, (self._samples, 1))
        if number in self.labels:
            return features, self._usable(number)
        return features, np.full(self._samples, entry.usable)

    def _usable(self, number: int) -> np.ndarray:
        return self._through_gate(self.labels[number][:, None], slice(-1, None))[:, 0]

    def _through_gate(self, values: np.ndarray, columns: slice) -> np.ndarray:
        """Values [S, C] of some columns, without those that a live filter would take for faults."""
        low, high = self._low[columns], self._high[columns]
        if self._live.gate.settings.policy == "clip":
            return np.clip(values, low, high)
        return np.where((values < low) | (values > high), math.nan, values)


def _first_belief(live: LiveFilter, program: Program) -> Track:
    """The belief that the next step begins from; see `Entry.begin`."""
    if live.begin == "renew":
        return program.renew(live.belief)
    return live.origin if live.begin == "restart" else live.belief


def _limits(gate: Gate) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value [F + 1] that passes the gate, measurements and then the label.

    How many faults in a row make a new regime is not counted on a path: none is so long.
    """
    limits = [
        (-math.inf, math.inf) if run.open or not gate.active else limit
        for limit, run in zip(gate.limits, gate.runs, strict=True)
    ]
    return np.array([low for low, _ in limits]), np.array([high for _, high in limits])


def _past(live: LiveFilter, horizon: int) -> Past:
    """What the log holds of the target: the label of a step is the target `horizon` steps later."""
    log = live.log
    pairs = [(log.get(entry.number + horizon), entry.label) for entry in log.entries]
    known = [(live.feed.stamp(entry.time), label) for entry, label in pairs if entry is not None]
    return Past(np.array([time for time, _ in known]), np.array([label for _, label in known], np.float64))
