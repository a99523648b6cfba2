"""Calibration: PIT histograms and coverage, on PIT values with a known distribution."""

import numpy as np
import pytest

from latenttrack.evaluation.calibration import BINS, LEVELS, calibration
from latenttrack.evaluation.records import FIELDS, Records


def records(pit, y=None):
    pit = np.atleast_2d(pit)
    n = pit.shape[1]
    y = np.zeros(n) if y is None else y
    return Records("m", np.arange(float(n)), np.zeros(n, np.int32), ("",), "y", y, dict.fromkeys(FIELDS, pit))


def test_evenly_spread_pit_is_calibrated():
    found = calibration(records((np.arange(2000) + 0.5) / 2000))
    np.testing.assert_allclose(found.histogram, np.ones(BINS))
    np.testing.assert_allclose(found.coverage, LEVELS)
    assert found.steps == 2000


def test_too_wide_forecasts():
    """PIT evenly spread over the middle half: density 2 there, intervals cover twice what they promise."""
    found = calibration(records(0.25 + (np.arange(2000) + 0.5) / 4000))
    np.testing.assert_allclose(found.histogram, np.repeat([0.0, 2.0, 0.0], [5, 10, 5]))
    np.testing.assert_allclose(found.coverage, np.minimum(2 * np.array(LEVELS), 1), atol=1e-3)


def test_broken_steps_are_in_no_bin_and_unlabelled_ones_do_not_count():
    pit = np.array([[0.5, np.nan, np.nan], [0.5, 0.5, np.nan]])
    found = calibration(records(pit, y=np.array([0.0, 0.0, np.nan])))
    assert found.steps == 2
    assert found.histogram.sum() == pytest.approx(BINS * 3 / 4)
    np.testing.assert_allclose(found.coverage, 0.75)
