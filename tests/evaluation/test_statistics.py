"""Statistics over time, models and seeds, each on a case worked out by hand."""

import numpy as np
import pytest
from scipy import stats

from latenttrack.evaluation.records import FIELDS, Records
from latenttrack.evaluation.statistics import (
    calibration_bins,
    ccdf,
    failure_rate,
    pit_ks,
    rank_shares,
    ranks,
    representative_seed,
    seed_scores,
    temporal,
)


def test_temporal_statistics_by_hand():
    """1 ... 199 and one million: floor(200 / 100) = 2 values are trimmed, 199 and the million."""
    values = np.random.default_rng(0).permutation(np.append(np.arange(1.0, 200.0), 1e6))
    found = temporal(values)
    assert found.mean == pytest.approx((199 * 200 / 2 + 1e6) / 200)
    assert found.trimmed == pytest.approx(198 * 199 / 2 / 198)
    assert found.median == pytest.approx(100.5)
    assert found.trimmed_median == pytest.approx(99.5)
    assert found.max == 1e6


def test_few_values_are_not_trimmed():
    assert temporal(np.array([3.0, 1.0, 2.0])).trimmed == pytest.approx(2.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_score_is_the_worst_not_absent(bad):
    found = temporal(np.append(np.ones(199), bad))
    assert found.mean == found.max == np.inf
    assert found.trimmed == found.median == 1.0


def test_ranks_by_hand():
    """Three models, four steps; at the third two tie for the first place, at the fourth one is broken."""
    scores = {
        "a": np.array([1.0, 3.0, 1.0, np.nan]),
        "b": np.array([2.0, 2.0, 1.0, 5.0]),
        "c": np.array([3.0, 1.0, 2.0, 4.0]),
    }
    places = ranks(scores)
    assert {name: place.tolist() for name, place in places.items()} == {
        "a": [1, 3, 1, 3],
        "b": [2, 2, 1, 2],
        "c": [3, 1, 3, 1],
    }
    shares = rank_shares(scores)
    assert shares["a"] == (0.5, 0.5)
    assert shares["b"] == (0.25, 1.0)
    assert shares["c"] == (0.5, 0.5)


def test_failure_rate_by_hand():
    """Above a million has failed, a million has not, and neither has nothing finite been well."""
    assert failure_rate(np.array([1e6, 1.1e6, 3.0, np.inf])) == 0.5
    assert failure_rate(np.array([1.0, 2.0]), threshold=1.5) == 0.5


def test_ccdf_by_hand():
    curve = ccdf(np.array([5.0, 1.0, 3.0, 3.0]))
    assert curve.x.tolist() == [1.0, 3.0, 3.0, 5.0]
    assert curve.y.tolist() == [0.75, 0.5, 0.25, 0.0]


@pytest.mark.parametrize("power", [1, 2])
def test_pit_distance_is_scipys(power):
    pit = np.random.default_rng(0).uniform(size=500) ** power
    assert pit_ks(pit) == pytest.approx(stats.kstest(pit, "uniform").statistic)


def test_pit_distance_by_hand():
    """All mass at 1/2: the distribution functions are 1/2 apart there."""
    assert pit_ks(np.full(10, 0.5)) == pytest.approx(0.5)


def test_calibration_bins_by_hand():
    """Variances 1 ... 100 and squared errors twice as large: the central [1, 99] % are 2 ... 99."""
    variance = np.arange(1.0, 101.0)
    curve = calibration_bins(variance[::-1], 2 * variance[::-1], bins=2)
    assert curve.x.tolist() == pytest.approx([np.arange(2, 51).mean(), np.arange(51, 100).mean()])
    assert curve.y.tolist() == pytest.approx((2 * curve.x).tolist())


def test_representative_seed_by_hand():
    """The median of 1, 2, 9, 10 is 5.5: 9 and 2 are equally near, and the first of them is taken."""
    assert representative_seed(np.array([1.0, 9.0, 2.0, 10.0])) == 1
    assert representative_seed(np.array([7.0])) == 0
    assert representative_seed(np.array([np.inf, 1.0, np.nan])) in (0, 2)  # the median itself is infinite


def test_seed_scores_by_hand():
    """One seed, four steps, the last without a label."""
    nan = np.nan
    steps = {name: np.zeros((1, 4), np.float32) for name in FIELDS}
    steps |= {
        "nll": np.array([[1.0, 2.0, 6.0, nan]]),
        "squared_error": np.array([[0.0, 4.0, 2.0, nan]]),
        "crps": np.array([[0.1, 0.3, 0.2, nan]]),
        "pit": np.array([[0.5, 0.99, 0.05, nan]]),
        "aleatoric": np.full((1, 4), 3.0),
        "epistemic": np.array([[1.0, 1.0, 1.0, 3.0]]),
    }
    records = Records(
        "m", np.arange(4.0), np.zeros(4, int), ("",), "y", np.array([1.0, 1.0, 1.0, nan]), steps
    )
    (row,) = seed_scores(records)
    assert row == pytest.approx(
        {
            "nll_mean": 3.0, "nll_trimmed": 3.0, "nll_median": 2.0, "nll_trimmed_median": 2.0, "nll_max": 6.0,
            "mse_mean": 2.0, "mse_trimmed": 2.0, "mse_median": 2.0, "mse_trimmed_median": 2.0, "mse_max": 4.0,
            "crps_mean": 0.2, "coverage_90": 2 / 3, "pit_ks": row["pit_ks"],
            "epistemic_share": (0.25 * 3 + 0.5) / 4,
        }
    )  # fmt: skip
    assert row["pit_ks"] == pytest.approx(stats.kstest([0.5, 0.99, 0.05], "uniform").statistic)
