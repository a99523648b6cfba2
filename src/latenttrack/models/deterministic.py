"""LatentTrack taken apart, for comparison: its memory, and one network in place of a mixture.

    gru                y_t ~ head(f([h, x_t]))                     an ordinary network reads the summary
    lt-deterministic   y_t ~ head(f_{g(z)}(x_t)), z = W h + b      the hypernetwork, z without a distribution

h is the summary of what is known when step t is predicted, as LatentTrack has it (models/memory.py). Neither
draws anything: a forecast is one distribution, and all its variance is aleatoric.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.models.base import State, Terms, Window
from latenttrack.models.heads import AbstractHead
from latenttrack.models.hypernetwork import Activation, Hypernetwork
from latenttrack.models.memory import AbstractMemory, AbstractRemembering
from latenttrack.models.predictive import Predictive


class AbstractDeterministic(AbstractRemembering):
    """A summary of the past, and one emission for each step."""

    memory: eqx.AbstractVar[AbstractMemory]
    head: eqx.AbstractVar[AbstractHead]
    summary_dropout: eqx.AbstractVar[eqx.nn.Dropout]

    @abc.abstractmethod
    def outputs(
        self, h: Float[Array, " H"], x: Float[Array, " F"], key: PRNGKeyArray | None
    ) -> Float[Array, " size"]:
        """Raw outputs for the head, from the summary before this step and its x; `key` turns dropout on."""

    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """One distribution: a mixture with K = 1."""
        del key
        return self._emit(self.outputs(self.memory.read(state), x, None))

    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """The recurrence in a scan, then all steps at once; there is no latent, so KL = 0."""
        states = self.memory.unroll(state, window)

        def one(state: State, x: Array, y: Array, key: PRNGKeyArray) -> Array:
            k_summary, k_hidden = jax.random.split(key)
            h = self.summary_dropout(self.memory.read(state), key=k_summary)
            return self._emit(self.outputs(h, x, k_hidden)).log_prob(y)

        keys = jax.random.split(key, window.y.shape[0])
        scores = jax.vmap(one)(states, window.x, window.y, keys)
        terms = Terms(scores, jnp.zeros_like(scores), scores)
        return terms, jax.tree.map(lambda leaf: leaf[-1], states)

    def _emit(self, raw: Float[Array, " size"]) -> Predictive:
        return Predictive.equal(self.head(raw[None]))


class PlainRecurrent(AbstractDeterministic):
    """LatentTrack without its hypernetwork: an ordinary network on [h, x]."""

    memory: AbstractMemory
    layers: tuple[eqx.nn.Linear, ...]
    skip: eqx.nn.Linear | None
    head: AbstractHead
    summary_dropout: eqx.nn.Dropout
    hidden_dropout: eqx.nn.Dropout
    activation: Activation = eqx.field(static=True)

    def outputs(
        self, h: Float[Array, " H"], x: Float[Array, " F"], key: PRNGKeyArray | None
    ) -> Float[Array, " size"]:
        """f([h, x]); a skip adds a linear path from x to the mean."""
        inference = self.hidden_dropout.inference or key is None
        *hidden, last = self.layers
        keys = [None] * len(hidden) if key is None else list(jax.random.split(key, len(hidden)))
        out = jnp.concatenate([h, x])
        for layer, k in zip(hidden, keys, strict=True):
            out = self.hidden_dropout(self.activation(layer(out)), key=k, inference=inference)
        out = last(out)
        return out if self.skip is None else out.at[0].add(self.skip(x)[0])


class DeterministicTrack(AbstractDeterministic):
    """LatentTrack without a distribution over z: the hypernetwork reads the mean alone."""

    memory: AbstractMemory
    mean: eqx.nn.Linear
    hypernetwork: Hypernetwork
    head: AbstractHead
    summary_dropout: eqx.nn.Dropout

    def outputs(
        self, h: Float[Array, " H"], x: Float[Array, " F"], key: PRNGKeyArray | None
    ) -> Float[Array, " size"]:
        """f_{g(z)}(x), z = W h + b."""
        return self.hypernetwork(x, self.mean(h)[None], key)[0]
