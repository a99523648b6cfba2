"""`Predictive`: the forecast, an exact finite mixture, with its uncertainty split in two."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from latenttrack.models.components import AbstractComponents

_MOST_ROUNDS = 256  # ends the two loops below should a NaN ever enter them; they need far fewer


class Predictive(eqx.Module):
    """The mixture sum_k w_k p_k(y) of K emission distributions.

    For equal weights (what `equal` builds) and Gaussian components this is the paper's forecast: mean = mean of
    the means, aleatoric = mean of the variances, epistemic = variance of the means, total = their sum.
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
        return jnp.sum(self.weights * self.components.mean())

    @property
    def aleatoric(self) -> Float[Array, ""]:
        """Noise: the mean of the component variances."""
        return jnp.sum(self.weights * self.components.variance())

    @property
    def epistemic(self) -> Float[Array, ""]:
        """Ignorance: the variance of the component means."""
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
        """The smallest y with cdf(y) >= q, for 0 < q < 1, to the last bit of the number format.

        A bracket around all components is widened until it holds the quantile, then halved until its ends are
        neighbours: plain bisection needs no smoothness, so plateaus between well-separated components and
        scales thousands of times smaller than their distance do it no harm.
        """
        lo, hi, _ = jax.lax.while_loop(
            lambda b: (b[2] < _MOST_ROUNDS) & ~self._holds(q, b[0], b[1]),
            lambda b: (*self._widen(q, b[0], b[1]), b[2] + 1),
            (*self._bracket(), 0),
        )
        lo, hi, _ = jax.lax.while_loop(
            lambda b: (b[2] < _MOST_ROUNDS) & (b[0] < _midpoint(b[0], b[1])) & (_midpoint(b[0], b[1]) < b[1]),
            lambda b: (*self._halve(q, b[0], b[1]), b[2] + 1),
            (lo, hi, 0),
        )
        return hi

    def interval(self, level: float) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The central interval that holds `level` of the probability."""
        tail = jnp.asarray(0.5 * (1.0 - level), self.log_weights.dtype)
        return self.quantile(tail), self.quantile(1.0 - tail)

    def sample(self, key: PRNGKeyArray) -> Float[Array, ""]:
        """One draw of y."""
        which, within = jax.random.split(key)
        return self.components.sample(within)[jax.random.categorical(which, self.log_weights)]

    def affine(self, loc: Float[Array, ""], scale: Float[Array, ""]) -> "Predictive":
        """The forecast of `loc + scale * y`: from standardised to original units, exactly."""
        return Predictive(self.components.affine(loc, scale), self.log_weights)

    def _bracket(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        loc, scale = self.components.loc, self.components.scale
        return jnp.min(loc - scale), jnp.max(loc + scale)

    def _holds(self, q: Float[Array, ""], lo: Float[Array, ""], hi: Float[Array, ""]) -> Bool[Array, ""]:
        return (self.cdf(lo) < q) & (self.cdf(hi) >= q)

    def _widen(
        self, q: Float[Array, ""], lo: Float[Array, ""], hi: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        width = hi - lo
        return (
            jnp.where(self.cdf(lo) >= q, lo - width, lo),
            jnp.where(self.cdf(hi) < q, hi + width, hi),
        )

    def _halve(
        self, q: Float[Array, ""], lo: Float[Array, ""], hi: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        mid = _midpoint(lo, hi)
        above = self.cdf(mid) >= q
        return jnp.where(above, lo, mid), jnp.where(above, mid, hi)


def _midpoint(lo: Float[Array, ""], hi: Float[Array, ""]) -> Float[Array, ""]:
    return lo + 0.5 * (hi - lo)
