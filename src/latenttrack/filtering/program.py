"""The compiled functions of a live filter: one step, one score. What a step leaves behind is one array."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, PRNGKeyArray

from latenttrack.filtering.device import live_device
from latenttrack.filtering.packing import Packing
from latenttrack.models.base import AbstractTracker, State, step
from latenttrack.models.predictive import Predictive

Track = Float32[Array, " n"]  # what a step leaves behind: the belief after it, its report, its forecast
# A sum of more than 32 numbers would be made in two operations, that of its terms being a third.
_OPTIONS = {"xla_disable_hlo_passes": "tree_reduction_rewriter"}
_MOMENTS = 4  # mean, sd, aleatoric, epistemic: the head of a report


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
        levels: tuple[float, ...],
        key: PRNGKeyArray | None = None,
    ):
        self._tracker, self._features, self._units = tracker, features, units
        self._levels = jnp.asarray(levels, jnp.float32)
        self._key = jax.random.key(0) if key is None else key
        state = jax.eval_shape(tracker.init)
        x = jax.ShapeDtypeStruct((features,), jnp.float32)
        self.beliefs = Packing.of(state)
        self.forecasts = Packing.of(jax.eval_shape(tracker.predict, state, x, self._key))
        self._report = slice(self.beliefs.size, self.beliefs.size + _MOMENTS + len(levels))
        loc, scale = units
        square = scale**2
        self._gain = np.array([scale, scale, square, square, *[scale] * len(levels)])
        self._offset = np.array([loc, 0.0, 0.0, 0.0, *[loc] * len(levels)])
        self.step = jax.jit(self._step, compiler_options=_OPTIONS)
        self._scores = jax.jit(self._score, compiler_options=_OPTIONS)

    def start(self) -> Track:
        """The belief before any data; its report and forecast are void."""
        # Compiled as one program, which a cache keeps: one operation after another takes longer to start.
        return self._place(jax.jit(lambda: self._begin(self._tracker.init()))())

    def renew(self, track: Track) -> Track:
        """The belief where training data end; see `AbstractTracker.renew`."""
        state = self.beliefs.unpack(jnp.asarray(np.asarray(track)[: self.beliefs.size]))
        return self._place(self._begin(self._tracker.renew(state)))

    def inputs(self, due_x: np.ndarray, due_y: float, x: np.ndarray, number: int) -> np.ndarray:
        """[2 F + 3] all that `step` hears.

        Args:
            due_x: [F] features of the step whose label is due.
            due_y: that label in original units, NaN if it is not known.
            x: [F] features of the new step.
            number: of the new step.
        """
        F = self._features
        inputs = np.zeros(2 * F + 3, np.float32)
        inputs[:F] = due_x
        inputs[F : 2 * F] = x
        if due_y == due_y:
            inputs[-3] = (due_y - self._units.loc) / self._units.scale
            inputs[-2] = 1.0
        inputs[-1:].view(np.uint32)[0] = number
        return inputs

    def report(self, track: Track) -> np.ndarray:
        """[mean, sd, aleatoric, epistemic, quantiles...] of the track's step, in original units."""
        report: np.ndarray = self._offset + self._gain * np.asarray(track)[self._report]
        return report

    def score(self, track: Track, y: float) -> tuple[float, float]:
        """(P(Y <= y), log p(y)) of a label in original units, under the forecast of a track."""
        loc, scale = self._units
        pit, log_prob = np.asarray(self._scores(track, np.float32((y - loc) / scale))).tolist()
        return pit, log_prob - math.log(scale)

    def _begin(self, state: State) -> Track:
        rest = jnp.zeros(self._report.stop - self._report.start + self.forecasts.size)
        return jnp.concatenate([self.beliefs.pack(state), rest])

    def _place(self, track: Track) -> Track:
        """All later tracks are where the first one is: this is what chooses the device."""
        return jax.device_put(track, live_device())

    def _step(self, track: Track, inputs: Float[Array, " m"]) -> Track:
        """The track after the due label and the new features: update, advance, predict."""
        F = self._features
        due = (inputs[:F], inputs[-3], inputs[-2] > 0)
        key = jax.random.fold_in(self._key, jax.lax.bitcast_convert_type(inputs[-1], jnp.uint32))
        state = self.beliefs.unpack(track[: self.beliefs.size])
        forecast, state = step(self._tracker, state, due, inputs[F : 2 * F], key)
        moments = [forecast.mean, jnp.sqrt(forecast.variance), forecast.aleatoric, forecast.epistemic]
        quantiles = forecast.quantiles(self._levels)
        return jnp.concatenate(
            [self.beliefs.pack(state), jnp.stack(moments), quantiles, self.forecasts.pack(forecast)]
        )

    def _score(self, track: Track, y: Float[Array, ""]) -> Float[Array, "2"]:
        """[P(Y <= y), log p(y)] of a standardised label."""
        forecast: Predictive = self.forecasts.unpack(track[self._report.stop :])
        return jnp.stack([forecast.cdf(y), forecast.log_prob(y)])
