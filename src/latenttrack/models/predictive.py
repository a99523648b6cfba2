"""`Predictive`: the forecast, an exact finite mixture, with its uncertainty split in two."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from latenttrack.models.components import AbstractComponents
from latenttrack.models.ladder import Ladder, lay_ladder, start_quantiles
from latenttrack.models.levels import bracket_levels, find_levels

_MOST_ROUNDS = 256  # ends the two loops below should a NaN ever enter them; they need far fewer


class Predictive(eqx.Module):
    """The mixture sum_k w_k p_k(y) of K emission distributions.

    For equal weights (what `equal` builds) and Gaussian components this is the paper's forecast: mean = mean
    of the means, aleatoric = mean of the variances, epistemic = variance of the means, total = their sum.
    """

    components: AbstractComponents
    log_weights: Float[Array, " K"]

    @classmethod
    def equal(cls, components: AbstractComponents) -> "Predictive":
        """The equal-weight mixture of the K components."""
        K = components.loc.shape[0]
        return cls(components, jnp.full_like(components.loc, -jnp.log(K)))

    @property
    def weights(self) -> Float[Array, " K"]:
        """The mixture weights; they sum to one."""
        return jnp.exp(self.log_weights)

    @property
    def mean(self) -> Float[Array, ""]:
        """E[y]."""
        return self._averages[0]

    @property
    def aleatoric(self) -> Float[Array, ""]:
        """Noise: the mean of the variances of the draws' emissions."""
        return self._averages[1]

    @property
    def epistemic(self) -> Float[Array, ""]:
        """Ignorance: the variance of the draws' means."""
        return jnp.sum(self.weights * (self.components.mean() - self.mean) ** 2)

    @property
    def variance(self) -> Float[Array, ""]:
        """Var[y] = aleatoric + epistemic (law of total variance)."""
        return self.aleatoric + self.epistemic

    def log_prob(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """log sum_k w_k p_k(y), stable in the far tails."""
        return logsumexp(self.log_weights + self.components.log_prob(y))

    def cdf(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """P(Y <= y); at the observed label this is the PIT."""
        return jnp.sum(self.weights * self.components.cdf(y))

    def quantile(self, q: Float[Array, ""]) -> Float[Array, ""]:
        """The y with cdf(y) = q, for 0 < q < 1.

        A bracket around all components is widened until it holds the quantile; then Newton's method runs
        inside it, and bisection takes over whenever a Newton step would leave the bracket or does not shrink
        fast enough. So plateaus between well-separated components, and scales far smaller than their
        distance, do it no harm.
        """
        lo, hi, _ = jax.lax.while_loop(
            lambda s: (s[2] < _MOST_ROUNDS) & ~((self.cdf(s[0]) < q) & (self.cdf(s[1]) >= q)),
            lambda s: (*self._widen(q, s[0], s[1]), s[2] + 1),
            (*self._bracket(), 0),
        )
        first = _Search(lo, hi, lo + 0.5 * (hi - lo), hi - lo, hi - lo, jnp.zeros((), int))
        return jax.lax.while_loop(lambda s: self._unsettled(s), lambda s: self._narrow(q, s), first).y

    def quantiles(self, levels: Float[Array, " Q"]) -> Float[Array, " Q"]:
        """The quantiles of several levels at once, far sooner than one by one with `quantile`.

        Each is at most 2e-4 of the smallest component's scale from the exact one, besides rounding: of the
        distribution function (about 2e-7, so 2e-7 / p(y) in y), and of y itself. The search starts from the
        mixture's ladder of densities, and measures the exact distribution function wherever it goes: a ladder
        that misses narrow components costs rounds, not digits. See `find_levels`.
        """
        mean, sd = self.mean, jnp.sqrt(self.variance)
        start = start_quantiles(self.ladder(), levels)
        scale = jnp.min(jnp.stack([jnp.min(part.scale) for part, _ in self._parts]))
        return find_levels(
            lambda y: (self.cdfs(y), self.densities(y)),
            levels,
            start,
            bracket_levels(levels, mean, sd),
            scale,
        )

    def interval(self, level: float) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The central interval that holds `level` of the probability."""
        tail = jnp.asarray(0.5 * (1.0 - level), self.log_weights.dtype)
        lower, upper = jax.vmap(self.quantile)(jnp.stack([tail, 1.0 - tail]))
        return lower, upper

    def sample(self, key: PRNGKeyArray) -> Float[Array, ""]:
        """One draw of y."""
        which, within = jax.random.split(key)
        return self.components.sample(within)[jax.random.categorical(which, self.log_weights)]

    def affine(self, loc: Float[Array, ""], scale: Float[Array, ""]) -> "Predictive":
        """The forecast of `loc + scale * y`: from standardised to original units, exactly."""
        return Predictive(self.components.affine(loc, scale), self.log_weights)

    def densities(self, y: Float[Array, " N"]) -> Float[Array, " N"]:
        """sum_k w_k p_k(y) at N points; 0 in the far tails, where `log_prob` still knows its logarithm."""
        total = jnp.zeros_like(y)
        for part, weights in self._parts:
            # A product with the weights, over the first axis: compiled code for sums of rows is slower.
            total += (weights * jnp.exp(part.log_height())) @ jax.vmap(part.shape, out_axes=1)(y)
        return total

    def cdfs(self, y: Float[Array, " N"]) -> Float[Array, " N"]:
        """P(Y <= y) at N points."""
        total = jnp.zeros_like(y)
        for part, weights in self._parts:
            total += weights @ jax.vmap(part.cdf, out_axes=1)(y)
        return total

    def ladder(self) -> Ladder:
        """The density around the mean, and a rough distribution function."""
        return lay_ladder(self.densities, self.mean, jnp.sqrt(self.variance))

    @property
    def _averages(self) -> Float[Array, "2"]:
        """Of the components' means and variances: one product, which is fewer operations than two sums."""
        return jnp.stack([self.components.mean(), self.components.variance()]) @ self.weights

    @property
    def _parts(self) -> list[tuple[AbstractComponents, Float[Array, " k"]]]:
        return self.components.split(self.weights)

    def _bracket(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        loc, scale = self.components.loc, self.components.scale
        return jnp.min(loc - scale), jnp.max(loc + scale)

    def _widen(
        self, q: Float[Array, ""], lo: Float[Array, ""], hi: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        width = hi - lo
        return (
            jnp.where(self.cdf(lo) >= q, lo - width, lo),
            jnp.where(self.cdf(hi) < q, hi + width, hi),
        )

    def _unsettled(self, s: "_Search") -> Bool[Array, ""]:
        tolerance = jnp.finfo(s.y.dtype).eps * jnp.abs(s.y) + 1e-6 * jnp.min(self.components.scale)
        return (s.rounds < _MOST_ROUNDS) & (jnp.abs(s.step) > tolerance)

    def _narrow(self, q: Float[Array, ""], s: "_Search") -> "_Search":
        miss = self.cdf(s.y) - q
        lo, hi = jnp.where(miss < 0, s.y, s.lo), jnp.where(miss < 0, s.hi, s.y)
        newton = -miss / jnp.exp(self.log_prob(s.y))  # infinite on a plateau: refused below
        good = (s.y + newton > lo) & (s.y + newton < hi) & (jnp.abs(newton) < 0.5 * jnp.abs(s.before))
        y = jnp.where(good, s.y + newton, lo + 0.5 * (hi - lo))
        return _Search(lo, hi, y, y - s.y, s.step, s.rounds + 1)


class _Search(NamedTuple):
    """A root search: bracket, newest point, the last two steps, rounds so far."""

    lo: Float[Array, ""]
    hi: Float[Array, ""]
    y: Float[Array, ""]
    step: Float[Array, ""]
    before: Float[Array, ""]
    rounds: Int[Array, ""]
