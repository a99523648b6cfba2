"""Variational recurrent network: the latent is part of the recurrence.

    p(z_t | h_{t-1});   q(z_t | h_{t-1}, x_t, y_t)
    h_t = GRU(h_{t-1}, [phi_x(x_t), phi_z(z_t)]);   y_t ~ dec([h_t, z_t, x_t])

To predict, z is drawn from the prior and h_t follows from it; once y_t is known z is drawn again, from the
posterior, to advance h. That draw is made from a counter in the state: the belief after a restart is the same
to the bit.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from latenttrack.models.base import AbstractTracker, State, Terms, Window, keep_if
from latenttrack.models.components import AbstractComponents
from latenttrack.models.draws import AbstractDraws
from latenttrack.models.gaussian import DiagonalGaussian, GaussianLayer, kl_divergence
from latenttrack.models.heads import AbstractHead
from latenttrack.models.predictive import Predictive
from latenttrack.models.summarisers import AbstractSummariser


class VRNNState(NamedTuple):
    """The recurrent state and the number of labels seen, which seeds the next posterior draw."""

    summary: State
    seen: Int[Array, ""]


class VRNN(AbstractTracker):
    """Latent inside the recurrence: h depends on every past z."""

    phi_x: eqx.nn.Linear
    phi_z: eqx.nn.Linear
    summariser: AbstractSummariser
    prior_features: eqx.nn.MLP
    prior: GaussianLayer
    posterior_features: eqx.nn.MLP
    posterior: GaussianLayer
    decoder: eqx.nn.MLP
    head: AbstractHead
    draws: AbstractDraws
    train_draws: AbstractDraws

    def init(self) -> VRNNState:
        """h_0, no label seen."""
        return VRNNState(self.summariser.init(), jnp.zeros((), jnp.int32))

    def update(self, state: VRNNState, x: Float[Array, " F"], y: Float[Array, ""]) -> VRNNState:
        """h_t = GRU(h_{t-1}, [phi_x(x_t), phi_z(z_t)]), z_t from the posterior."""
        q = self.infer(state.summary, x, y)
        noise = jax.random.normal(jax.random.fold_in(jax.random.key(0), state.seen), q.mean.shape)
        return VRNNState(self.turn(state.summary, x, q.at(noise)), state.seen + 1)

    def predict(self, state: VRNNState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """K latents from the prior, K candidate states, K emissions."""
        z = self.prior_of(state.summary).at(self.draws(key))
        return Predictive.equal(self.decode(state.summary, z, x))

    def window_terms(self, state: VRNNState, window: Window, key: PRNGKeyArray) -> tuple[Terms, VRNNState]:
        """The recurrence runs on posterior draws, in a scan; the terms of all steps follow at once."""
        k_scan, k_terms = jax.random.split(key)
        steps = window.y.shape[0]

        def body(summary: State, inputs: tuple[Array, Array, Array, PRNGKeyArray]) -> tuple[State, State]:
            x, y, observed, k = inputs
            q = self.infer(summary, x, y)
            turned = self.turn(summary, x, q.at(jax.random.normal(k, q.mean.shape)))
            summary = keep_if(observed, turned, summary)
            return summary, summary

        due = (*window.due, jax.random.split(k_scan, steps))
        last, summaries = jax.lax.scan(body, state.summary, due)
        keys = jax.random.split(k_terms, steps)
        terms = jax.vmap(self._terms)(summaries, window.x, window.y, keys)
        return terms, VRNNState(last, state.seen + jnp.sum(window.due_observed, dtype=jnp.int32))

    def prior_of(self, summary: State) -> DiagonalGaussian:
        """p(z_t | h_{t-1})."""
        return self.prior(self.prior_features(self.summariser.read(summary)))

    def infer(self, summary: State, x: Float[Array, " F"], y: Float[Array, ""]) -> DiagonalGaussian:
        """q(z_t | h_{t-1}, x_t, y_t)."""
        h = self.summariser.read(summary)
        return self.posterior(self.posterior_features(jnp.concatenate([h, x, y[None]])))

    def turn(self, summary: State, x: Float[Array, " F"], z: Float[Array, " dz"]) -> State:
        """One recurrent step with a given latent."""
        return self.summariser(summary, jnp.concatenate([self.phi_x(x), self.phi_z(z)]))

    def decode(self, summary: State, z: Float[Array, "K dz"], x: Float[Array, " F"]) -> AbstractComponents:
        """K emissions dec([h_t(z_k), z_k, x])."""

        def one(latent: Array) -> Array:
            h = self.summariser.read(self.turn(summary, x, latent))
            return self.decoder(jnp.concatenate([h, latent, x]))

        return self.head(jax.vmap(one)(z))

    def _terms(self, summary: State, x: Array, y: Array, key: PRNGKeyArray) -> Terms:
        k_prior, k_posterior = jax.random.split(key)
        p, q = self.prior_of(summary), self.infer(summary, x, y)
        emission = self.decode(summary, q.at(self.train_draws(k_posterior)), x)
        forecast = self.decode(summary, p.at(self.train_draws(k_prior)), x)
        return Terms(
            log_likelihood=jnp.mean(emission.log_prob(y)),
            kl=kl_divergence(q, p),
            log_predictive=Predictive.equal(forecast).log_prob(y),
        )
