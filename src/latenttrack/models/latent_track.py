"""LatentTrack: filtering in function space.

    e_t = Enc([x_t, y_t]);   h_t = S(h_{t-1}, e_t)                          summary of the past
    q(z_t | D_1:t)             = N(mu_q(h_t), diag sigma_q(h_t)^2)           posterior
    p(z_t | D_1:t-1)           = N(mu_p(h_{t-1}), ...)                       prior, unstructured
    p(z_t | z_{t-1}, D_1:t-1)  = N(mu_p(h_{t-1}, z_{t-1}), ...)              transition, structured
    theta_t = g(z_t);   y_t ~ head(f_{theta_t}(x_t))                         hypernetwork, predictor, emission

To predict: draw K latents from the prior (structured: z_{t-1} from the posterior, then z_t from the
transition), generate K predictors, mix their K emissions with equal weights. To learn from y_t: one step of
the summariser.

With delayed labels "h_{t-1}" is the summary of every label known when step t is predicted, and the
posterior's "h_t" is that summary with the pair (x_t, y_t) folded in. Without delay these are exactly the
paper's. A prompt memory (models/memory.py) hears of x_t before step t is predicted.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.models.base import State, Terms, Window
from latenttrack.models.draws import AbstractDraws
from latenttrack.models.gaussian import DiagonalGaussian, GaussianLayer, kl_divergence
from latenttrack.models.heads import AbstractHead
from latenttrack.models.hypernetwork import Hypernetwork
from latenttrack.models.memory import AbstractMemory, AbstractRemembering
from latenttrack.models.predictive import Predictive


class LatentTrack(AbstractRemembering):
    """The filter in function space; `structured` picks the transition instead of the marginal prior."""

    memory: AbstractMemory
    posterior: GaussianLayer
    prior: GaussianLayer
    hypernetwork: Hypernetwork
    head: AbstractHead
    draws: AbstractDraws  # for predictions
    train_draws: AbstractDraws  # for training
    summary_dropout: eqx.nn.Dropout
    structured: bool = eqx.field(static=True)

    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The mixture 1/K sum_k p(y | x; g(z_k)), z_k from the prior or through the transition."""
        z = self.latents(self.memory.read(state), self.draws(key))
        return Predictive.equal(self.head(self.hypernetwork(x, z)))

    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """The recurrence in a scan; then, as it does not depend on z, all steps' terms at once."""
        states = self.memory.unroll(state, window)
        after = self.memory.fold(states, window)
        keys = jax.random.split(key, window.y.shape[0])
        terms = jax.vmap(self._terms)(states, after, window.x, window.y, keys)
        return terms, jax.tree.map(lambda leaf: leaf[-1], states)

    def latents(self, h: Float[Array, " H"], eps: Float[Array, "K noise"]) -> Float[Array, "K dz"]:
        """K draws of z_t given the summary before step t, from K rows of standard-normal noise."""
        if not self.structured:
            return self.prior(h).at(eps)
        previous, current = jnp.split(eps, 2, axis=1)
        return self.transition(h, self.posterior(h).at(previous)).at(current)

    def transition(self, h: Float[Array, " H"], z: Float[Array, "K dz"]) -> DiagonalGaussian:
        """p(z_t | z_{t-1}, h_{t-1}) for K previous latents."""
        return self.prior.shared(h, z)

    def _terms(self, state: State, after: State, x: Array, y: Array, key: PRNGKeyArray) -> Terms:
        """Terms of one step, predicted from `state`; `after` is that belief with its pair folded in."""
        k_prior, k_posterior, k_summary, k_hidden = jax.random.split(key, 4)
        h = self.summary_dropout(self.memory.read(state), key=k_summary)
        q = self.posterior(self.memory.read(after))
        eps = self.train_draws(k_posterior)

        if self.structured:
            before, now = jnp.split(eps, 2, axis=1)
            p = self.transition(h, self.posterior(h).at(before))
        else:
            now = eps
            p = self.prior(h)
        emission = self.head(self.hypernetwork(x, q.at(now), k_hidden))
        forecast = self.head(self.hypernetwork(x, self.latents(h, self.train_draws(k_prior)), k_hidden))
        return Terms(
            log_likelihood=jnp.mean(emission.log_prob(y)),
            kl=jnp.mean(kl_divergence(q, p)),
            log_predictive=Predictive.equal(forecast).log_prob(y),
        )
