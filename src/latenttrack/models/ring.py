"""The forecasts of the last D steps, kept until their labels are due.

A ring is a forecast (or any pytree of arrays) whose leaves have a leading axis of length D, oldest first.
When the label of step t - D is due, before step t is advanced to, its forecast is the oldest one.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree, UInt32


def empty_ring(like: PyTree[Any], length: int) -> PyTree[Array]:
    """A ring of void forecasts, all ones; `like` gives shapes and dtypes (arrays or `jax.eval_shape`)."""
    return jax.tree.map(lambda leaf: jnp.ones((length, *leaf.shape), leaf.dtype), like)


def push(ring: PyTree[Array], newest: PyTree[Array]) -> PyTree[Array]:
    """The ring without its oldest entry and with a newest one."""
    return jax.tree.map(lambda leaf, new: jnp.concatenate([leaf[1:], new[None]]), ring, newest)


def oldest(ring: PyTree[Array]) -> PyTree[Array]:
    """The entry of D steps ago."""
    return jax.tree.map(lambda leaf: leaf[0], ring)


def step_key(steps: UInt32[Array, ""]) -> PRNGKeyArray:
    """The key of a forecast that is kept for its label, where `advance` has none.

    A tracker with fixed draws forecasts the same with any key. One that draws afresh is judged by draws of
    its own, of the same distribution as those of the forecast that was given out.
    """
    return jax.random.fold_in(jax.random.key(0), steps)
