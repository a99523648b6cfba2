"""Several steps ahead: S sampled paths, each of which goes on as the live filter would.

At every new step each path has its own belief, its own memory of the pipeline and its own log of labels:

    place       the row: what is known of the future, the target as the path has drawn it, and an earlier row
                for all else (filtering/stand_ins.py)
    run         update with the label that is due, advance with x, predict: the live step, for S paths at once
    draw        the label of the step from the path's own forecast; where horizons overlap, errors are shared
                with the steps before (filtering/overlap.py)

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
from scipy.special import ndtri

from latenttrack.errors import LatentTrackError
from latenttrack.filtering.fanning import fan_of
from latenttrack.filtering.gate import Gate
from latenttrack.filtering.live import LiveFilter
from latenttrack.filtering.log import Entry
from latenttrack.filtering.overlap import Overlap
from latenttrack.filtering.program import Program, Track
from latenttrack.filtering.stand_ins import StandIns

_RAREST = 1e-6  # probability


class Future(NamedTuple):
    """What is known of the H steps to come.

    Attributes:
        time: [H] as `Feed.time` gives it.
        rows: [H, F] measurements, NaN where they are not known.
        season: steps after which measurements come again, about; 1 if that is not known.
    """

    time: list[int | float]
    rows: np.ndarray
    season: int = 1


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
        unknown: measurements whose future is not known, and for which earlier ones stand in.
        past: the newest known values of the target.
        notes: what was done to the rows that were given, for people.
    """

    time: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    quantiles: dict[float, np.ndarray]
    paths: np.ndarray
    target: str = "y"
    unknown: tuple[str, ...] = ()
    past: Past = field(default_factory=lambda: Past(np.zeros(0), np.zeros(0)), repr=False)
    notes: tuple[str, ...] = ()


def roll(live: LiveFilter, future: Future, *, samples: int, seed: int) -> Forecast:
    """Roll a live filter forward; it stays as it is.

    With the newest step n, horizon h and k = 1..H, the target at n + k is the label of step n + k - h: for
    k <= h that of a step which was predicted already, and for k > h that of a step which is still to come.

    Args:
        live: a filter with nothing left to run again (a copy of one is always in that state).
        future: what is known of the H steps.
        samples: S, how many paths.
        seed: of the draws.
    """
    feed, h = live.feed, _horizon(live)
    if feed.delay < h:
        raise LatentTrackError(
            f"labels of this model are due {feed.delay} steps after their row but measured only after {h}: "
            "fit it without a delay, or with one that is not shorter than the horizon."
        )
    paths = _Paths(live, future.season, samples, seed)
    paths.draw_pending()
    now = paths.now
    ahead = len(future.time) - h
    for i in range(ahead):
        paths.step(now + 1 + i, future.time[i], future.rows[i])
    numbers = range(now + 1 - h, now + 1 + ahead)
    fan = np.array([paths.fans[number] for number in numbers])
    missing = np.isnan(future.rows[: max(ahead, 0)]).any(axis=0)
    unknown = [feed.column(n) for n, m in zip(feed.inputs, missing, strict=True) if m and n != feed.source]
    return Forecast(
        time=np.array([feed.stamp(time) for time in future.time]),
        mean=fan[:, 0],
        std=fan[:, 1],
        quantiles=dict(zip(live.levels, fan[:, 2:].T, strict=True)),
        paths=np.array([paths.labels[number] for number in numbers]).T,
        target=feed.source or feed.target,
        unknown=tuple(dict.fromkeys(unknown)),
        past=_past(live, h),
    )


def newest_step(live: LiveFilter) -> Entry:
    """The step that a forecast begins after."""
    newest, h = live.log.newest, _horizon(live)
    if newest is None or len(live.log) < h:
        raise LatentTrackError(
            f"the model has seen {len(live.log)} rows of this stream, too few to forecast from: "
            f"give at least {max(h, 1)} recent ones."
        )
    return newest


def _horizon(live: LiveFilter) -> int:
    """How many steps later the target is measured; 0 if it is no measurement."""
    return live.feed.horizon if live.feed.source is not None else 0


class _Paths:
    """S paths, from the newest step of a live filter on.

    Attributes:
        now: number of that step.
        labels: [S] drawn labels, by the number of their step.
        fans: [2 + Q] mean, standard deviation and quantiles of these labels, likewise.
    """

    def __init__(self, live: LiveFilter, season: int, samples: int, seed: int):
        self.now = newest_step(live).number
        self.labels: dict[int, np.ndarray] = {}
        self.fans: dict[int, np.ndarray] = {}
        self._live, self._program = live, live.program
        self._samples, self._key = samples, jax.random.key(seed)
        self._fan = fan_of(live.program)
        # On JAX's own device: S paths keep more than one core busy.
        first = np.asarray(_first_belief(live))
        self._tracks = jnp.tile(jnp.asarray(first), (samples, 1))
        self._memories = [live.memory] * samples
        self._features: dict[int, np.ndarray] = {}  # [S, F'] by step
        self._low, self._high = _limits(live.gate)
        self._stand_ins = StandIns(live.log, season, samples)
        self._pending = range(self.now - (_horizon(live) or live.feed.delay) + 1, self.now + 1)
        known = [_score(e, live.program) for e in live.log.entries if e.number < self._pending.start]
        self._overlap = Overlap(np.array(known), live.feed.delay, samples, seed)

    def draw_pending(self) -> None:
        """Draw the labels that the live filter waits for, from the forecasts that were given out."""
        for number in self._pending:
            entry = self._live.log.get(number)
            if entry is None or entry.forecast is None:
                continue
            if entry.label == entry.label:  # it came early
                self.labels[number] = np.full(self._samples, entry.label)
                self.fans[number] = np.array([entry.label, 0.0, *[entry.label] * len(self._live.levels)])
                self._overlap.push(np.full(self._samples, _score(entry, self._program)))
            else:
                track = jnp.asarray(np.asarray(entry.forecast))
                self._draw(number, jnp.tile(track, (self._samples, 1)))

    def step(self, number: int, time: int | float, row: np.ndarray) -> None:
        """Run a step that is still to come, and draw its label.

        Args:
            number: of the step.
            time: of the step.
            row: [F] what is known of it.
        """
        feed = self._live.feed
        rows = np.where(np.isnan(row), self._stand_ins.rows(number), row)
        if feed.source in feed.inputs:
            measured = self.labels.get(number - feed.horizon)
            rows[:, feed.inputs.index(feed.source)] = math.nan if measured is None else measured
        rows = self._through_gate(rows, slice(None, -1))
        due_x, due_y = self._due(number - feed.delay)
        inputs, pipeline = [], self._live.pipeline
        for s, memory in enumerate(self._memories):
            features, self._memories[s] = pipeline.follow(memory, time, rows[s], label=float(due_y[s]))
            inputs.append(self._program.inputs(due_x[s], float(due_y[s]), features, number))
        packed, F = np.array(inputs), due_x.shape[1]
        self._features[number] = packed[:, F : 2 * F]
        self._tracks = self._fan.roll(self._tracks, packed)
        self._draw(number, self._tracks)

    def _draw(self, number: int, tracks: jax.Array) -> None:
        """Label and fan of a step from its tracks [S, n]."""
        expected, sd = self._overlap.mean, self._overlap.sd
        chance = jax.random.normal(jax.random.fold_in(self._key, number), (self._samples,))
        scores = expected + sd * np.asarray(chance)
        self.labels[number] = self._fan.draw(tracks, scores)
        self.fans[number] = self._fan.mix(tracks, expected, sd)
        self._overlap.push(scores)

    def _due(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Features [S, F'] and label [S] of the step whose label is due; NaN if there is none."""
        if number in self._features:
            return self._features[number], self._usable(number)
        entry = self._live.log.get(number)
        if entry is None:
            nothing = np.zeros((self._samples, len(self._live.pipeline.names)), np.float32)
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


def _score(entry: Entry, program: Program) -> float:
    """Normal score of a known label under the forecast that was given out for it; NaN if there is none."""
    if entry.forecast is None or entry.held or math.isnan(entry.label):
        return math.nan
    pit = program.score(entry.forecast, entry.label)[0] if math.isnan(entry.pit) else entry.pit
    return float(ndtri(min(max(pit, _RAREST), 1.0 - _RAREST)))


def _first_belief(live: LiveFilter) -> Track:
    """The belief that the next step begins from; see `Entry.begin`."""
    if live.begin == "renew":
        return live.program.renew(live.belief)
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
