"""KL divergences and the latent's linear heads."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from latenttrack.models.gaussian import LOG_SD_RANGE, DiagonalGaussian, GaussianLayer, kl_divergence

EPS = float(np.finfo(np.float32).eps)
numbers = st.floats(-3, 3, width=32)


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=3, max_size=3))
def test_kl_is_the_closed_form(rows):
    """Sum of log(s_p / s_q) + (s_q^2 + (m_q - m_p)^2) / (2 s_p^2) - 1/2, in double precision."""
    m_q, l_q, m_p, l_p = np.array(rows, np.float32).T
    found = kl_divergence(
        DiagonalGaussian(jnp.asarray(m_q), jnp.asarray(l_q)),
        DiagonalGaussian(jnp.asarray(m_p), jnp.asarray(l_p)),
    )
    s_q, s_p = np.exp(l_q.astype(float)), np.exp(l_p.astype(float))
    terms = np.log(s_p / s_q) + (s_q**2 + (m_q.astype(float) - m_p) ** 2) / (2 * s_p**2) - 0.5
    size = np.sum(np.abs(np.log(s_p / s_q)) + (s_q**2 + (m_q.astype(float) - m_p) ** 2) / (2 * s_p**2) + 0.5)
    assert float(found) == pytest.approx(terms.sum(), abs=32 * EPS * size)
    assert float(found) >= -32 * EPS * size


def test_kl_is_the_integral():
    q, p = stats.norm(0.4, 0.7), stats.norm(-0.3, 1.2)
    expected, error = integrate.quad(lambda z: q.pdf(z) * (q.logpdf(z) - p.logpdf(z)), -8, 8, epsabs=1e-10)

    def one(d):
        return DiagonalGaussian(jnp.full(1, d.mean(), jnp.float32), jnp.full(1, np.log(d.std()), jnp.float32))

    assert error < 1e-8
    assert float(kl_divergence(one(q), one(p))) == pytest.approx(expected, rel=32 * EPS)


def test_kl_of_equals_is_zero():
    q = DiagonalGaussian(jnp.array([0.3, -2.0]), jnp.array([-1.0, 2.0]))
    assert float(kl_divergence(q, q)) == 0.0


def test_draws_are_reparameterised():
    q = DiagonalGaussian(jnp.array([1.0, -2.0]), jnp.log(jnp.array([0.5, 3.0])))
    np.testing.assert_allclose(q.at(jnp.array([[0.0, 0.0], [2.0, -1.0]])), [[1, -2], [2, -5]], rtol=8 * EPS)
    gradient = jax.jacobian(lambda log_sd: DiagonalGaussian(q.mean, log_sd).at(jnp.array([2.0, -1.0])))(
        q.log_sd
    )
    np.testing.assert_allclose(gradient, np.diag([1.0, -3.0]), rtol=8 * EPS)


def test_head_is_linear_and_its_log_sd_is_clipped():
    head = GaussianLayer(3, 2, log_sd=-1.0, key=jax.random.key(0))
    np.testing.assert_array_equal(head.linear.bias, [0, 0, -1, -1])
    x = jnp.array([0.2, -0.1, 0.4])
    raw = head.linear.weight @ x
    np.testing.assert_allclose(head(x).mean, raw[:2], rtol=8 * EPS, atol=EPS)
    np.testing.assert_allclose(head(x).log_sd, raw[2:] - 1.0, rtol=8 * EPS)
    low, high = LOG_SD_RANGE
    assert (head(1e6 * x).log_sd >= low).all()
    assert (head(1e6 * x).log_sd <= high).all()
    assert set(np.asarray(head(1e6 * x).log_sd)) <= {np.float32(low), np.float32(high)}
