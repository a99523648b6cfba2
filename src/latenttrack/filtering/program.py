"""The compiled functions of a live filter: one step, one score. What a step leaves behind is one array."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, PRNGKeyArray

from latenttrack.data.series import Series
from latenttrack.filtering.device import live_device
from latenttrack.filtering.kernel import compile_small, one_kernel
from latenttrack.filtering.packing import Packing
from latenttrack.models.base import AbstractTracker, State, Window, step
from latenttrack.models.layout import lay_out
from latenttrack.models.predictive import Predictive
from latenttrack.models.scan import warm_up

Track = Float32[Array, " n"]  # what a step leaves behind: the belief after it, its report, its forecast
AnyTrack = Track | Float32[np.ndarray, " n"]
_MOMENTS = 4  # mean, sd, aleatoric, epistemic: the head of a report
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_LARGEST = float(np.finfo(np.float32).max)


class Units(NamedTuple):
    """The original label is loc + scale y."""

    loc: float
    scale: float


class Program:
    """A tracker, ready to be called one event at a time.

    The weights are constants of the compiled program, nothing but the last track and the event is handed
    over, and nothing but the next track comes back: that is what a call costs least with. The program works
    in standardised units; original ones come in when a report is read, in double precision.

    Args:
        tracker: one seed.
        features: F, what the pipeline gives.
        units: of the labels.
        levels: probabilities of the quantiles that are reported.
        key: of a tracker that draws at random; step n uses its own fold of it.
    """

    def __init__(
        self,
        tracker: AbstractTracker,
        features: int,
        units: Units,
        levels: tuple[float, ...] = LEVELS,
        key: PRNGKeyArray | None = None,
    ):
        self._tracker, self._features, self.units = tracker, features, units
        self.levels = levels
        self.fan: object = None  # what filtering/fanning.py compiles for it
        self._key = jax.random.key(0) if key is None else key
        state = jax.eval_shape(tracker.init)
        x = jax.ShapeDtypeStruct((features,), jnp.float32)
        self.beliefs = Packing.of(state)
        self.forecasts = Packing.of(jax.eval_shape(tracker.predict, state, x, self._key))
        self._report = slice(self.beliefs.size, self.beliefs.size + _MOMENTS + len(levels))
        loc, scale = units
        square = scale**2
        self._gain = [scale, scale, square, square, *[scale] * len(levels)]
        self._offset = [loc, 0.0, 0.0, 0.0, *[loc] * len(levels)]
        # The same kernels for one event and for many: the numbers are the same to the last bit.
        self._kernel, score = one_kernel(self._step), one_kernel(self._score)
        self._run = compile_small(self._kernel)
        self._scores = compile_small(score)
        self._many_scores = compile_small(lambda *rows: jax.lax.map(lambda row: score(*row), rows))
        self._scan = compile_small(lambda track, rows: jax.lax.scan(self._leave, track, rows)[1])

    def start(self) -> Track:
        """The belief before any data; its report and forecast are void."""
        # Compiled as one program, which a cache keeps: one operation after another takes longer to start.
        belief = jax.jit(lambda: self.beliefs.pack(self._tracker.init()))()
        return self.join(np.asarray(belief), None)

    def renew(self, track: AnyTrack) -> Track:
        """The belief where training data end; see `AbstractTracker.renew`."""
        state = self.beliefs.unpack(jnp.asarray(np.asarray(track)[: self.beliefs.size]))
        return self._begin(self._tracker.renew(state))

    def fold(self, series: Series) -> Track:
        """The belief after the rows of a prepared series with a single stream."""
        window = Window(*(jnp.asarray(leaf[0]) for leaf in lay_out(series)[0]))
        # Not part of what is compiled for a step: it runs once.
        folded: State = jax.jit(lambda w: warm_up(self._tracker, self._tracker.init(), w))(window)
        return self._begin(folded)

    def inputs(self, due_x: np.ndarray, due_y: float, x: np.ndarray, number: int) -> np.ndarray:
        """[2 F + 3] all that `step` hears.

        Args:
            due_x: [F] features of the step whose label is due.
            due_y: that label in original units, NaN if it is not known.
            x: [F] features of the new step.
            number: of the new step.
        """
        F = self._features
        known, (loc, scale) = due_y == due_y, self.units
        inputs = np.empty(2 * F + 3, np.float32)
        inputs[:F] = due_x
        inputs[F:-3] = x
        inputs[-3] = (due_y - loc) / scale if known else 0.0
        inputs[-2] = known
        inputs.view(np.uint32)[-1] = number
        return inputs

    def step(self, track: AnyTrack, inputs: np.ndarray) -> Track:
        """The track after a step.

        Args:
            track: before it.
            inputs: from `inputs`.
        """
        after: Track = self._run(self.place(track), inputs)
        return after

    def scan(self, track: AnyTrack, inputs: np.ndarray) -> np.ndarray:
        """The tracks [N, n] after each of N steps.

        Args:
            track: before them.
            inputs: [N, 2 F + 3], from `inputs`.
        """
        return np.asarray(self._scan(self.place(track), inputs))

    def scores(
        self, tracks: Sequence[AnyTrack], labels: Sequence[float], most: int
    ) -> list[tuple[float, float]]:
        """`score` of up to `most` labels at once."""
        count = len(labels)
        if count == 0:
            return []
        # Filled up, so that one compiled program serves any number.
        rows = [*tracks, *[tracks[-1]] * (most - count)]
        values = [self._standardised(y) for y in (*labels, *[labels[-1]] * (most - count))]
        stacked = jax.device_put(np.stack([np.asarray(row) for row in rows]), live_device())
        found = np.asarray(self._many_scores(stacked, np.array(values, np.float32)))[:count]
        return [(pit, log_prob - math.log(self.units.scale)) for pit, log_prob in found.tolist()]

    def report(self, track: AnyTrack) -> list[float]:
        """[mean, sd, aleatoric, epistemic, quantiles...] of the step that left the track, original units."""
        words = np.asarray(track)[self._report].tolist()
        # As floats: for as few as these, arrays would take longer.
        return [b + a * word for a, b, word in zip(self._gain, self._offset, words, strict=True)]

    def score(self, track: AnyTrack, y: float) -> tuple[float, float]:
        """(P(Y <= y), log p(y)) of a label in original units, under the forecast of a track."""
        found = self._scores(self.place(track), np.float32(self._standardised(y)))
        pit, log_prob = np.asarray(found).tolist()
        return pit, log_prob - math.log(self.units.scale)

    def _standardised(self, y: float) -> float:
        """A label as the model sees it; one too large for single precision is the largest there is."""
        loc, scale = self.units
        return min(max((y - loc) / scale, -_LARGEST), _LARGEST)

    def _begin(self, state: State) -> Track:
        return self.join(np.asarray(self.beliefs.pack(state)), None)

    def split(self, track: AnyTrack) -> tuple[np.ndarray, np.ndarray]:
        """The belief of a track, and what was said: its report and forecast."""
        words = np.asarray(track)
        return words[: self.beliefs.size], words[self.beliefs.size :]

    def join(self, belief: np.ndarray | None, said: np.ndarray | None) -> Track:
        """The inverse of `split`; what is not given is void."""
        size = self._report.stop - self._report.start + self.forecasts.size
        belief = np.zeros(self.beliefs.size, np.float32) if belief is None else belief
        said = np.zeros(size, np.float32) if said is None else said
        if belief.shape != (self.beliefs.size,) or said.shape != (size,):
            raise ValueError(f"{belief.size} and {said.size} words, not {self.beliefs.size} and {size}")
        return self.place(np.concatenate([belief, said]).astype(np.float32, copy=False))

    def place(self, track: AnyTrack) -> Track:
        """The track on the live filters' device, where all that a step leaves behind already is."""
        return jax.device_put(track, live_device()) if isinstance(track, np.ndarray) else track

    def run(self, track: Track, inputs: Float[Array, " inputs"]) -> tuple[Predictive, State]:
        """Forecast and state after the due label and the new features: update, advance, predict."""
        F = self._features
        due = (inputs[:F], inputs[-3], inputs[-2] > 0)
        key = jax.random.fold_in(self._key, jax.lax.bitcast_convert_type(inputs[-1], jnp.uint32))
        state = self.beliefs.unpack(track[: self.beliefs.size])
        return step(self._tracker, state, due, inputs[F : 2 * F], key)

    def pack(self, state: State, report: Float[Array, " report"], forecast: Predictive) -> Track:
        """All that a step leaves behind."""
        return jnp.concatenate([self.beliefs.pack(state), report, self.forecasts.pack(forecast)])

    def forecast_of(self, track: Track) -> Predictive:
        """The forecast of a track, of standardised labels."""
        forecast: Predictive = self.forecasts.unpack(track[self._report.stop :])
        return forecast

    def _step(self, track: Track, inputs: Float[Array, " inputs"]) -> Track:
        forecast, state = self.run(track, inputs)
        moments = [forecast.mean, jnp.sqrt(forecast.variance), forecast.aleatoric, forecast.epistemic]
        quantiles = forecast.quantiles(jnp.asarray(self.levels, jnp.float32))
        return self.pack(state, jnp.concatenate([jnp.stack(moments), quantiles]), forecast)

    def _leave(self, track: Track, inputs: Float[Array, " inputs"]) -> tuple[Track, Track]:
        after = self._kernel(track, inputs)
        return after, after

    def _score(self, track: Track, y: Float[Array, ""]) -> Float[Array, "2"]:
        """[P(Y <= y), log p(y)] of a standardised label."""
        forecast = self.forecast_of(track)
        return jnp.stack([forecast.cdf(y), forecast.log_prob(y)])


def is_sound(report: Sequence[float]) -> bool:
    """Whether mean and standard deviation of a report are numbers."""
    return math.isfinite(report[0]) and math.isfinite(report[1])
