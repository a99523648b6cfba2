"""The compiled functions of a live filter: one step, one score; and of S sampled paths at once.

Beliefs and forecasts are flat arrays.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from latenttrack.data.series import Series
from latenttrack.filtering.offline import warm_up
from latenttrack.filtering.packing import Packing
from latenttrack.models.base import AbstractTracker, State, Window, step
from latenttrack.models.layout import lay_out
from latenttrack.models.predictive import Predictive

Belief = UInt32[Array, " belief"]
Words = UInt32[Array, " forecast"]  # a packed forecast


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_ROUNDS = 9  # of the search for a quantile: each leaves about a tenth of the bracket


class Units(NamedTuple):
    """The original label is loc + scale y."""

    loc: float
    scale: float


class Program:
    """A tracker, ready to be called one event at a time.

    The weights are constants of the compiled program: nothing but belief and event is handed over.

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
        self._tracker, self._features, self._units = tracker, features, units
        self.levels = levels
        self._key = jax.random.key(0) if key is None else key
        state = jax.eval_shape(tracker.init)
        x = jax.ShapeDtypeStruct((features,), jnp.float32)
        self.beliefs = Packing.of(state)
        self.forecasts = Packing.of(jax.eval_shape(self._predict, state, x, self._key))
        self.step = jax.jit(self._step)
        self.score = jax.jit(self._score)
        # For S paths; compiled when first used, which most streams never do.
        self.roll = jax.jit(jax.vmap(self._roll, (0, 0, None)))
        self.draw = jax.jit(jax.vmap(self._draw))
        self.fan = jax.jit(self._fan)

    def start(self) -> Belief:
        """The belief before any data."""
        return self.beliefs.pack(self._tracker.init())

    def renew(self, belief: Belief) -> Belief:
        """The belief where training data end; see `AbstractTracker.renew`."""
        return self.beliefs.pack(self._tracker.renew(self.beliefs.unpack(belief)))

    def fold(self, series: Series) -> Belief:
        """The belief after the rows of a prepared series with a single stream."""
        window = Window(*(jnp.asarray(leaf[0]) for leaf in lay_out(series)[0]))
        return jax.jit(lambda w: self.beliefs.pack(warm_up(self._tracker, self._tracker.init(), w)))(window)

    def inputs(self, due_x: np.ndarray, due_y: float, x: np.ndarray) -> np.ndarray:
        """[2 F + 2] all that `step` hears.

        Args:
            due_x: [F] features of the step whose label is due.
            due_y: that label in original units, NaN if it is not known.
            x: [F] features of the new step.
        """
        inputs = np.zeros(2 * self._features + 2, np.float32)
        inputs[: self._features] = due_x
        inputs[self._features : -2] = x
        if due_y == due_y:
            inputs[-2] = (due_y - self._units.loc) / self._units.scale
            inputs[-1] = 1.0
        return inputs

    def _step(
        self, belief: Belief, inputs: Float[Array, " inputs"], number: UInt32[Array, ""]
    ) -> tuple[Array, Array, Array]:
        """(belief, report, forecast) after the due label and the new features: update, advance, predict.

        The report is [mean, sd, aleatoric, epistemic, quantiles...] in original units.
        """
        forecast, state = self._run(belief, inputs, number)
        report = jnp.stack(
            [forecast.mean, jnp.sqrt(forecast.variance), forecast.aleatoric, forecast.epistemic]
        )
        quantiles = jax.vmap(forecast.quantile)(jnp.asarray(self.levels, jnp.float32))
        return (
            self.beliefs.pack(state),
            jnp.concatenate([report, quantiles]),
            self.forecasts.pack(forecast),
        )

    def _run(
        self, belief: Belief, inputs: Float[Array, " inputs"], number: UInt32[Array, ""]
    ) -> tuple[Predictive, State]:
        F = self._features
        due = (inputs[:F], inputs[-2], inputs[-1] > 0)
        key = jax.random.fold_in(self._key, number)
        forecast, state = step(self._tracker, self.beliefs.unpack(belief), due, inputs[F:-2], key)
        return self._to_units(forecast), state

    def _roll(
        self, belief: Belief, inputs: Float[Array, " inputs"], number: UInt32[Array, ""]
    ) -> tuple[Array, Array]:
        """(belief, forecast) after one step of a path: `_step` without a report, which nobody reads."""
        forecast, state = self._run(belief, inputs, number)
        return self.beliefs.pack(state), self.forecasts.pack(forecast)

    def _draw(self, forecast: Words, key: PRNGKeyArray) -> Float[Array, ""]:
        """One label in original units."""
        predictive: Predictive = self.forecasts.unpack(forecast)
        return predictive.sample(key)

    def _fan(self, forecasts: UInt32[Array, "S forecast"]) -> Float[Array, " report"]:
        """[mean, sd, quantiles...] of the equal mixture of S forecasts, one of each path.

        Averaging the paths' distributions, and not what was drawn from them, leaves out the noise of the last
        draw (Rao and Blackwell). The q-quantile lies within Cantelli's bounds,

            mean - sd sqrt((1 - q) / q)  and  mean + sd sqrt(q / (1 - q)),

        and is looked for in a bracket twice as wide, as variances are not all exact, and on the scale of
        normal scores, where F is nearly a straight line.
        """
        parts: Predictive = jax.vmap(self.forecasts.unpack)(forecasts)
        means = jax.vmap(lambda part: part.mean)(parts)
        noise = jax.vmap(lambda part: part.variance)(parts)
        mean = jnp.mean(means)
        sd = jnp.sqrt(jnp.mean(noise) + jnp.mean((means - mean) ** 2))

        def score(y: Array) -> Array:
            F = jnp.mean(jax.vmap(lambda part: part.cdf(y))(parts))
            return ndtri(jnp.clip(F, 1e-6, 1.0 - 1e-6))

        def quantile(q: Array) -> Array:
            odds, goal = jnp.sqrt(q / (1.0 - q)), ndtri(q)
            ends = jnp.stack([mean - 2.0 * sd / odds, mean + 2.0 * sd * odds])
            return _crossing(score, goal, ends, (ends - mean) / sd)

        quantiles = jax.vmap(quantile)(jnp.asarray(self.levels, jnp.float32))
        return jnp.concatenate([jnp.stack([mean, sd]), quantiles])

    def _score(self, forecast: Words, y: Float[Array, ""]) -> Float[Array, "2"]:
        """[P(Y <= y), log p(y)] of a label in original units."""
        predictive: Predictive = self.forecasts.unpack(forecast)
        return jnp.stack([predictive.cdf(y), predictive.log_prob(y)])

    def _predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        return self._to_units(self._tracker.predict(state, x, key))

    def _to_units(self, forecast: Predictive) -> Predictive:
        return forecast.affine(jnp.float32(self._units.loc), jnp.float32(self._units.scale))


def _crossing(
    f: Callable[[Array], Array], goal: Float[Array, ""], ends: Float[Array, "2"], values: Float[Array, "2"]
) -> Float[Array, ""]:
    """Where a rising function reaches a goal.

    The secant of a bracket is followed, but never closer than a tenth of the bracket to either end: so a
    round leaves a tenth of the bracket where the function is nearly straight, and less than all of it always.

    Args:
        f: the function.
        goal: its value that is looked for.
        ends: the bracket.
        values: about what `f` is there; on the right side of the goal, or they are moved there.
    """

    def guess(ends: Array, values: Array) -> Array:
        share = (goal - values[0]) / jnp.maximum(values[1] - values[0], 1e-6)
        return ends[0] + jnp.clip(share, 0.0, 1.0) * (ends[1] - ends[0])

    def narrow(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        ends, values = bracket
        margin = 0.1 * (ends[1] - ends[0])
        y = jnp.clip(guess(ends, values), ends[0] + margin, ends[1] - margin)
        value = f(y)
        side = jnp.where(value < goal, 0, 1)
        return ends.at[side].set(y), values.at[side].set(value)

    outside = jnp.stack([jnp.minimum(values[0], goal - 1.0), jnp.maximum(values[1], goal + 1.0)])
    return guess(*jax.lax.fori_loop(0, _ROUNDS, narrow, (ends, outside)))
