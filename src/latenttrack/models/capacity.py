"""How many numbers a model learns, and how many of them it needs once it is trained."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from latenttrack.models.base import AbstractTracker, State, partition, step
from latenttrack.models.predictive import Predictive


class Capacity(NamedTuple):
    """Trained numbers."""

    total: int
    inference: int  # those that update and predict use; the rest serves training alone


def capacity(build: Callable[[PRNGKeyArray], AbstractTracker], size: int) -> Capacity:
    """Count the parameters of a model without drawing them.

    A parameter is used if it occurs in the program of one step of the filter.

    Args:
        build: from a key to a tracker.
        size: number of input features F.
    """
    shapes = eqx.filter_eval_shape(lambda key: partition(build(key)), jax.random.key(0))
    (params, constants), fixed = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    leaves, structure = jax.tree.flatten(params)

    def one_step(
        leaves: list[Array], constants: PyTree[Array], x: Array, y: Array
    ) -> tuple[Predictive, State]:
        tracker = eqx.combine(jax.tree.unflatten(structure, leaves), constants, *fixed)
        return step(tracker, tracker.init(), (x, y, jnp.array(True)), x, jax.random.key(0))

    program = jax.make_jaxpr(one_step)(leaves, constants, jnp.zeros(size), jnp.zeros(())).jaxpr
    used = {id(variable) for equation in program.eqns for variable in equation.invars}
    # A parameter may also be handed on as it is, such as a belief that starts from a learned value.
    used |= {id(variable) for variable in program.outvars}
    sizes = [leaf.size for leaf in leaves]
    variables = program.invars[: len(leaves)]
    return Capacity(
        total=sum(sizes),
        inference=sum(n for n, variable in zip(sizes, variables, strict=True) if id(variable) in used),
    )
