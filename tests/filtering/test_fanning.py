"""The mixture of sampled paths is what is drawn from them, however far errors lie on one side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.filtering.fanning import fan_of
from latenttrack.filtering.overlap import Overlap
from latenttrack.filtering.program import LEVELS, Program, Units
from latenttrack.models.registry import build
from latenttrack.models.task import Task

PATHS, DRAWS = 200, 100


@pytest.fixture(scope="module", params=["rls", "rls-t", "latent-track"])
def program(request):
    """Normal, Student-t, and a recalibrated mixture."""
    settings = {"recalibrate": True, "K": 8} if request.param == "latent-track" else {}
    tracker = build(request.param, Task(("x",), delay=6), jax.random.key(0), **settings)
    return Program(tracker, 1, Units(3.0, 2.0))


@pytest.fixture(scope="module")
def tracks(program):
    """After some steps, with inputs of its own for each path."""
    track, rng = program.start(), np.random.default_rng(0)
    for n in range(30):
        x = rng.normal(size=1)
        track = program.step(track, program.inputs(x, 3.0 + x[0], x, n))
    inputs = [program.inputs(np.zeros(1), 3.0, rng.normal(size=1), 30) for _ in range(PATHS)]
    return fan_of(program).roll(jnp.tile(track, (PATHS, 1)), np.stack(inputs))


@pytest.mark.parametrize("score", [-4.0, 0.0, 4.0])
@pytest.mark.parametrize("delay", [3, 100])
def test_moments_and_quantiles_are_those_of_the_draws(program, tracks, score, delay):
    overlap = Overlap(np.full(3 * delay, score), delay, PATHS, seed=1)
    fan = fan_of(program)
    mean, sd, *quantiles = fan.mix(tracks, overlap.mean, overlap.sd)
    rng = np.random.default_rng(2)
    drawn = np.array(
        [fan.draw(tracks, overlap.mean + overlap.sd * rng.normal(size=PATHS)) for _ in range(DRAWS)]
    )
    # Rounds are alike, and their spread gives the standard errors; of squares they are all but normal.
    squares = (drawn - drawn.mean()) ** 2
    error, error_of_square = (rounds.mean(axis=1).std() / DRAWS**0.5 for rounds in (drawn, squares))
    assert abs(mean - drawn.mean()) < 5 * error + 1e-3 * drawn.std()
    assert abs(sd**2 - squares.mean()) < 5 * error_of_square + 0.01 * squares.mean()
    shares = [np.mean(drawn <= quantile) for quantile in quantiles]
    np.testing.assert_allclose(shares, LEVELS, atol=0.01)


def test_where_no_errors_are_shared_the_moments_are_the_forecasts_own(program, tracks):
    mean, sd, *_ = fan_of(program).mix(tracks, np.zeros(PATHS), 1.0)
    parts = jax.vmap(program.forecast_of)(tracks)
    means, variances = (
        np.asarray(jax.vmap(lambda p, n=name: getattr(p, n))(parts)) for name in ("mean", "variance")
    )
    assert mean == pytest.approx(3.0 + 2.0 * means.mean(), rel=1e-5)
    assert sd == pytest.approx(2.0 * np.sqrt(variances.mean() + means.var()), rel=1e-5)
