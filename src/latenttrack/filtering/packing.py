"""A pytree of small arrays as one flat array of 32-bit words, bit for bit, and back.

A compiled function is called sooner with one argument than with fifty: handing over each array costs about a
microsecond, and a whole live step should cost a hundred. Words have the type of floats, as most leaves have:
those are then packed by copying alone. Nothing is ever computed with a word that is not a float.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree


class Packing(NamedTuple):
    """The structure that a packed array has lost."""

    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]

    @classmethod
    def of(cls, tree: PyTree[Any]) -> "Packing":
        """For pytrees like this one, of arrays or shapes (float32, int32, uint32, bool)."""
        shapes, structure = jax.tree.flatten(jax.eval_shape(lambda: tree) if _has_arrays(tree) else tree)
        return cls(structure, tuple(shapes))

    @property
    def size(self) -> int:
        """Number of words."""
        return sum(leaf.size for leaf in self.leaves)

    def pack(self, tree: PyTree[Array]) -> Float32[Array, " n"]:
        """All leaves, one after another; scalars first, as together they are one operation."""
        leaves = [_to_words(leaf) for leaf in jax.tree.leaves(tree)]
        scalars = [leaf for leaf in leaves if leaf.ndim == 0]
        others = [leaf.reshape(-1) for leaf in leaves if leaf.ndim > 0]
        words = [jnp.stack(scalars), *others] if scalars else others
        return jnp.concatenate(words) if words else jnp.zeros(0, jnp.float32)

    def unpack(self, words: Float32[Array, " n"]) -> PyTree[Array]:
        """The inverse of `pack`."""
        leaves, scalar = [], 0
        start = sum(not leaf.shape for leaf in self.leaves)
        for leaf in self.leaves:
            if leaf.shape:
                part, start = words[start : start + leaf.size], start + leaf.size
            else:
                part, scalar = words[scalar], scalar + 1
            leaves.append(_from_words(part, leaf.dtype).reshape(leaf.shape))
        return jax.tree.unflatten(self.structure, leaves)


def _has_arrays(tree: PyTree[Any]) -> bool:
    return not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(tree))


def _to_words(leaf: Array) -> Float32[Array, "*shape"]:
    if leaf.dtype == jnp.float32:
        return leaf
    bits = leaf.astype(jnp.uint32) if leaf.dtype == jnp.bool_ else leaf
    return jax.lax.bitcast_convert_type(bits, jnp.float32)


def _from_words(words: Float32[Array, "*shape"], dtype: Any) -> Array:
    if dtype == jnp.float32:
        return words
    if dtype == jnp.bool_:
        return jax.lax.bitcast_convert_type(words, jnp.uint32).astype(jnp.bool_)
    return jax.lax.bitcast_convert_type(words, dtype)
