"""The contract: a tracker is a few pure functions on small pytrees.

Everything else (training, filtering, storing, judging) is written once against `AbstractTracker`. All code
inside models is unbatched and single-step: batches come from `vmap`, time from `scan`, seeds from `vmap`
again, outside.

The order at step t is written once, in `step`: update with the label that has become due, advance with x_t,
predict. `predict` has no label argument: it cannot see the answer.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from latenttrack.models.predictive import Predictive

State = Any  # a pytree of arrays, of the shape that a tracker's `init` gives


class Constant(eqx.Module):
    """An array that belongs to a model but is never trained."""

    value: Array


_UNTRAINED = (Constant, eqx.nn.Dropout)


def make_dropout(rate: float) -> eqx.nn.Dropout:
    """Dropout whose rate is an array: networks that differ in it share a compiled program."""
    return eqx.nn.Dropout(jnp.float32(rate) if rate > 0 else 0.0)


class Window(NamedTuple):
    """W consecutive steps, laid out so that every step carries the label that becomes due just before it.

    With label delay D, `due_*[t]` is the pair of step t - D. Unobserved labels are 0 with `observed` False.
    """

    x: Float[Array, "W F"]
    y: Float[Array, " W"]
    observed: Bool[Array, " W"]
    due_x: Float[Array, "W F"]
    due_y: Float[Array, " W"]
    due_observed: Bool[Array, " W"]

    @property
    def due(self) -> tuple[Array, Array, Array]:
        """(x, y, observed) of the steps whose labels become due."""
        return self.due_x, self.due_y, self.due_observed


class Terms(NamedTuple):
    """What training weighs and sums, for each step of a window; to be maximised except `kl`.

    Terms that an objective does not use cost nothing: they are removed when the loss is compiled.
    """

    log_likelihood: Float[Array, " W"]  # E_q log p(y_t | x_t, z_t)
    kl: Float[Array, " W"]  # KL_t, structured or not; for static models the KL of all weights, in every step
    log_predictive: Float[
        Array, " W"
    ]  # log 1/K sum_k p(y_t | x_t, z_k), z_k from the prior: what the filter scores


class AbstractTracker(eqx.Module):
    """An online probabilistic predictor. State is data: a small pytree of arrays of constant size."""

    @abc.abstractmethod
    def init(self) -> State:
        """The belief before any data."""

    @abc.abstractmethod
    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """The label of an earlier step arrived: fold the pair in. No gradients, constant time."""

    def advance(self, state: State, x: Float[Array, " F"]) -> State:
        """This step's x is known, its label is not. By default nothing changes."""
        del x
        return state

    @abc.abstractmethod
    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The distribution of this step's label, before it is known."""

    def renew(self, state: State) -> State:
        """The data on which the weights were trained end here: forget how well they were predicted.

        Of data that it knows by heart a model thinks too well of itself. By default nothing changes; what
        learns from scores or errors (safety net, recalibration, correction, a panel's weights) starts anew.
        """
        return state

    @abc.abstractmethod
    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """Per-step terms of W steps from `state`, and the state after them."""


def step(
    tracker: AbstractTracker, state: State, due: tuple[Array, Array, Array], x: Array, key: PRNGKeyArray
) -> tuple[Predictive, State]:
    """One step of the filter, the only place where the order is written: update, advance, predict.

    Args:
        tracker: the model.
        state: its belief after the previous step.
        due: (x, y, observed) of the step whose label is due now; an unobserved label leaves the belief as it
            is.
        x: [F] the covariates of this step; missing values are NaN.
        key: randomness for this step's draws.
    """
    state = observe(tracker, state, due, x)
    return tracker.predict(state, impute(x), key), state


def observe(tracker: AbstractTracker, state: State, due: tuple[Array, Array, Array], x: Array) -> State:
    """The first two thirds of `step`: fold the due label in (if there is one), take note of x."""
    due_x, due_y, observed = due
    updated = tracker.update(state, impute(due_x), jnp.where(observed, due_y, 0.0))
    return tracker.advance(keep_if(observed, updated, state), impute(x))


def keep_if(condition: Bool[Array, ""], new: State, old: State) -> State:
    """`new` where the condition holds, else `old`, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def impute(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Missing or non-finite inputs become 0, the training mean of a standardised feature."""
    return jnp.where(jnp.isfinite(x), x, 0.0)


def is_trainable(leaf: object) -> bool:
    """Whether a leaf of a tracker is a parameter (those of `Constant`s and dropout are not)."""
    return eqx.is_inexact_array(leaf)


def partition(tracker: AbstractTracker) -> tuple[AbstractTracker, AbstractTracker]:
    """Split a tracker into (parameters, everything else); `equinox.combine` joins them again."""
    spec = jax.tree.map(
        lambda node: not isinstance(node, _UNTRAINED) and is_trainable(node),
        tracker,
        is_leaf=lambda node: isinstance(node, _UNTRAINED),
    )
    return eqx.partition(tracker, spec)


def parameter_count(tracker: AbstractTracker) -> int:
    """Number of trained numbers."""
    params, _ = partition(tracker)
    return sum(leaf.size for leaf in jax.tree.leaves(params))
