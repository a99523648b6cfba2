"""Interrupted training goes on where it was: the whole learner as plain tensors, written atomically."""

import hashlib
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import PyTree

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.models.leaves import fill_arrays, named_arrays
from latenttrack.store.tensors import read_tensors, write_tensors

_KIND = "checkpoint"


def describe_optimiser(optimiser: optax.GradientTransformation, params: PyTree[Any]) -> str:
    """One update as a program: it shows every constant, where the functions show only addresses."""
    program = jax.make_jaxpr(optimiser.update)(params, optimiser.init(params), params)
    return re.sub(r" at 0x[0-9a-f]+", "", str(program))


def fingerprint(series: Series, plan: dict[str, Any]) -> str:
    """A digest of everything that decides the result of a run: a checkpoint fits only the same."""
    digest = hashlib.sha256(json.dumps(plan, sort_keys=True, default=str).encode())
    for array in (series.x, series.y, series.time, series.key):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_checkpoint(
    path: Path, tree: PyTree[Any], epoch: int, history: list[dict[str, Any]], mark: str
) -> None:
    """Write a pytree of arrays and the number of finished epochs."""
    header = {"epoch": epoch, "history": _swap(history, math.isfinite, None), "fingerprint": mark}
    write_tensors(path, named_arrays(tree), header, _KIND)


def load_checkpoint(
    path: Path, like: PyTree[Any], mark: str
) -> tuple[PyTree[Any], int, list[dict[str, Any]]]:
    """Read a checkpoint back into the structure of `like`."""
    tensors, header = read_tensors(path, _KIND)
    if header["fingerprint"] != mark:
        raise LatentTrackError(
            f"checkpoint {path} belongs to another run (other data, model or settings): "
            "delete it, or give this run another checkpoint file"
        )
    history = _swap(header["history"], lambda value: value is not None, float("nan"))
    return fill_arrays(like, tensors, f"checkpoint {path}"), header["epoch"], history


def _swap(
    history: list[dict[str, Any]], keep: Callable[[Any], bool], other: float | None
) -> list[dict[str, Any]]:
    """The history with the values that are not kept replaced: JSON has no NaN."""
    return [{k: [v if keep(v) else other for v in row[k]] for k in row} for row in history]
