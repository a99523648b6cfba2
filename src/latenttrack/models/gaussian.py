"""Diagonal Gaussians over the latent z: sampling and KL, and the linear heads that give their parameters."""

from typing import cast

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

# exp() of anything outside is a latent that no longer carries information, or explodes.
LOG_SD_RANGE = (-7.0, 4.0)


class DiagonalGaussian(eqx.Module):
    """N(mean, diag exp(log_sd)^2); the last axis is the latent's."""

    mean: Float[Array, "*batch dz"]
    log_sd: Float[Array, "*batch dz"]

    def at(self, eps: Float[Array, "*batch dz"]) -> Float[Array, "*batch dz"]:
        """The reparameterised draw mean + sd * eps, eps ~ N(0, I)."""
        return self.mean + jnp.exp(self.log_sd) * eps


def kl_divergence(q: DiagonalGaussian, p: DiagonalGaussian) -> Float[Array, "*batch"]:
    """KL(q || p) = sum_i log(s_p / s_q) + (s_q^2 + (m_q - m_p)^2) / (2 s_p^2) - 1/2."""
    ratio = jnp.exp(2.0 * (q.log_sd - p.log_sd))
    shift = ((q.mean - p.mean) * jnp.exp(-p.log_sd)) ** 2
    return jnp.sum(p.log_sd - q.log_sd + 0.5 * (ratio + shift - 1.0), axis=-1)


class GaussianLayer(eqx.Module):
    """A linear layer whose outputs are the mean and log-sd of a latent Gaussian."""

    linear: eqx.nn.Linear

    def __init__(self, in_size: int, latent_size: int, *, log_sd: float = 0.0, key: PRNGKeyArray):
        linear = eqx.nn.Linear(in_size, 2 * latent_size, key=key)
        bias = jnp.concatenate([jnp.zeros(latent_size), jnp.full(latent_size, log_sd)])
        self.linear = eqx.tree_at(lambda layer: layer.bias, linear, bias)

    def __call__(self, features: Float[Array, " in_size"]) -> DiagonalGaussian:
        """Features -> N(mean, diag sd^2) over z."""
        return _gaussian(self.linear(features))

    def shared(self, h: Float[Array, " H"], own: Float[Array, "K rest"]) -> DiagonalGaussian:
        """Features [h, own_k] for K rows: h, which they share, meets its part of the weights once."""
        weight, bias, size = self.linear.weight, cast(Array, self.linear.bias), h.shape[0]
        return _gaussian(own @ weight[:, size:].T + (weight[:, :size] @ h + bias))


def _gaussian(raw: Float[Array, "*batch two_dz"]) -> DiagonalGaussian:
    mean, log_sd = jnp.split(raw, 2, axis=-1)
    return DiagonalGaussian(mean, jnp.clip(log_sd, *LOG_SD_RANGE))
