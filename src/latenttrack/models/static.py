"""Static baselines: networks on x_t alone, whose uncertainty comes from their weights. They have no state.

All three take their randomness from K rows of noise (`draws`), as the stateful models do, so that fixed
quasi-random points serve them as well.
"""

import abc
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from latenttrack.models.base import AbstractTracker, State, Terms, Window
from latenttrack.models.draws import AbstractDraws
from latenttrack.models.heads import AbstractHead
from latenttrack.models.hypernetwork import Activation
from latenttrack.models.predictive import Predictive


class AbstractStatic(AbstractTracker):
    """A tracker whose belief is empty: what it knows is in its weights."""

    head: eqx.AbstractVar[AbstractHead]
    draws: eqx.AbstractVar[AbstractDraws]
    train_draws: eqx.AbstractVar[AbstractDraws]

    def noise(self, draws: AbstractDraws, key: PRNGKeyArray) -> Shaped[Array, "K noise"]:
        """What K sampled networks need of chance; standard normal unless a model says otherwise."""
        return draws(key)

    @abc.abstractmethod
    def outputs(self, x: Float[Array, " F"], eps: Shaped[Array, "K noise"]) -> Float[Array, "K size"]:
        """Raw outputs of K sampled networks."""

    @abc.abstractmethod
    def weight_kl(self) -> Float[Array, ""]:
        """KL(q(weights) || p(weights)); 0 for models without a weight posterior."""

    def init(self) -> State:
        """Nothing."""
        return ()

    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """Labels change nothing."""
        del x, y
        return state

    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The equal-weight mixture over K sampled networks."""
        del state
        return Predictive.equal(self.head(self.outputs(x, self.noise(self.draws, key))))

    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """Every step on its own; `kl` is that of all weights: the static ELBO spreads it over the stream."""
        kl = self.weight_kl()

        def one(x: Array, y: Array, k: PRNGKeyArray) -> Terms:
            components = self.head(self.outputs(x, self.noise(self.train_draws, k)))
            forecast = Predictive.equal(components).log_prob(y)
            return Terms(jnp.mean(components.log_prob(y)), kl, forecast)

        keys = jax.random.split(key, window.y.shape[0])
        return jax.vmap(one)(window.x, window.y, keys), state


class MCDropout(AbstractStatic):
    """A multi-layer perceptron whose dropout stays on at test time (Gal and Ghahramani, 2016)."""

    layers: tuple[eqx.nn.Linear, ...]
    head: AbstractHead
    draws: AbstractDraws
    train_draws: AbstractDraws
    rate: float = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    def noise(self, draws: AbstractDraws, key: PRNGKeyArray) -> Bool[Array, "K units"]:
        """Which hidden units are kept, each with probability 1 - rate."""
        return draws.below(key, 1.0 - self.rate)

    def outputs(self, x: Float[Array, " F"], eps: Bool[Array, "K units"]) -> Float[Array, "K size"]:
        """Units that are not kept give 0, and the others make up for them."""
        kept = jnp.where(eps, 1.0 / (1.0 - self.rate), 0.0)

        def one(mask: Array) -> Array:
            hidden, start = x, 0
            for layer in self.layers[:-1]:
                units = self.activation(layer(hidden))
                hidden = units * mask[start : start + units.shape[0]]
                start += units.shape[0]
            return self.layers[-1](hidden)

        return jax.vmap(one)(kept)

    def weight_kl(self) -> Float[Array, ""]:
        """No weight posterior is kept."""
        return jnp.zeros(())


class BayesByBackprop(AbstractStatic):
    """A Gaussian over every weight, N(m, s^2) with s = softplus(rho), prior N(0, 1) (Blundell et al., 2015).

    Sampling uses the local reparameterisation: for one x, a layer's pre-activations are exactly N(x . m, x^2
    . s^2), so noise is drawn per unit and not per weight: the same predictive law with a hundredth of the
    random numbers.
    """

    means: tuple[eqx.nn.Linear, ...]
    rhos: tuple[eqx.nn.Linear, ...]
    head: AbstractHead
    draws: AbstractDraws
    train_draws: AbstractDraws
    activation: Activation = eqx.field(static=True)

    def outputs(self, x: Float[Array, " F"], eps: Float[Array, "K noise"]) -> Float[Array, "K size"]:
        """K sampled passes through the network."""

        def one(noise: Array) -> Array:
            hidden, start = x, 0
            for i, (m, rho) in enumerate(zip(self.means, self.rhos, strict=True)):
                s = jax.tree.map(jax.nn.softplus, rho)
                centre = m(hidden)
                end = start + centre.shape[0]
                units = centre + jnp.sqrt(s.weight**2 @ hidden**2 + s.bias**2) * noise[start:end]
                start = end
                hidden = units if i == len(self.means) - 1 else self.activation(units)
            return hidden

        return jax.vmap(one)(eps)

    def weight_kl(self) -> Float[Array, ""]:
        """sum over weights of KL(N(m, s^2) || N(0, 1)) = (s^2 + m^2 - 1) / 2 - log s."""

        def one(m: Array, rho: Array) -> Array:
            s = jax.nn.softplus(rho)
            return jnp.sum(0.5 * (s**2 + m**2 - 1.0) - jnp.log(s))

        return functools.reduce(jnp.add, jax.tree.leaves(jax.tree.map(one, self.means, self.rhos)))


class DeepEnsemble(AbstractStatic):
    """M networks trained on the same windows from different starts (Lakshminarayanan et al., 2017)."""

    members: tuple[eqx.nn.Linear, ...]  # every leaf has a leading axis of length M
    head: AbstractHead
    draws: AbstractDraws
    train_draws: AbstractDraws
    activation: Activation = eqx.field(static=True)

    def noise(self, draws: AbstractDraws, key: PRNGKeyArray) -> Float[Array, "M 0"]:
        """None: the members differ by themselves."""
        del draws, key
        return jnp.zeros((self.members[0].weight.shape[0], 0))

    def outputs(self, x: Float[Array, " F"], eps: Float[Array, "M 0"]) -> Float[Array, "M size"]:
        """The M members' outputs."""
        del eps

        def one(layers: tuple[eqx.nn.Linear, ...]) -> Array:
            hidden = x
            for layer in layers[:-1]:
                hidden = self.activation(layer(hidden))
            return layers[-1](hidden)

        return eqx.filter_vmap(one)(self.members)

    def weight_kl(self) -> Float[Array, ""]:
        """No weight posterior is kept."""
        return jnp.zeros(())
