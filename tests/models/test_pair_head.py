"""Two Student-t for each draw: how far they lie apart is noise, however forecasts are joined and bent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.models.components import StudentT, join
from latenttrack.models.heads import StudentTPairHead
from latenttrack.models.predictive import Predictive
from latenttrack.models.registry import build
from latenttrack.models.task import Task
from latenttrack.models.transformed import Curve, TransformedPredictive, fit_transform

RAW = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)), jnp.float32)
LABELS = np.random.default_rng(1).gamma(2.0, size=1000)
CURVE = Curve(**fit_transform("log", LABELS, LABELS.mean(), LABELS.std()))


def flat(components):
    """The same distributions, each for itself."""
    return StudentT(components.loc, components.scale, components.df)


def check_split(forecast, plain, draws, rtol=1e-5):
    """Mean and variance are those of all components; ignorance is the variance of the draws' means."""
    np.testing.assert_allclose(forecast.mean, plain.mean, rtol=1e-5)
    np.testing.assert_allclose(forecast.variance, plain.variance, rtol=1e-5)
    np.testing.assert_allclose(forecast.epistemic, np.var([d.mean for d in draws]), rtol=rtol)
    np.testing.assert_allclose(forecast.aleatoric, np.mean([d.variance for d in draws]), rtol=rtol)


def test_the_split_of_the_variance():
    draws = [Predictive.equal(flat(StudentTPairHead()(row[None]))) for row in RAW]
    emission = StudentTPairHead()(RAW)
    check_split(Predictive.equal(emission), Predictive.equal(flat(emission)), draws)


def test_the_split_after_a_move_beside_others_and_pool_by_pool():
    """Two lists of pairs after one another, as in a pool, moved, and a distribution of another kind."""
    one, two = (StudentTPairHead()(rows) for rows in (RAW[:2], RAW[2:4]))
    other = StudentT(jnp.array([0.3]), jnp.array([2.0]), jnp.array([5.0]))
    pool = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), one, two)
    moved = join([pool, other]).affine(jnp.float32(2.0), jnp.float32(3.0))
    weights = jnp.log(jnp.array([0.1] * 8 + [0.2]))
    plain = join([flat(pool), other]).affine(jnp.float32(2.0), jnp.float32(3.0))
    forecast = Predictive(moved, weights)
    np.testing.assert_allclose(forecast.variance, Predictive(plain, weights).variance, rtol=1e-5)
    means = [3.0 * float(p.loc[i] + p.loc[i + 2]) / 2 + 2.0 for p in (one, two) for i in range(2)]
    means, share = np.array([*means, 2.9]), np.array([0.2] * 5)
    np.testing.assert_allclose(forecast.epistemic, share @ (means - share @ means) ** 2, rtol=1e-5)


def test_the_split_of_bent_labels():
    emission = StudentTPairHead()(0.3 * RAW)
    draws = [Predictive.equal(flat(StudentTPairHead()(0.3 * row[None]))) for row in RAW]
    bent = [TransformedPredictive.of(Predictive.equal(c), CURVE) for c in (emission, flat(emission))]
    # Variances of bent labels are exact to one part in thirty, and each draw has a grid of its own.
    check_split(*bent, [TransformedPredictive.of(d, CURVE) for d in draws], rtol=1 / 30)


@pytest.mark.parametrize("name", ["gru", "lt-deterministic"])
def test_without_draws_nothing_is_ignorance(name):
    tracker = build(name, Task(("a", "b")), jax.random.key(0), head="student-t-pair")
    forecast = tracker.predict(tracker.init(), jnp.ones(2), jax.random.key(1))
    assert float(forecast.epistemic) == pytest.approx(0.0, abs=1e-12)
    assert float(forecast.aleatoric) == pytest.approx(
        float(Predictive.equal(flat(forecast.components)).variance)
    )
