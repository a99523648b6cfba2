"""The compiled functions of S sampled paths: a step of each, a draw from each, and the mixture of all."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float, Float32

from latenttrack.filtering.program import Program, Track
from latenttrack.models.predictive import Predictive

Tracks = Float32[Array, "S n"]
_RAREST = 1e-6  # probability: beyond, single precision knows little of a distribution function
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

    def draw(self, tracks: Tracks, scores: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
        """The label with the given normal score under the forecast of each track, in original units."""
        loc, scale = self._units
        return loc + scale * np.asarray(self._draw(tracks, jnp.asarray(scores, jnp.float32)), np.float64)

    def mix(self, tracks: Tracks, means: Float[np.ndarray, " S"], sd: float) -> Float[np.ndarray, " report"]:
        """[mean, sd, quantiles...] of what the paths expect, equally mixed, in original units.

        Averaging the paths' distributions, and not what was drawn from them, leaves out the noise of the last
        draw (Rao and Blackwell).

        Args:
            tracks: one for each path.
            means: m_i; the score of path i's label is N(m_i, sd^2), see filtering/overlap.py.
            sd: 1 and means of 0 if errors do not overlap.
        """
        loc, scale = self._units
        expected = jnp.asarray(means, jnp.float32), jnp.float32(sd)
        found = scale * np.asarray(self._mix(tracks, *expected), np.float64)
        found[0] += loc
        found[2:] += loc
        return found

    def _one_step(self, track: Track, inputs: Float[Array, " inputs"]) -> Track:
        forecast, state = self._run(track, inputs)
        return self._pack(state, jnp.zeros(4 + len(self.levels)), forecast)

    def _one_draw(self, track: Track, score: Float[Array, ""]) -> Float[Array, ""]:
        return self._forecast(track).quantiles(_inside(ndtr(score))[None])[0]

    def _mixture(
        self, tracks: Tracks, means: Float[Array, " S"], width: Float[Array, ""]
    ) -> Float[Array, " report"]:
        """[mean, sd, quantiles...] of standardised labels.

        If path i says F_i and expects a score of N(m_i, s^2), its label lies below y with probability

            C_i(y) = Phi((Phi^-1(F_i(y)) - m_i) / s)

        The q-quantile of their mean lies within Cantelli's bounds,

            mean - sd sqrt((1 - q) / q)  and  mean + sd sqrt(q / (1 - q)),

        and is looked for in a bracket twice as wide, as variances are not all exact, and on the scale of
        normal scores, where the distribution function is nearly a straight line.
        """
        parts: Predictive = jax.vmap(self._forecast)(tracks)

        def score(y: Array) -> Array:
            F = jax.vmap(lambda part: part.cdf(y))(parts)
            C = ndtr((ndtri(_inside(F)) - means) / width)
            # No path draws a label beyond its rarest ones.
            C = jnp.where(F <= _RAREST, 0.0, jnp.where(F >= 1.0 - _RAREST, 1.0, C))
            return ndtri(_inside(jnp.mean(C)))

        mean, sd = _moments(parts, means, width)

        def quantile(q: Array) -> Array:
            odds, goal = jnp.sqrt(q / (1.0 - q)), ndtri(q)
            ends = jnp.stack([mean - 2.0 * sd / odds, mean + 2.0 * sd * odds])
            return _crossing(score, goal, ends, (ends - mean) / sd)

        quantiles = jax.vmap(quantile)(jnp.asarray(self.levels, jnp.float32))
        return jnp.concatenate([jnp.stack([mean, sd]), quantiles])


def _moments(
    parts: Predictive, means: Float[Array, " S"], width: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Mean and standard deviation of the equal mixture of S forecasts, given what is expected of the scores.

    The label of path i is F_i^-1(Phi(m_i + s Z)), Z ~ N(0, 1), and its moments are sums over Z at equal
    distances, which for smooth functions is as good as any rule. Where nothing is expected (m = 0, s = 1)
    they are those of the forecasts themselves.
    """
    z, weight = _normal_nodes()
    levels = _inside(ndtr(means[:, None] + width * z))
    y = jax.vmap(lambda part, q: part.quantiles(q))(parts, levels)
    nothing = (width == 1.0) & jnp.all(means == 0.0)
    own = jax.vmap(lambda part: jnp.stack([part.mean, part.variance]))(parts)
    centre = jnp.where(nothing, own[:, 0], y @ weight)
    noise = jnp.where(nothing, own[:, 1], (y - centre[:, None]) ** 2 @ weight)
    mean = jnp.mean(centre)
    return mean, jnp.sqrt(jnp.mean(noise) + jnp.mean((centre - mean) ** 2))


def _normal_nodes() -> tuple[Float[np.ndarray, " J"], Float[np.ndarray, " J"]]:
    """Places and weights of sums over a standard normal."""
    z = np.arange(-12, 13) * 0.4
    weight = np.exp(-0.5 * z**2)
    return z.astype(np.float32), (weight / weight.sum()).astype(np.float32)


def _inside(p: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return jnp.clip(p, _RAREST, 1.0 - _RAREST)


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
