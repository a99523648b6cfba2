"""The compiled functions of S sampled paths: a step of each, a draw from each, and the mixture of all."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, Float32, PRNGKeyArray

from latenttrack.filtering.program import Program, Track
from latenttrack.models.predictive import Predictive

Tracks = Float32[Array, "S n"]
_ROUNDS = 9  # of the search for a quantile: each leaves about a tenth of the bracket


def fan_of(program: Program) -> "Fan":
    """The functions that belong to a model's program: made once, and kept with it."""
    if not isinstance(program.fan, Fan):
        program.fan = Fan(program)
    return program.fan


class Fan:
    """A model's paths, compiled when first used, which most streams never do."""

    def __init__(self, program: Program):
        self._run, self._forecast, self._pack = program.run, program.forecast_of, program.pack
        self._units, self.levels = program.units, program.levels
        self._roll = jax.jit(jax.vmap(self._one_step))
        self._draw = jax.jit(jax.vmap(self._one_draw))
        self._mix = jax.jit(self._mixture)

    def roll(self, tracks: Tracks, inputs: Float32[np.ndarray, "S inputs"]) -> Tracks:
        """The tracks after a step of each path, without a report, which nobody reads."""
        return self._roll(tracks, inputs)

    def draw(self, tracks: Tracks, keys: Array) -> Float[np.ndarray, " S"]:
        """One label from the forecast of each track, in original units."""
        loc, scale = self._units
        return loc + scale * np.asarray(self._draw(tracks, keys), np.float64)

    def mix(self, tracks: Tracks) -> Float[np.ndarray, " report"]:
        """[mean, sd, quantiles...] of the equal mixture of the tracks' forecasts, in original units.

        Averaging the paths' distributions, and not what was drawn from them, leaves out the noise of the last
        draw (Rao and Blackwell).
        """
        loc, scale = self._units
        found = scale * np.asarray(self._mix(tracks), np.float64)
        found[0] += loc
        found[2:] += loc
        return found

    def _one_step(self, track: Track, inputs: Float[Array, " inputs"]) -> Track:
        forecast, state = self._run(track, inputs)
        return self._pack(state, jnp.zeros(4 + len(self.levels)), forecast)

    def _one_draw(self, track: Track, key: PRNGKeyArray) -> Float[Array, ""]:
        return self._forecast(track).sample(key)

    def _mixture(self, tracks: Tracks) -> Float[Array, " report"]:
        """[mean, sd, quantiles...] of standardised labels.

        The q-quantile lies within Cantelli's bounds,

            mean - sd sqrt((1 - q) / q)  and  mean + sd sqrt(q / (1 - q)),

        and is looked for in a bracket twice as wide, as variances are not all exact, and on the scale of
        normal scores, where F is nearly a straight line.
        """
        parts: Predictive = jax.vmap(self._forecast)(tracks)
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
