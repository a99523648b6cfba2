"""`Warped`: a forecast whose probabilities were found to be wrong by a known amount, put right."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.errors import LatentTrackError
from latenttrack.models.predictive import Predictive


class Warped(Predictive):
    """The forecast with distribution function F'(y) = H(F(y)), F that of the mixture it is made from.

    H rises from 0 to 1 and is linear in each of B equal bins, so that the density is p'(y) = h(F(y)) p(y)
    with a step function h. Density, distribution function, quantiles and draws are exact. With
    D = F' - F the moments are, after integration by parts,

        E' = E - int D(u) du,    E'(Y - E)^2 = Var - 2 int (u - E) D(u) du

    where the integrals run over a fixed grid. What H leaves alone (D = 0) is exact; of the correction about
    one part in a hundred is lost, and of the variance's more where much of it lies in the far tails (one part
    in forty at 3.5 degrees of freedom, one in five at 2.5). The split into aleatoric and epistemic variance
    keeps the mixture's ratio.

    All that is inherited unchanged (`interval`, `variance`, `weights`) goes through these.
    """

    knots: Float[Array, " edges"]  # H at 0, 1 / B, ..., 1
    shift: Float[Array, "2"]  # int D du, int (u - E) D du

    @classmethod
    def of(cls, mixture: Predictive, knots: Float[Array, " edges"]) -> "Warped":
        """The mixture, warped by the H that has these knots."""
        return cls(mixture.components, mixture.log_weights, knots, _shift(mixture, knots))

    @property
    def base(self) -> Predictive:
        """The mixture as it was before."""
        return Predictive(self.components, self.log_weights)

    @property
    def heights(self) -> Float[Array, " B"]:
        """The step function h, one value for each bin; their mean is 1."""
        return (self.knots.shape[0] - 1) * jnp.diff(self.knots)

    def warp(self, p: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """H(p), for 0 <= p <= 1."""
        return piecewise(p, self.knots)

    def unwarp(self, q: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """H^-1(q), for 0 < q < 1."""
        B = self.knots.shape[0] - 1
        i = jnp.sum(self.knots[1:-1] <= q[..., None], axis=-1)
        within = (q - self.knots[i]) / (self.knots[i + 1] - self.knots[i])
        info = jnp.finfo(q.dtype)
        return jnp.clip((i.astype(q.dtype) + within) / B, info.tiny, 1.0 - info.epsneg)

    @property
    def mean(self) -> Float[Array, ""]:
        """E' = E - int D."""
        return self.base.mean - self.shift[0]

    @property
    def variance(self) -> Float[Array, ""]:
        """E'(Y - E)^2 - (E' - E)^2."""
        return self.base.variance - 2.0 * self.shift[1] - self.shift[0] ** 2

    @property
    def aleatoric(self) -> Float[Array, ""]:
        """The share of noise is that of the mixture."""
        return self.variance * (self.base.aleatoric / self.base.variance)

    @property
    def epistemic(self) -> Float[Array, ""]:
        """The share of ignorance is that of the mixture."""
        return self.variance * (self.base.epistemic / self.base.variance)

    def log_prob(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """log h(F(y)) + log p(y)."""
        heights = self.heights
        return jnp.log(heights[find_bin(self.base.cdf(y), heights.shape[0])]) + self.base.log_prob(y)

    def cdf(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """H(F(y))."""
        return self.warp(self.base.cdf(y))

    def quantile(self, q: Float[Array, ""]) -> Float[Array, ""]:
        """The mixture's quantile at H^-1(q)."""
        return self.base.quantile(self.unwarp(q))

    def quantiles(self, levels: Float[Array, " Q"]) -> Float[Array, " Q"]:
        """The mixture's at H^-1(q), with its accuracy."""
        return self.base.quantiles(self.unwarp(levels))

    def sample(self, key: PRNGKeyArray) -> Float[Array, ""]:
        """The quantile of a uniform draw."""
        dtype = self.log_weights.dtype
        return self.quantile(jax.random.uniform(key, (), dtype, minval=jnp.finfo(dtype).tiny))

    def affine(self, loc: Float[Array, ""], scale: Float[Array, ""]) -> "Warped":
        """The same warp of the moved mixture."""
        shift = self.shift * jnp.stack([scale, scale**2])
        return Warped(self.components.affine(loc, scale), self.log_weights, self.knots, shift)


def _shift(mixture: Predictive, knots: Float[Array, " edges"]) -> Float[Array, "2"]:
    """Int D du and int (u - E) D du over the ladder; D is 0 at both its ends."""
    ladder = mixture.ladder()
    D = ladder.step * lift(ladder.F, ladder.S, knots)[2]
    return jnp.stack([jnp.ones_like(D), ladder.away]) @ D


def lift(
    F: Float[Array, " n"], S: Float[Array, " n"], knots: Float[Array, " edges"]
) -> tuple[Float[Array, " n"], Float[Array, " n"], Float[Array, " n"]]:
    """H(F), 1 - H(1 - S) and D = H(F) - F, each from the smaller of F and S = 1 - F.

    In the tails, which the moments weigh by their distance, the rounding of the larger one would be all.
    """
    up, down = piecewise(F, knots), piecewise(S, 1.0 - knots[::-1])
    return up, down, jnp.where(F < 0.5, up - F, S - down)


def piecewise(p: Float[Array, "*shape"], knots: Float[Array, " edges"]) -> Float[Array, "*shape"]:
    """The function on [0, 1] that is linear between equally spaced knots."""
    B = knots.shape[0] - 1
    i = find_bin(p, B)
    return knots[i] + (B * p - i.astype(p.dtype)) * (knots[i + 1] - knots[i])


def require_mixture(forecast: Predictive) -> Predictive:
    """The forecast itself, if it is a plain mixture: others cannot be mixed or warped."""
    if type(forecast) is not Predictive:
        raise LatentTrackError(
            "a recalibrated or transformed tracker cannot be wrapped again: recalibrate and transform last"
        )
    return forecast


def find_bin(p: Float[Array, "*shape"], count: int) -> Array:
    """Which of `count` equal bins of [0, 1] a probability falls into."""
    return jnp.clip((count * p).astype(int), 0, count - 1)
