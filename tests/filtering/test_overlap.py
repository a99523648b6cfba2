"""Errors that overlapping horizons share: a moving average of shocks, and no more than that."""

import numpy as np
import pytest

from latenttrack.filtering.overlap import Overlap, neighbours, shock_weights


def moving_average(phi, delay, count, seed=0):
    """(scores [count], weights) of the model itself."""
    weights = phi ** np.arange(delay)
    weights = weights / np.linalg.norm(weights)
    shocks = np.random.default_rng(seed).normal(size=count + delay - 1)
    return np.convolve(shocks, weights, "valid"), weights


@pytest.mark.parametrize(("phi", "delay"), [(1.0, 6), (0.7, 6), (0.4, 3), (0.9, 24), (0.0, 6)])
def test_the_weights_are_found_again(phi, delay):
    scores, weights = moving_average(phi, delay, 50_000)
    found = shock_weights(neighbours(scores, delay), delay)
    np.testing.assert_allclose(found, weights, atol=0.03)
    assert np.linalg.norm(found) == pytest.approx(1.0)


def test_labels_that_never_came_are_left_out():
    scores, weights = moving_average(0.7, 6, 50_000)
    scores[np.random.default_rng(1).uniform(size=len(scores)) < 0.3] = np.nan
    np.testing.assert_allclose(shock_weights(neighbours(scores, 6), 6), weights, atol=0.04)


def test_with_nothing_known_errors_are_those_of_a_random_walk():
    for scores in (np.zeros(0), np.full(1, 0.3), np.full(50, np.nan)):
        overlap = Overlap(scores, 4, 3, 0)
        assert overlap.sd == pytest.approx(0.5)
        assert np.isfinite(overlap.mean).all()


def test_without_overlap_nothing_is_shared():
    overlap = Overlap(moving_average(1.0, 6, 100)[0], 1, 3, 0)
    overlap.push(np.full(3, 2.0))
    assert overlap.sd == 1.0
    assert overlap.mean.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("phi", [1.0, 0.6])
def test_every_single_score_stays_standard_normal(phi):
    """What is shared moves no margin: D steps on mean 0 and variance 1, whatever it began with."""
    S, delay = 20_000, 6
    overlap, rng = Overlap(moving_average(phi, delay, 400)[0], delay, S, 0), np.random.default_rng(3)
    path = []
    for _ in range(3 * delay):
        path.append(overlap.mean + overlap.sd * rng.normal(size=S))
        overlap.push(path[-1])
    far = np.array(path[delay:])
    assert np.abs(far.mean(axis=1)).max() < 5 / np.sqrt(S)
    np.testing.assert_allclose(far.var(axis=1), 1.0, atol=0.06)
    # Correlations along a path are those of the model, and 0 from D on.
    weights = shock_weights(neighbours(moving_average(phi, delay, 400)[0], delay), delay)
    for k in range(1, delay + 2):
        expected = weights[k:] @ weights[: delay - k] if k < delay else 0.0
        assert np.mean(far[-1] * far[-1 - k]) == pytest.approx(expected, abs=0.04)


def test_what_is_known_narrows_what_comes_next():
    """The next score given the ones before, against the exact conditional law of the moving average."""
    delay, S = 6, 20_000
    scores, _ = moving_average(0.8, delay, 3000, seed=2)
    overlap = Overlap(scores, delay, S, 0)
    rng = np.random.default_rng(0)
    drawn = overlap.mean + overlap.sd * rng.normal(size=S)
    weights = shock_weights(neighbours(scores, delay), delay)
    lags = np.array([weights[k:] @ weights[: delay - k] if k < delay else 0.0 for k in range(3 * delay + 1)])
    K = lags[np.abs(np.subtract.outer(np.arange(3 * delay), np.arange(3 * delay)))] + 0.1 * np.eye(3 * delay)
    gain = np.linalg.solve(K, lags[np.arange(3 * delay, 0, -1)])
    assert drawn.mean() == pytest.approx(gain @ scores[-3 * delay :], abs=0.05)
    assert drawn.var() == pytest.approx(1.0 - gain @ lags[np.arange(3 * delay, 0, -1)], abs=0.05)
    assert drawn.var() < 0.7


def test_a_fault_is_not_the_news_of_the_century():
    wild, _ = moving_average(0.8, 6, 500)
    wild[-1] = 1e6
    overlap = Overlap(wild, 6, 100, 0)
    assert np.abs(overlap.mean).max() < 6.0
    overlap.push(np.full(100, -1e6))
    overlap.push(np.full(100, np.nan))  # not known: as expected
    assert np.abs(overlap.mean).max() < 6.0


def test_a_delay_of_thousands_takes_no_time():
    overlap = Overlap(moving_average(0.9, 6, 900)[0], 5000, 2, 0)
    assert np.isfinite(overlap.mean).all()
