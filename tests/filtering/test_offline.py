"""The offline filter: continuing a past, the order of rows, units, seeds and recorders."""

import dataclasses

import jax
import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.filtering.offline import filter_series
from latenttrack.models.registry import build
from latenttrack.models.task import Task

EPS = float(np.finfo(np.float32).eps)
KEY = jax.random.key(0)
SMALL = {"hidden_size": 4, "latent_size": 2, "encoder_size": 3, "features": 3, "predictor": (3,), "K": 8}
# The same arithmetic in programs that are fused differently: roundings of a few dozen operations a step.
CLOSE = {"rtol": 1e3 * EPS, "atol": 1e2 * EPS}


def _tracker(series, name="lt-unstructured", seed=0):
    settings = SMALL if name.startswith("lt") else {}
    return build(name, Task.of(series), jax.random.key(seed), **settings)


@pytest.fixture(scope="module", params=["lt-unstructured", "rls", "last-label"])
def name(request):
    return request.param


@pytest.mark.parametrize("delay", [1, 4])
def test_continuing_a_past_is_filtering_the_whole(make_series, as_stack, name, delay):
    """One cut in time through three streams, of which one begins late and one ends early."""
    series = make_series((30, 12, 25), delay=delay)
    time = series.time.copy()
    time[30:42] += 15  # the second stream has 3 of its 12 steps before the cut
    y = series.y.copy()
    y[[4, 17, 35, 50]] = np.nan
    series = dataclasses.replace(series, time=time, y=y)
    stack = as_stack(_tracker(series, name))
    before = series.time < 18
    past, late = series.select(before), series.select(~before)
    whole = filter_series(stack, series, KEY)
    continued = filter_series(stack, late, KEY, past=past)
    for field in whole._fields:
        found, expected = getattr(continued, field), getattr(whole, field)[:, ~before]
        assert found.shape == (1, (~before).sum())
        np.testing.assert_allclose(found, expected, **CLOSE)
    if name != "lt-unstructured":  # whose untrained forecasts hardly depend on the past
        fresh = filter_series(stack, late, KEY)
        assert np.abs(fresh.mean - continued.mean).max() > 0.1


def test_rows_come_back_in_the_order_of_the_series(make_series, as_stack):
    """A forecast that names its row: RLS without labels repeats nothing, so record the label itself."""
    series = make_series((7, 12, 3))
    stack = as_stack(_tracker(series, "rls"))
    found = filter_series(
        stack, series, KEY, record=lambda predictive, y: {"label": y, "mean": predictive.mean}
    )
    np.testing.assert_array_equal(found["label"][0], series.y.astype(np.float32))


def test_a_key_without_rows_is_no_trouble(make_series, as_stack):
    series = make_series((7, 5))
    only = series.select(series.key == 1)
    stack = as_stack(_tracker(series, "rls"))
    np.testing.assert_allclose(
        filter_series(stack, only, KEY).mean, filter_series(stack, series, KEY).mean[:, 7:], **CLOSE
    )


@pytest.mark.parametrize("name", ["lt-unstructured", "rls-t"])
def test_units_are_the_labels_own(make_series, as_stack, name):
    """y = loc + scale * standardised y: means move, variances grow by scale^2, NLL by log(scale)."""
    plain = make_series((25,))
    scaled = dataclasses.replace(plain, y_loc=-40.0, y_scale=8.0)
    stack = as_stack(_tracker(plain, name))
    a, b = filter_series(stack, plain, KEY), filter_series(stack, scaled, KEY)
    np.testing.assert_allclose(b.mean, -40.0 + 8.0 * a.mean, rtol=1e2 * EPS)
    np.testing.assert_allclose(b.aleatoric, 64.0 * a.aleatoric, rtol=1e2 * EPS)
    # means around -40 are rounded before their differences are squared
    np.testing.assert_allclose(b.epistemic, 64.0 * a.epistemic, rtol=1e-3, atol=(1e2 * EPS * 40) ** 2)
    np.testing.assert_allclose(-b.log_prob, -a.log_prob + np.log(8.0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(b.pit, a.pit, atol=1e-4)


def test_seeds_are_filtered_alone(make_series, as_stack):
    series = make_series((20,))
    trackers = [_tracker(series, seed=s) for s in range(3)]
    together = filter_series(as_stack(*trackers), series, KEY).mean
    assert together.shape == (3, 20)
    for seed, tracker in enumerate(trackers):
        np.testing.assert_allclose(
            together[seed], filter_series(as_stack(tracker), series, KEY).mean[0], **CLOSE
        )
    assert np.abs(together[0] - together[1]).max() > 1e-3


def test_random_draws_follow_the_key_seed_and_step(make_series, as_stack):
    series = make_series(
        (20,), x=np.zeros((20, 3)), y=np.full(20, np.nan)
    )  # every step poses the same question
    tracker = build("lt-unstructured", Task.of(series), KEY, draws="independent", **SMALL)
    stack = as_stack(tracker, tracker)
    first = filter_series(stack, series, KEY).mean
    np.testing.assert_array_equal(first, filter_series(stack, series, KEY).mean)
    assert not np.array_equal(first, filter_series(stack, series, jax.random.key(1)).mean)
    assert len(np.unique(first)) == first.size  # other draws at every step of every seed


@pytest.mark.parametrize(
    "change",
    [{"delay": 2}, {"names": ("a", "b", "c")}, {"keys": ("other",)}, {"y_loc": 3.0}, {"y_scale": 2.0}],
    ids=lambda change: next(iter(change)),
)
def test_a_past_of_another_stream_is_refused(make_series, as_stack, change):
    series = make_series((20,))
    past, late = series.split(0.5)
    with pytest.raises(LatentTrackError, match="prepare both with the same pipeline"):
        filter_series(as_stack(_tracker(series, "rls")), late, KEY, past=dataclasses.replace(past, **change))


def test_a_past_that_is_not_past_is_refused(make_series, as_stack):
    """The label of a later row must not be folded in first."""
    series = make_series((20,))
    past, late = series.split(0.5)
    with pytest.raises(LatentTrackError):
        filter_series(as_stack(_tracker(series, "rls")), past, KEY, past=late)
