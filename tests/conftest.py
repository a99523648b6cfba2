"""Shared by all tests: how jax compiles, how hypothesis searches, and the small streams of many tests."""

import gc
import os
from pathlib import Path

# Compiling dominates the run time of the tests; without LLVM's optimisation it is several times faster, and
# the tiny arrays of the tests do not miss it. XLA reads this once, so it must be set before jax is first
# used.
_QUICK = "--xla_backend_optimization_level=0"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_QUICK}".strip()

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from latenttrack.data.series import Series  # noqa: E402
from latenttrack.models.base import partition  # noqa: E402
from latenttrack.models.stack import Stack  # noqa: E402

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


_MAPS = Path("/proc/self/maps")  # of Linux
_MANY = 15_000


@pytest.fixture(scope="module", autouse=True)
def not_too_many_programs():
    """Every compiled program maps memory; beyond the 65,530 mappings that Linux allows, LLVM crashes."""
    yield
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MANY:
        eqx.clear_caches()
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def strict_dtypes():
    """No silent change of dtype. (Not for whole training runs: optax's Adam relies on promotion.)"""
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(scope="session")
def make_series():
    """A function that draws a small standardised series of one or several keys."""

    def make(lengths=(40,), *, features=3, seed=0, **fields):
        rng = np.random.default_rng(seed)
        rows = sum(lengths)
        x = rng.normal(size=(rows, features))
        y = 0.5 * x[:, 0] + np.sin(np.arange(rows) / 5.0) + 0.3 * rng.normal(size=rows)
        names = (*(f"x{i}" for i in range(features - 1)), "day_sin1")
        return Series(
            **{
                "x": x,
                "y": y,
                "time": np.concatenate([np.arange(n, dtype=float) for n in lengths]),
                "names": names,
                "keys": tuple(f"k{i}" for i in range(len(lengths))),
                "key": np.repeat(np.arange(len(lengths)), lengths),
                "period": 4,
                **fields,
            }
        )

    return make


@pytest.fixture(scope="session")
def as_stack():
    """A function that makes a `Stack` of trackers of one architecture, without compiling anything."""

    def make(*trackers):
        parts = [partition(tracker) for tracker in trackers]
        params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(p for p, _ in parts))
        return Stack(params, parts[0][1], len(trackers))

    return make


@pytest.fixture(scope="session")
def same_bits():
    """A function that asserts that two pytrees hold the same bits."""

    def check(a, b):
        assert jax.tree.structure(a) == jax.tree.structure(b)
        for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            if eqx.is_array(left) or isinstance(left, np.ndarray):
                left, right = np.asarray(left), np.asarray(right)
                assert left.dtype == right.dtype
                assert left.tobytes() == right.tobytes()

    return check
