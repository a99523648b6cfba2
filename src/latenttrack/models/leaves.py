"""The arrays of a pytree under names: what a file keeps of a model, a checkpoint or a belief."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from latenttrack.errors import LatentTrackError


def named_arrays(tree: PyTree[Any]) -> dict[str, np.ndarray]:
    """Every array of a pytree under its path; functions and other leaves are left out."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves if eqx.is_array(leaf)}


def fill_arrays(like: PyTree[Any], arrays: dict[str, np.ndarray], source: str) -> PyTree[Any]:
    """The pytree `like` with its arrays (or shapes, from `equinox.filter_eval_shape`) replaced by named ones.

    Args:
        like: gives structure, shapes and dtypes.
        arrays: from `named_arrays` of a pytree of the same structure.
        source: where they come from, for the error message.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    left = dict(arrays)
    filled = []
    for path, leaf in leaves:
        if not _has_shape(leaf):
            filled.append(leaf)
            continue
        array = left.pop(jax.tree_util.keystr(path), None)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise LatentTrackError(
                f"{source} does not fit: {jax.tree_util.keystr(path)} should be "
                f"{leaf.dtype}{list(leaf.shape)}; "
                "it was saved from another model or by another version of latenttrack"
            )
        filled.append(jnp.asarray(array))
    if left:
        raise LatentTrackError(
            f"{source} does not fit: it holds {next(iter(left))}, which this model does not have; "
            "it was saved from another model or by another version of latenttrack"
        )
    return jax.tree_util.tree_unflatten(structure, filled)


def _has_shape(leaf: object) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
