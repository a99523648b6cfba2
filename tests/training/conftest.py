"""A tracker with four parameters, which compiles at once and can be followed by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from latenttrack.models.base import AbstractTracker, Terms, observe
from latenttrack.models.components import Gaussian
from latenttrack.models.predictive import Predictive


class Level(AbstractTracker):
    """y ~ N(w . x + m, sd^2), and m' = m + sigmoid(gain) (y - m): no randomness, a belief of one number."""

    weight: Float[Array, " F"]
    gain: Float[Array, ""]
    log_sd: Float[Array, ""]

    def init(self):
        return jnp.zeros(())

    def update(self, state, x, y):
        return state + jax.nn.sigmoid(self.gain) * (y - state)

    def predict(self, state, x, key):
        loc = self.weight @ x + state
        return Predictive.equal(Gaussian(loc[None], jnp.exp(self.log_sd)[None]))

    def window_terms(self, state, window, key):
        def body(state, row):
            state = observe(self, state, (row.due_x, row.due_y, row.due_observed), row.x)
            return state, self.predict(state, row.x, key).log_prob(row.y)

        state, scores = jax.lax.scan(body, state, window)
        return Terms(scores, jnp.full_like(scores, jnp.sum(self.weight**2)), scores), state


def build_level(key):
    """Small random weights; three inputs, as the series of the tests have."""
    start = jax.random.uniform(key, (5,), minval=-0.5, maxval=0.5)
    return Level(start[:3], start[3], start[4])


@pytest.fixture(scope="session")
def level():
    return build_level


@pytest.fixture(scope="session")
def flat():
    """A function that lines up all numbers of a pytree."""

    def one(tree):
        leaves = [
            np.asarray(leaf).ravel() for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
        ]
        return np.concatenate(leaves)

    return one
