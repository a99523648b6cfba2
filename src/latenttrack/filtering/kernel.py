"""A small function compiled as one kernel, not as a hundred.

XLA makes of a function some hundred operations, walks through them as a graph, and hands a part to another
thread. For a live step, whose operations take less than a microsecond each, that is most of the time; on a
busy machine, where the other thread has to wait for its turn, it is nearly all of it. A function that is
marked as small becomes one piece of machine code that runs where it is called.
"""

from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata

# How XLA marks loops that it compiles as one kernel by itself.
_MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}
# Not in one kernel: products of matrices by a library of its own, sums that are made in two operations.
_WITHOUT = "tree_reduction_rewriter,dot-library-rewriter,ynn-fusion,onednn-fusion"


_marking = ContextVar("marking", default=True)


def one_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as part of one that `compile_small` compiles: a kernel of its own."""

    def within(*arguments: Any) -> Any:
        # Its own parts are not marked: they are to be inlined.
        with set_xla_metadata(**dict.fromkeys(_MARKS)):
            return function(*arguments)

    inner = jax.jit(within)

    def marked(*arguments: Any) -> Any:
        with set_xla_metadata(**_MARKS) if _marking.get() else nullcontext():
            return inner(*arguments)

    return marked


def compile_small(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function whose parts were marked by `one_kernel`.

    Marks and names are not a public interface of XLA. Another version may ignore them, or fail: then the
    function is compiled as any other.
    """

    def unmarked(*arguments: Any) -> Any:
        token = _marking.set(False)
        try:
            return function(*arguments)
        finally:
            _marking.reset(token)

    fast = jax.jit(function, compiler_options={"xla_disable_hlo_passes": _WITHOUT})
    chosen = fast

    def call(*arguments: Any) -> Any:
        nonlocal chosen
        try:
            return chosen(*arguments)
        except jax.errors.JaxRuntimeError:
            if chosen is not fast:
                raise
            chosen = jax.jit(unmarked)
            return chosen(*arguments)

    return call
