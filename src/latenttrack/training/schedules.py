"""When the weights are changed while a stream passes: Algorithms 1 to 3 of the paper, one epoch each.

    chunk    run W steps, weighted loss, one optimiser step, detach the state, go on
    exact    every S steps rebuild the last W from a stored detached state under the current weights, step
    approx   every S steps a micro-step on the newest step alone; at the window's end rebuild W steps and step

All three see the data as [B, L, ...] with L a multiple of W (chunk, approx) or of S (exact), and call the
same gradient step on the same window loss. A static model has no state, so that `exact` is plain sliding
windows.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.models.base import Window
from latenttrack.models.layout import pad_front
from latenttrack.training.settings import Training
from latenttrack.training.step import Carry, Learner, Problem, gradient_step, window_loss

Epoch = Callable[[Learner, Problem, Window, PRNGKeyArray], tuple[Learner, Float[Array, ""]]]


def chunk_epoch(
    learner: Learner, problem: Problem, data: Window, key: PRNGKeyArray
) -> tuple[Learner, Float[Array, ""]]:
    """Truncated backpropagation through time over windows that do not overlap."""
    width = problem.training.window
    data, start, count = _shifted(data, problem.training, key)

    def body(loop: tuple[Learner, Carry], i: Array) -> tuple[tuple[Learner, Carry], Array]:
        learner, carry = loop
        window = _slice(data, start + i * width, width)
        learner, loss, carry = gradient_step(
            learner, problem, window_loss, carry, window, jax.random.fold_in(key, i)
        )
        return (learner, carry), loss

    carry = problem.start(learner.params, data.y.shape[0])
    (learner, _), losses = jax.lax.scan(body, (learner, carry), jnp.arange(count))
    return learner, jnp.mean(losses)


def exact_epoch(
    learner: Learner, problem: Problem, data: Window, key: PRNGKeyArray
) -> tuple[Learner, Float[Array, ""]]:
    """Rolling windows of W, moved by S, rebuilt from the state stored where each begins."""
    width, stride = problem.training.window, problem.training.stride
    count = data.y.shape[1] // stride
    data = pad_front(data, width - stride)  # the first windows are shorter: their missing part is unobserved

    def body(loop: tuple[Learner, Carry], i: Array) -> tuple[tuple[Learner, Carry], Array]:
        learner, stored = loop  # the carries at the last W / S stride boundaries, oldest first
        k_advance, k_step = jax.random.split(jax.random.fold_in(key, i))
        window = _slice(data, i * stride, width)
        newest = _slice(data, i * stride + width - stride, stride)
        _, ahead = window_loss(learner.params, problem, _pick(stored, -1), newest, learner.updates, k_advance)
        learner, loss, _ = gradient_step(learner, problem, window_loss, _pick(stored, 0), window, k_step)
        stored = jax.tree.map(lambda ring, new: jnp.concatenate([ring[1:], new[None]]), stored, ahead)
        return (learner, stored), loss

    carry = problem.start(learner.params, data.y.shape[0])
    stored = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (width // stride, *leaf.shape)), carry)
    (learner, _), losses = jax.lax.scan(body, (learner, stored), jnp.arange(count))
    return learner, jnp.mean(losses)


def approx_epoch(
    learner: Learner, problem: Problem, data: Window, key: PRNGKeyArray
) -> tuple[Learner, Float[Array, ""]]:
    """Micro-steps on single steps, and one rebuilt window at the end of each W."""
    width, stride = problem.training.window, problem.training.stride
    count = data.y.shape[1] // width

    def micro(
        loop: tuple[Learner, Carry], inputs: tuple[Array, PRNGKeyArray]
    ) -> tuple[tuple[Learner, Carry], None]:
        learner, carry = loop
        begin, k = inputs
        k_advance, k_step = jax.random.split(k)
        if stride > 1:
            _, carry = window_loss(
                learner.params, problem, carry, _slice(data, begin, stride - 1), learner.updates, k_advance
            )
        newest = _slice(data, begin + stride - 1, 1)
        learner, _, carry = gradient_step(learner, problem, window_loss, carry, newest, k_step)
        return (learner, carry), None

    def body(loop: tuple[Learner, Carry], i: Array) -> tuple[tuple[Learner, Carry], Array]:
        learner, carry = loop
        k_micro, k_step = jax.random.split(jax.random.fold_in(key, i))
        strides = width // stride - 1
        begins = i * width + stride * jnp.arange(strides)
        (learner, _), _ = jax.lax.scan(micro, (learner, carry), (begins, jax.random.split(k_micro, strides)))
        window = _slice(data, i * width, width)
        learner, loss, carry = gradient_step(learner, problem, window_loss, carry, window, k_step)
        return (learner, carry), loss

    carry = problem.start(learner.params, data.y.shape[0])
    (learner, _), losses = jax.lax.scan(body, (learner, carry), jnp.arange(count))
    return learner, jnp.mean(losses)


EPOCHS: dict[str, Epoch] = {"chunk": chunk_epoch, "exact": exact_epoch, "approx": approx_epoch}


def updates_per_epoch(training: Training, length: int) -> int:
    """Optimiser updates in one pass over streams of `length` steps (a multiple of the window or stride)."""
    if training.schedule == "chunk":
        return length // training.window + training.offsets
    return length // training.stride


def _shifted(data: Window, training: Training, key: PRNGKeyArray) -> tuple[Window, Array, int]:
    """The data, where the first window starts (shifted at random if asked for), and how many there are."""
    count = updates_per_epoch(training, data.y.shape[1])
    if not training.offsets:
        return data, jnp.zeros((), jnp.int32), count
    width = training.window
    padded = Window(*(jnp.pad(leaf, [(0, 0), (width, width)] + [(0, 0)] * (leaf.ndim - 2)) for leaf in data))
    return padded, jax.random.randint(key, (), 1, width + 1), count


def _slice(data: Window, start: Array, steps: int) -> Window:
    return Window(*(jax.lax.dynamic_slice_in_dim(leaf, start, steps, axis=1) for leaf in data))


def _pick(stored: Carry, index: int) -> Carry:
    return jax.tree.map(lambda leaf: leaf[index], stored)
