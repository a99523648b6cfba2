"""The newest part of the training data, by which a network is judged."""

import functools

import jax
import numpy as np
import pytest

from latenttrack.filtering.offline import filter_series
from latenttrack.models.corrected import Corrected
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task
from latenttrack.models.use import in_use
from latenttrack.training.validation import nll_in_use, validation_tail

SIZES = {"hidden_size": 4, "encoder_size": 4, "predictor": (3,), "summary_dropout": 0.5}


@pytest.mark.parametrize("delay", [1, 3])
def test_a_network_is_judged_as_it_is_used(delay, make_series, as_stack):
    """NLL of the tail == that of the corrected filter on it, after the older part."""
    y = make_series((300,)).y.copy()
    y[[150, 260]] = np.nan
    series = make_series((300,), y=y, delay=delay)
    past, future = series.split(0.8)
    make = functools.partial(build, "gru", Task.of(series), **SIZES)
    network = build_stack(make, jax.random.split(jax.random.key(0), 1))[0]

    tail = validation_tail(series, future.time[0], lambda window: (window, np.zeros(window.y.shape)))
    found = nll_in_use(network, tail, delay, jax.random.key(1))

    corrected = Corrected(in_use(network), series.x.shape[1], delay)
    records = filter_series(as_stack(corrected), future, jax.random.key(1), past=past, trained=True)
    # The tail knows labels in units of the training part's, and so does the filter.
    expected = -records.log_prob[0][~np.isnan(future.y)] - np.log(series.y_scale)
    # Of the last D - 1 steps no label is known when the training part ends.
    np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-4, atol=1e-4)
    assert len(found) == len(expected) - (delay - 1)
