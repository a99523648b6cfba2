"""Deep state-space model: a recurrence over observed pairs, and a latent that modulates the emission.

    e_t = phi_e([x_t, y_t]);   h_t = GRU(h_{t-1}, e_t)
    p(z_t | h_{t-1});   q(z_t | h_{t-1}, e_t);   y_t ~ dec([h_{t-1}, z_t, x_t])

The paper's decoder reads h_t, which contains y_t: it would see its own answer. Here it reads h_{t-1}, in
training and at test.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.models.base import AbstractTracker, State, Terms, Window
from latenttrack.models.components import AbstractComponents
from latenttrack.models.draws import AbstractDraws
from latenttrack.models.gaussian import GaussianLayer, kl_divergence
from latenttrack.models.heads import AbstractHead
from latenttrack.models.predictive import Predictive
from latenttrack.models.summarisers import AbstractSummariser


class DSSM(AbstractTracker):
    """Latent beside the recurrence: z never enters h."""

    encoder: eqx.nn.MLP
    summariser: AbstractSummariser
    prior_features: eqx.nn.MLP
    prior: GaussianLayer
    posterior_features: eqx.nn.MLP
    posterior: GaussianLayer
    decoder: eqx.nn.MLP
    head: AbstractHead
    draws: AbstractDraws
    train_draws: AbstractDraws

    def init(self) -> State:
        """h_0."""
        return self.summariser.init()

    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """h_t = GRU(h_{t-1}, phi_e([x_t, y_t]))."""
        return self.summariser(state, self.encode(x, y))

    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The mixture of decoders over K latents from the prior."""
        h = self.summariser.read(state)
        z = self.prior(self.prior_features(h)).at(self.draws(key))
        return Predictive.equal(self.decode(h, z, x))

    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """The recurrence in a scan; then all steps' terms at once."""
        e = jax.vmap(self.encode)(window.due_x, window.due_y)
        states = self.summariser.unroll(state, e, window.due_observed)
        keys = jax.random.split(key, window.y.shape[0])
        terms = jax.vmap(self._terms)(states, window.x, window.y, keys)
        return terms, jax.tree.map(lambda leaf: leaf[-1], states)

    def encode(self, x: Float[Array, " F"], y: Float[Array, ""]) -> Float[Array, " E"]:
        """e = phi_e([x, y])."""
        return self.encoder(jnp.append(x, y))

    def decode(
        self, h: Float[Array, " H"], z: Float[Array, "K dz"], x: Float[Array, " F"]
    ) -> AbstractComponents:
        """K emissions dec([h, z_k, x])."""
        context = jnp.concatenate([h, x])
        return self.head(jax.vmap(lambda latent: self.decoder(jnp.concatenate([context, latent])))(z))

    def _terms(self, state: State, x: Array, y: Array, key: PRNGKeyArray) -> Terms:
        k_prior, k_posterior = jax.random.split(key)
        h = self.summariser.read(state)
        p = self.prior(self.prior_features(h))
        q = self.posterior(self.posterior_features(jnp.concatenate([h, self.encode(x, y)])))
        emission = self.decode(h, q.at(self.train_draws(k_posterior)), x)
        forecast = self.decode(h, p.at(self.train_draws(k_prior)), x)
        return Terms(
            log_likelihood=jnp.mean(emission.log_prob(y)),
            kl=kl_divergence(q, p),
            log_predictive=Predictive.equal(forecast).log_prob(y),
        )
