"""The one gradient step, and the loss of one window that it descends."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from latenttrack.models.base import AbstractTracker, State, Window
from latenttrack.training.credit import recency, surprise
from latenttrack.training.objectives import OBJECTIVES, kl_weight
from latenttrack.training.settings import Training

_LEAST_WEIGHT = 1e-8


class Learner(NamedTuple):
    """Everything that training changes and a checkpoint keeps."""

    params: PyTree[Any]
    opt_state: PyTree[Any]
    average: PyTree[Any]  # exponential moving average of the parameters; equal to them without averaging
    updates: Int[Array, ""]


class Carry(NamedTuple):
    """What flows along the stream in training: beliefs [B, ...] and running NLL [B], detached."""

    states: State
    nll: Float[Array, " B"]


class Problem(NamedTuple):
    """What stays fixed during training."""

    rest: PyTree[Any]  # the tracker's non-trained part
    training: Training
    optimiser: optax.GradientTransformation
    steps: Float[Array, ""] | int  # labelled training steps N

    def tracker(self, params: PyTree[Any]) -> AbstractTracker:
        """The tracker with these parameters."""
        return eqx.combine(params, self.rest)

    def start(self, params: PyTree[Any], batch: int) -> Carry:
        """The belief before any data for B streams."""
        state = self.tracker(params).init()
        states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (batch, *leaf.shape)), state)
        return Carry(states, jnp.full(batch, jnp.nan))


def new_learner(optimiser: optax.GradientTransformation, params: PyTree[Any]) -> Learner:
    """A learner that has seen nothing."""
    return Learner(params, optimiser.init(params), params, jnp.zeros((), jnp.int32))


def window_loss(
    params: PyTree[Any],
    problem: Problem,
    carry: Carry,
    window: Window,
    updates: Int[Array, ""],
    key: PRNGKeyArray,
) -> tuple[Float[Array, ""], Carry]:
    """-sum(w L) / max(sum(w), eps) over a window [B, W, ...], and the detached carry after it."""
    tracker, training = problem.tracker(params), problem.training
    batch, width = window.y.shape
    terms, states = jax.vmap(tracker.window_terms)(carry.states, window, jax.random.split(key, batch))
    beta = kl_weight(updates.astype(jnp.float32), training.beta, training.beta_warmup)
    objective = OBJECTIVES[training.objective]
    values = jax.vmap(lambda t: objective(t, beta, problem.steps))(terms)

    weights = recency(width, training.recency)[None, :] * window.observed
    nll = carry.nll
    if training.surprise > 0:
        extra, nll = jax.vmap(
            lambda v, seen, ema: surprise(v, seen, ema, alpha=training.surprise, rate=training.surprise_rate)
        )(-terms.log_likelihood, window.observed, nll)
        weights = weights * extra
    # An unobserved step may have any value, even a non-finite one: it must not reach the sum.
    total = jnp.sum(jnp.where(window.observed, weights * values, 0.0))
    loss = -total / jnp.maximum(jnp.sum(weights), _LEAST_WEIGHT)
    return loss, Carry(jax.lax.stop_gradient(states), nll)


def gradient_step(
    learner: Learner,
    problem: Problem,
    loss_fn: Callable[..., tuple[Float[Array, ""], Carry]],
    *args: Any,
) -> tuple[Learner, Float[Array, ""], Carry]:
    """One optimiser update on `loss_fn(params, problem, *args, updates, key)`.

    A gradient that is not finite counts as zero (one broken window must not end a long run).
    """
    *window_args, key = args
    (loss, carry), gradient = jax.value_and_grad(loss_fn, has_aux=True)(
        learner.params, problem, *window_args, learner.updates, key
    )
    finite = jnp.isfinite(optax.tree.norm(gradient))
    gradient = jax.tree.map(lambda leaf: jnp.where(finite, leaf, 0.0), gradient)
    change, opt_state = problem.optimiser.update(gradient, learner.opt_state, learner.params)
    params = optax.apply_updates(learner.params, change)
    # Early on the average would be dominated by the initial weights: its memory grows with the updates.
    count = learner.updates.astype(jnp.float32)
    rate = jnp.minimum(problem.training.weight_ema, (1.0 + count) / (10.0 + count))
    average = jax.tree.map(lambda a, p: rate * a + (1.0 - rate) * p, learner.average, params)
    return Learner(params, opt_state, average, learner.updates + 1), loss, carry
