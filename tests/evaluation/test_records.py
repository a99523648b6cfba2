"""A row of the table, worked out by hand."""

import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import FIELDS, Records, summarise


def _records(**changes):
    """Two seeds, four steps, the third without a label."""
    nan = np.nan
    steps = {
        "mean": np.zeros((2, 4)),
        "aleatoric": np.array([[1.0, 1.0, 9.0, 1.0], [3.0, 3.0, 9.0, 3.0]]),
        "epistemic": np.array([[0.5, 0.5, 9.0, 0.5], [0.5, 0.5, 9.0, 0.5]]),
        "lower": np.full((2, 4), -1.0),
        "upper": np.full((2, 4), 1.0),
        "nll": np.array([[1.0, 2.0, nan, 3.0], [4.0, 5.0, nan, 6.0]]),
        "squared_error": np.array([[0.0, 1.0, nan, 2.0], [3.0, 4.0, nan, 8.0]]),
        "crps": np.array([[0.1, 0.2, nan, 0.3], [0.4, 0.5, nan, 0.9]]),
        "pit": np.array([[0.05, 0.96, nan, 0.5], [0.04, 0.95, nan, 0.2]]),
    }
    fields = {
        "model": "m",
        "time": np.arange(4.0),
        "key": np.zeros(4, int),
        "keys": ("",),
        "target": "y",
        "y": np.array([1.0, 2.0, nan, 4.0]),
        "steps": steps,
        "parameters": 7,
        "microseconds": 3.5,
    }
    return Records(**(fields | changes))


def test_summary_by_hand():
    """Scores over the six labelled steps, of which 4 lie inside the 90 % interval, its ends included.

    The epistemic share is the mean over all eight steps: three of 1/3, three of 1/7, two of 1/2.
    """
    records = _records()
    assert set(records.steps) == set(FIELDS)
    assert records.seeds == 2
    summary = summarise(records)
    assert summary.model == "m"
    assert summary.nll == pytest.approx(3.5)
    assert summary.mse == pytest.approx(3.0)
    assert summary.crps == pytest.approx(0.4)
    assert summary.coverage_90 == pytest.approx(4 / 6)
    assert summary.epistemic_share == pytest.approx((3 / 3 + 3 / 7 + 2 / 2) / 8)
    assert (summary.parameters, summary.microseconds) == (7, 3.5)


def test_one_bad_seed_is_not_hidden():
    records = _records()
    records.steps["nll"][1, 0] = np.inf
    assert summarise(records).nll == np.inf


def test_without_any_label_there_is_nothing_to_summarise():
    with pytest.raises(LatentTrackError, match="no step has a label of 'y'"):
        summarise(_records(y=np.full(4, np.nan)))
