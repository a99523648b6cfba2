"""Several seeds of one architecture as a single object: stacked parameters, everything else shared."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from latenttrack.models.base import AbstractTracker, partition
from latenttrack.models.draws import void_points

# Drawing initial weights takes far longer to optimise than to run.
_RUNS_ONCE = {"xla_backend_optimization_level": 0}


class Stack(eqx.Module):
    """`count` trackers that differ in their parameters only."""

    params: PyTree[Any]  # every array has a leading axis of length `count`
    rest: PyTree[Any]  # constants and structure, shared
    count: int = eqx.field(static=True)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> AbstractTracker:
        """The tracker of one seed."""
        if not -self.count <= index < self.count:
            raise IndexError(f"seed {index} of {self.count}")
        return eqx.combine(jax.tree.map(lambda leaf: leaf[index], self.params), self.rest)

    def replace(self, params: PyTree[Any]) -> "Stack":
        """The same architecture with other parameters."""
        return Stack(params, self.rest, self.count)


def build_stack(build: Callable[[Array], AbstractTracker], keys: Array) -> Stack:
    """One tracker for each key, drawn in one compiled program."""
    draw = jax.jit(jax.vmap(lambda key: eqx.filter(build(key), eqx.is_array)), compiler_options=_RUNS_ONCE)
    return _assemble(build, keys, draw(keys))


def stack_shape(build: Callable[[Array], AbstractTracker], count: int) -> Stack:
    """The stack that `build_stack` would give, with shapes in place of arrays: nothing is computed."""
    keys = jax.random.split(jax.random.key(0), count)
    draw: Callable[[Array], PyTree[Array]] = jax.vmap(lambda key: eqx.filter(build(key), eqx.is_array))
    with void_points():
        return eqx.filter_eval_shape(lambda keys: _assemble(build, keys, draw(keys)), keys)


def _assemble(build: Callable[[Array], AbstractTracker], keys: Array, arrays: PyTree[Array]) -> Stack:
    """Join drawn arrays [count, ...] with the structure that all trackers share."""
    shapes = eqx.filter_eval_shape(build, keys[0])
    structure = jax.tree.map(lambda leaf: None if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, shapes)
    params, rest = partition(eqx.combine(arrays, structure))
    # Constants do not depend on the key: the copies made by vmap are all alike.
    shared = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, rest)
    return Stack(params, shared, len(keys))


def in_groups(function: Callable[[PyTree[Array]], PyTree[Array]], tree: PyTree[Array]) -> PyTree[Array]:
    """`function(tree)`, computed for as many groups of seeds at once as there are cores.

    A scan over time is a chain of small operations that cannot fill two cores, so that groups of seeds in
    threads of their own are up to twice as fast as all seeds in one batch.

    Args:
        function: compiled, from leaves [seeds, ...] to leaves [seeds, ...], each seed for itself.
        tree: leaves [count, ...].

    Returns:
        Leaves [count, ...].
    """
    count = len(jax.tree.leaves(tree)[0])
    size = -(-count // (os.cpu_count() or 1))
    if size == count:
        return function(tree)
    # Groups of one size share one compiled program: the last is filled up with copies of the last seed.
    rows = np.minimum(np.arange(-(-count // size) * size), count - 1).reshape(-1, size)

    def one(group: np.ndarray) -> PyTree[Array]:
        return jax.block_until_ready(function(jax.tree.map(lambda leaf: leaf[group], tree)))

    with ThreadPoolExecutor(len(rows)) as pool:
        results = list(pool.map(one, rows))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[:count], *results)
