"""Emission distributions: a batch of K scalar distributions, one for each latent draw.

A `Predictive` mixes them. Every array here has shape [K] (K = 1 is a single distribution); `y` is a scalar.
"""

import abc
import dataclasses
import itertools
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, Float, PRNGKeyArray

LOG_2PI = 1.8378770664093453
SQRT_2_OVER_PI = 0.7978845608028654


class AbstractComponents(eqx.Module):
    """K location-scale distributions over a real label."""

    loc: eqx.AbstractVar[Float[Array, " K"]]
    scale: eqx.AbstractVar[Float[Array, " K"]]

    @abc.abstractmethod
    def mean(self) -> Float[Array, " K"]:
        """The K means; where several make up the emission of one draw, the mean of that, for each."""

    @abc.abstractmethod
    def variance(self) -> Float[Array, " K"]:
        """The K variances; likewise."""

    def by_draw(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """Numbers that belong to the K distributions, averaged over those of one draw."""
        return values

    @abc.abstractmethod
    def log_height(self) -> Float[Array, " K"]:
        """log p_k(loc_k), the highest density."""

    @abc.abstractmethod
    def log_shape(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """log p_k(y) - log p_k(loc_k)."""

    def shape(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """p_k(y) / p_k(loc_k). Of many y, only this is to be computed for each."""
        return jnp.exp(self.log_shape(y))

    def log_prob(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """log p_k(y)."""
        return self.log_height() + self.log_shape(y)

    @abc.abstractmethod
    def cdf(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """P_k(Y <= y)."""

    @abc.abstractmethod
    def mean_distance(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """E_k |Y - y|: the first half of the CRPS."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Float[Array, " K"]:
        """One draw from each of the K distributions."""

    @abc.abstractmethod
    def affine(self, loc: Float[Array, ""], scale: Float[Array, ""]) -> "AbstractComponents":
        """The distributions of `loc + scale * Y`, exactly (scale > 0)."""

    def split(self, weights: Float[Array, " K"]) -> "list[tuple[AbstractComponents, Float[Array, ' k']]]":
        """The distributions kind by kind, and their weights: sums over them need no list of all."""
        return [(self, weights)]


class Gaussian(AbstractComponents):
    """N(loc_k, scale_k^2)."""

    loc: Float[Array, " K"]
    scale: Float[Array, " K"]

    def mean(self) -> Float[Array, " K"]:
        """The locations."""
        return self.loc

    def variance(self) -> Float[Array, " K"]:
        """scale^2."""
        return self.scale**2

    def log_height(self) -> Float[Array, " K"]:
        """-log scale - log(2 pi) / 2."""
        return -jnp.log(self.scale) - 0.5 * LOG_2PI

    def log_shape(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """-u^2 / 2, with u = (y - loc) / scale."""
        return -0.5 * ((y - self.loc) / self.scale) ** 2

    def cdf(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """Phi(u)."""
        return ndtr((y - self.loc) / self.scale)

    def mean_distance(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """E|Y - y| = d (2 Phi(d / scale) - 1) + 2 scale phi(d / scale), with d = y - loc."""
        return gaussian_mean_distance(y - self.loc, self.scale)

    def sample(self, key: PRNGKeyArray) -> Float[Array, " K"]:
        """Loc + scale * N(0, 1)."""
        return self.loc + self.scale * jax.random.normal(key, self.loc.shape, self.loc.dtype)

    def affine(self, loc: Float[Array, ""], scale: Float[Array, ""]) -> "Gaussian":
        """N(loc + scale * loc_k, (scale * scale_k)^2)."""
        return Gaussian(loc + scale * self.loc, scale * self.scale)


class StudentT(AbstractComponents):
    """Student's t with location, scale and df > 2 degrees of freedom (so that the variance exists)."""

    loc: Float[Array, " K"]
    scale: Float[Array, " K"]
    df: Float[Array, " K"]

    def mean(self) -> Float[Array, " K"]:
        """The locations (df > 1)."""
        return self.loc

    def variance(self) -> Float[Array, " K"]:
        """scale^2 df / (df - 2)."""
        return self.scale**2 * self.df / (self.df - 2.0)

    def log_height(self) -> Float[Array, " K"]:
        """log Gamma((df + 1) / 2) - log Gamma(df / 2) - log(pi df) / 2 - log scale."""
        return _log_height(self.df) - jnp.log(self.scale)

    def log_shape(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """-(df + 1) / 2 log(1 + u^2 / df), with u = (y - loc) / scale."""
        return -0.5 * (self.df + 1.0) * jnp.log1p(((y - self.loc) / self.scale) ** 2 / self.df)

    def shape(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """(1 + u^2 / df)^(-(df + 1) / 2), of which rounding costs up to 3e-7 (df + 1)."""
        # Not by way of `log_shape`: one division for all y, and a logarithm that takes half as long.
        narrow = 1.0 / (self.scale**2 * self.df)
        return jnp.exp(-0.5 * (self.df + 1.0) * jnp.log(1.0 + narrow * (y - self.loc) ** 2))

    def cdf(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """See `student_t_cdf`."""
        return student_t_cdf((y - self.loc) / self.scale, self.df)

    def mean_distance(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """E|Y - y| = scale (u (2 F(u) - 1) + 2 f(u) (df + u^2) / (df - 1))."""
        u = (y - self.loc) / self.scale
        density = jnp.exp(self.log_prob(y)) * self.scale
        return self.scale * (
            u * (2.0 * self.cdf(y) - 1.0) + 2.0 * density * (self.df + u**2) / (self.df - 1.0)
        )

    def sample(self, key: PRNGKeyArray) -> Float[Array, " K"]:
        """Loc + scale * t(df)."""
        return self.loc + self.scale * jax.random.t(key, self.df, self.loc.shape, self.loc.dtype)

    def affine(self, loc: Float[Array, ""], scale: Float[Array, ""]) -> "StudentT":
        """The same df, location and scale moved."""
        return dataclasses.replace(self, loc=loc + scale * self.loc, scale=scale * self.scale)


class StudentTPair(StudentT):
    """Emissions that are two Student-t of equal weight: K = 2 `draws`, the first of each, then the second.

    How far the two lie apart is noise and not ignorance, so that `mean` and `variance` are those of the
    emission that a distribution is half of. Several such lists may follow one another.
    """

    draws: int = eqx.field(static=True)

    def mean(self) -> Float[Array, " K"]:
        """The mean of both locations."""
        return self.by_draw(self.loc)

    def variance(self) -> Float[Array, " K"]:
        """The mean of both variances, and the squared distance of the locations from their mean."""
        return self.by_draw(super().variance() + (self.loc - self.mean()) ** 2)

    def by_draw(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """The mean over both, for both."""
        pairs = values.reshape(-1, 2, self.draws)
        return jnp.broadcast_to(jnp.mean(pairs, axis=1, keepdims=True), pairs.shape).reshape(values.shape)


class Joined(AbstractComponents):
    """Distributions of several kinds in one list: the first part's, then the second's, and so on."""

    parts: tuple[AbstractComponents, ...]

    def __init__(self, parts: tuple[AbstractComponents, ...]):
        self.parts = parts

    # What is a field of every other kind is computed here, of which mypy disapproves.
    @property  # type: ignore[misc]
    def loc(self) -> Float[Array, " K"]:  # type: ignore[override]
        """The parts' locations."""
        return jnp.concatenate([part.loc for part in self.parts])

    @property  # type: ignore[misc]
    def scale(self) -> Float[Array, " K"]:  # type: ignore[override]
        """The parts' scales."""
        return jnp.concatenate([part.scale for part in self.parts])

    def mean(self) -> Float[Array, " K"]:
        """The parts' means."""
        return jnp.concatenate([part.mean() for part in self.parts])

    def variance(self) -> Float[Array, " K"]:
        """The parts' variances."""
        return jnp.concatenate([part.variance() for part in self.parts])

    def by_draw(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """Part by part."""
        return jnp.concatenate([part.by_draw(own) for part, own in self.split(values)])

    def log_height(self) -> Float[Array, " K"]:
        """The parts' highest log densities."""
        return jnp.concatenate([part.log_height() for part in self.parts])

    def log_shape(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """The parts' log densities below that."""
        return jnp.concatenate([part.log_shape(y) for part in self.parts])

    def cdf(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """The parts' distribution functions."""
        return jnp.concatenate([part.cdf(y) for part in self.parts])

    def mean_distance(self, y: Float[Array, ""]) -> Float[Array, " K"]:
        """The parts' E|Y - y|."""
        return jnp.concatenate([part.mean_distance(y) for part in self.parts])

    def sample(self, key: PRNGKeyArray) -> Float[Array, " K"]:
        """One draw from each distribution of each part."""
        keys = jax.random.split(key, len(self.parts))
        return jnp.concatenate([part.sample(k) for part, k in zip(self.parts, keys, strict=True)])

    def affine(self, loc: Float[Array, ""], scale: Float[Array, ""]) -> "Joined":
        """Every part moved and scaled."""
        return Joined(tuple(part.affine(loc, scale) for part in self.parts))

    def split(self, weights: Float[Array, " K"]) -> "list[tuple[AbstractComponents, Float[Array, ' k']]]":
        """Each part with its weights."""
        ends = itertools.accumulate(part.loc.shape[0] for part in self.parts)
        return [
            (part, weights[end - part.loc.shape[0] : end]) for part, end in zip(self.parts, ends, strict=True)
        ]


def join(parts: Sequence[AbstractComponents]) -> AbstractComponents:
    """The distributions of all parts in one list, in order; neighbours of one kind become one part."""
    kinds = [list(group) for _, group in itertools.groupby(parts, type)]
    merged = [jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *group) for group in kinds]
    return merged[0] if len(merged) == 1 else Joined(tuple(merged))


def gaussian_mean_distance(d: Float[Array, "..."], scale: Float[Array, "..."]) -> Float[Array, "..."]:
    """E|N(0, scale^2) + d|, elementwise."""
    u = d / scale
    return d * (2.0 * ndtr(u) - 1.0) + scale * SQRT_2_OVER_PI * jnp.exp(-0.5 * u**2)


def student_t_cdf(u: Float[Array, "*shape"], df: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """P(T <= u) for Student's t with df >= 2, elementwise, to about 1e-7; no integral, no iteration.

    Integration by parts gives the cdf from the one with two more degrees of freedom, at the same angle
    u / sqrt(df), and from the density f:

        F_n(u) = F_(n+2)(u sqrt((n+2) / n)) - u f_n(u) / n

    Done twice, n >= 6 is left, for which Hill's expansion (1970, algorithm 395) says to 4e-8 which normal
    deviate z has the same probability. Less accurate below 2.
    """
    u = jnp.clip(u, -1e15, 1e15)  # nothing is left beyond, and squares stay finite
    square = u**2 / df
    log_rise = jnp.log1p(square)
    density = jnp.exp(_log_height(df)) * jnp.exp(-0.5 * (df + 1.0) * log_rise)
    twice = 1.0 + (df + 1.0) / ((df + 2.0) * (1.0 + square))

    a = df + 3.5  # that is n + 4 - 1/2
    b = 48.0 * a**2
    # Around 0, where the root of a square has no slope, z is u times a number that has one.
    small = square < 1e-12
    gain = jnp.sqrt(a / df * jnp.where(small, 1.0, log_rise / jnp.where(small, 1.0, square)))
    w = a * log_rise
    second = (((4.0 * w + 33.0) * w + 240.0) * w + 855.0) / (10.0 * b * (b + 0.8 * w**2 + 100.0))
    z = u * gain * (1.0 + (w + 3.0) / b - second)
    return jnp.clip(0.5 + 0.5 * jax.lax.erf(math.sqrt(0.5) * z) - u * density / df * twice, 0.0, 1.0)


def _log_height(df: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Log of the density of Student's t at 0."""
    return _log_gamma_step(0.5 * df) - 0.5 * jnp.log(jnp.pi * df)


def _log_gamma_step(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log Gamma(a + 1/2) - log Gamma(a) for a >= 1, to 2e-8.

    Gamma(a + 1) = a Gamma(a) leads from a to a + 4, where three terms of the asymptotic series do; far
    cheaper than two logarithms of Gamma, whose difference would lose digits too.
    """
    ratio = (a / (a + 0.5)) * ((a + 1.0) / (a + 1.5)) * ((a + 2.0) / (a + 2.5)) * ((a + 3.0) / (a + 3.5))
    r = 1.0 / (a + 4.0)
    return jnp.log(ratio) - 0.5 * jnp.log(r) - r * (1.0 / 8.0 - r**2 * (1.0 / 192.0 - r**2 / 640.0))
