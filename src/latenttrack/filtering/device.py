"""The device of live filters: a processor on which a small program runs at once, where it is called.

A live step is some hundred operations of a microsecond or less. JAX hands programs to another thread, and
spreads their operations over all cores; to wake those threads takes longer than the work, and on a busy
machine many times longer. So live filters have a client of their own, without either. Training and offline
filters keep JAX's.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import jax


@functools.cache
def live_device() -> jax.Device:
    """One processor core, synchronous; JAX's own first processor if this version cannot make one."""
    try:
        # Not a public interface of JAX, but the one its own processor client is made with.
        from jaxlib import xla_client

        return _with_one_thread(lambda: xla_client.make_cpu_client(asynchronous=False)).devices()[0]
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return jax.devices("cpu")[0]


def _with_one_thread(make: Callable[[], Any]) -> Any:
    """What `make` gives while this process claims to have one core: so XLA knows how many threads to have."""
    before = os.environ.get("NPROC")
    os.environ["NPROC"] = "1"
    try:
        return make()
    finally:
        if before is None:
            del os.environ["NPROC"]
        else:
            os.environ["NPROC"] = before
