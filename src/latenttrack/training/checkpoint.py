"""Interrupted training goes on where it was: the whole learner as plain tensors, written atomically."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.store.tensors import read_tensors, write_tensors

_KIND = "checkpoint"


def fingerprint(series: Series, plan: dict[str, Any]) -> str:
    """A digest of everything that decides the result of a run: a checkpoint fits only the same."""
    digest = hashlib.sha256(json.dumps(plan, sort_keys=True, default=str).encode())
    for array in (series.x, series.y, series.key):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_checkpoint(path: Path, tree: PyTree[Any], epoch: int, history: list[dict[str, Any]], mark: str) -> None:
    """Write a pytree of arrays and the number of finished epochs."""
    write_tensors(path, named_leaves(tree), {"epoch": epoch, "history": history, "fingerprint": mark}, _KIND)


def load_checkpoint(path: Path, like: PyTree[Any], mark: str) -> tuple[PyTree[Any], int, list[dict[str, Any]]]:
    """Read a checkpoint back into the structure of `like`."""
    tensors, header = read_tensors(path, _KIND)
    if header["fingerprint"] != mark:
        raise LatentTrackError(
            f"checkpoint {path} belongs to another run (other data, model or settings): "
            "delete it, or give this run another checkpoint file"
        )
    return fill_leaves(like, tensors), header["epoch"], header["history"]


def named_leaves(tree: PyTree[Any]) -> dict[str, np.ndarray]:
    """Every array of a pytree under its path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def fill_leaves(like: PyTree[Any], tensors: dict[str, np.ndarray]) -> PyTree[Any]:
    """The pytree `like` with its arrays replaced by those stored under the same paths."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    if set(names) != set(tensors) or any(
        np.shape(leaf) != tensors[name].shape for name, (_, leaf) in zip(names, leaves, strict=True)
    ):
        raise LatentTrackError("the stored tensors do not fit this architecture: it was saved from another model")
    return jax.tree_util.tree_unflatten(structure, [jax.numpy.asarray(tensors[name]) for name in names])
