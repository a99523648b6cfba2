"""A small function as one kernel: the same numbers, and a way back where XLA cannot do it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.filtering import kernel
from latenttrack.filtering.kernel import compile_small, one_kernel

WEIGHTS = jnp.asarray(np.random.default_rng(0).normal(size=(64, 48)), jnp.float32)


def network(x):
    """Products of a matrix with a vector and with a matrix, a sum and a loop."""
    hidden = jnp.tanh(WEIGHTS @ x)
    many = jnp.tanh(hidden[:, None] * WEIGHTS) @ WEIGHTS.T
    return jax.lax.fori_loop(0, 3, lambda _, h: jnp.sin(h) + many.sum(0), hidden)


def test_the_mark_reaches_the_compiler_and_stays():
    """An XLA that ignores it is as right, but slow: to be noticed when the version changes."""
    options = {"xla_disable_hlo_passes": kernel._WITHOUT}
    compiled = jax.jit(one_kernel(network), compiler_options=options).lower(jnp.ones(48)).compile().as_text()
    program = compiled[compiled.index("ENTRY") :]
    assert "xla_cpu_small_call" in program
    assert "fusion" not in program
    assert "dot" not in program


def test_one_kernel_says_the_same():
    x = np.linspace(-1.0, 1.0, 48, dtype=np.float32)
    small = compile_small(one_kernel(network))
    np.testing.assert_allclose(small(x), jax.jit(network)(x), rtol=2e-5, atol=2e-5)


def test_a_scan_over_kernels_equals_calls_one_by_one():
    """To the last bit: many rows at once must say what event by event says."""
    cell = one_kernel(lambda x: network(x)[:48] / 100.0)
    once = compile_small(cell)
    x = jnp.linspace(-1.0, 1.0, 48)

    def leave(x, _):
        after = cell(x)
        return after, after

    together = compile_small(lambda x: jax.lax.scan(leave, x, length=5)[1])(x)
    for row in together:
        x = once(x)
        np.testing.assert_array_equal(x, row)


@pytest.mark.parametrize("marks", [{}, kernel._MARKS])
def test_an_xla_that_cannot_do_it_compiles_as_usual(monkeypatch, marks):
    """With libraries for products of matrices this XLA fails; one that knows no marks ignores them."""
    monkeypatch.setattr(kernel, "_WITHOUT", "")
    monkeypatch.setattr(kernel, "_MARKS", marks)
    x = np.linspace(-1.0, 1.0, 48, dtype=np.float32)
    small = compile_small(one_kernel(network))
    for _ in range(2):
        np.testing.assert_allclose(small(x), jax.jit(network)(x), rtol=2e-5, atol=2e-5)


def test_other_errors_are_not_hidden():
    small = compile_small(one_kernel(network))
    with pytest.raises(TypeError, match="dot_general"):
        small(np.zeros(3, np.float32))
