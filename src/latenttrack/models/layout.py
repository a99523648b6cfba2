"""From a series to the arrays that training and filtering scan: every step beside the label due before it."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from latenttrack.data.series import Sequences, Series
from latenttrack.models.base import Window


def lay_out(series: Series) -> tuple[Window, Sequences]:
    """The streams of a series side by side, with their due labels.

    Returns:
        A window whose leaves are [B, T, ...] numpy arrays (B streams, T steps, padded at the end with
        unobserved steps), and the sequences with the map back to rows.
    """
    sequences = series.sequences()
    observed = ~np.isnan(sequences.y)
    x = np.where(np.isfinite(sequences.x), sequences.x, 0.0).astype(np.float32)
    y = np.where(observed, sequences.y, 0.0).astype(np.float32)
    delay = series.delay
    window = _window(x, y, observed, _later(x, delay), _later(y, delay), _later(observed, delay))
    return window, sequences


def hide_unknown(window: Window, sequences: Sequences, delay: int) -> Window:
    """Unobserve the labels that were not yet known when each stream ended: the last `delay - 1` of it."""
    steps = np.arange(sequences.valid.shape[1])
    known = steps[None, :] <= sequences.valid.sum(axis=1)[:, None] - delay
    return window._replace(observed=window.observed & known)


def cut(window: Window, pieces: int, multiple: int) -> Window:
    """Cut each of B streams into `pieces` of equal length, a multiple of `multiple`: [B * pieces, L, ...].

    The last piece is filled up with unobserved steps, so that no row is lost.
    """
    batch, steps = window.y.shape
    length = -(-steps // pieces)
    length = -(-length // multiple) * multiple

    def one(leaf: np.ndarray) -> np.ndarray:
        padding = [(0, 0), (0, pieces * length - steps)] + [(0, 0)] * (leaf.ndim - 2)
        return np.pad(leaf, padding).reshape(batch * pieces, length, *leaf.shape[2:])

    cut_up = _window(*(one(np.asarray(leaf)) for leaf in window))
    used = cut_up.observed.any(axis=1) | cut_up.due_observed.any(axis=1)
    return Window(*(leaf[used] for leaf in cut_up))


def pad_front(window: Window, steps: int) -> Window:
    """`steps` unobserved steps before the first one."""
    return Window(*(jnp.pad(leaf, [(0, 0), (steps, 0)] + [(0, 0)] * (leaf.ndim - 2)) for leaf in window))


def _window(*leaves: Any) -> Window:
    """A window of numpy arrays: they go to the device only when a computation takes them."""
    return Window(*leaves)


def _later(array: np.ndarray, delay: int) -> np.ndarray:
    """The array `delay` steps later along time (axis 1), with zeros before its start."""
    late = np.zeros_like(array)
    late[:, delay:] = array[:, :-delay]
    return late
