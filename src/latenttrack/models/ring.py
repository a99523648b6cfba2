"""The forecasts of the last D steps, kept until their labels are due.

A ring is one array with a row for each forecast, oldest first: all its numbers, one after another. One array
and not one for each leaf, as a step of a live filter costs as many operations as it has arrays. When the
label of step t - D is due, before step t is advanced to, its forecast is the oldest one.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, UInt32


class Ring(eqx.Module):
    """D forecasts (or any pytrees of float arrays) of one form."""

    rows: Float[Array, "D n"]
    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)


def empty_ring(like: PyTree[Any], length: int) -> Ring:
    """A ring of void forecasts, all ones; `like` gives the form (arrays or `jax.eval_shape`)."""
    leaves, structure = jax.tree.flatten(like)
    shapes = tuple(leaf.shape for leaf in leaves)
    return Ring(jnp.ones((length, sum(math.prod(shape) for shape in shapes))), structure, shapes)


def push(ring: Ring, newest: PyTree[Array]) -> Ring:
    """The ring without its oldest entry and with a newest one."""
    row = jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(newest)])
    return Ring(jnp.concatenate([ring.rows[1:], row[None]]), ring.structure, ring.shapes)


def oldest(ring: Ring) -> PyTree[Array]:
    """The entry of D steps ago."""
    leaves, start = [], 0
    for shape in ring.shapes:
        end = start + math.prod(shape)
        leaves.append(ring.rows[0, start:end].reshape(shape))
        start = end
    return jax.tree.unflatten(ring.structure, leaves)


def step_key(steps: UInt32[Array, ""]) -> PRNGKeyArray:
    """The key of a forecast that is kept for its label, where `advance` has none.

    A tracker with fixed draws forecasts the same with any key. One that draws afresh is judged by draws of
    its own, of the same distribution as those of the forecast that was given out.
    """
    return jax.random.fold_in(jax.random.key(0), steps)
