"""The drift alarm: as rare as promised while the forecasts are right, soon when they are not."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from latenttrack.errors import LatentTrackError
from latenttrack.filtering.alarm import Alarm

PERIOD = 300


def uniform(rng, n, delay):
    """PITs of right forecasts: errors D steps ahead are sums of D shocks, so that neighbours overlap."""
    shocks = np.cumsum(np.concatenate([[0.0], rng.normal(size=n + delay - 1)]))
    return ndtr((shocks[delay:] - shocks[:-delay]) / math.sqrt(delay))


def time_of_alarms(alarm, pits):
    return [step for step, pit in enumerate(pits.tolist()) if alarm.hear(pit, step)]


@pytest.mark.parametrize("delay", [1, 6])
def test_false_alarms_are_as_rare_as_promised(delay):
    """The mean time between two is at least the period, within three standard errors."""
    steps = 150_000
    alarms = time_of_alarms(Alarm(delay, PERIOD), uniform(np.random.default_rng(delay), steps, delay))
    times = np.diff([0, *alarms])
    assert len(times) > 30
    assert times.mean() > PERIOD - 3.0 * times.std() / math.sqrt(len(times))
    # Not so rare that it could never sound: within a factor of a few, the bound is used.
    assert times.mean() < 12 * PERIOD


def test_gamblers_that_all_see_the_same():
    """The worst dependence that the bound allows: D equal PITs in a row."""
    delay, rounds = 6, 20_000
    pits = np.repeat(np.random.default_rng(0).uniform(size=rounds), delay)
    times = np.diff([0, *time_of_alarms(Alarm(delay, PERIOD), pits)])
    assert times.mean() > PERIOD - 3.0 * times.std() / math.sqrt(len(times))


@pytest.mark.parametrize("delay", [1, 6])
@pytest.mark.parametrize(("scale", "bias", "soon"), [(1.5, 0.0, 150), (1.0, 0.7, 130), (0.5, 0.0, 130)])
def test_a_change_is_noticed(delay, scale, bias, soon):
    """Errors that are wider, off centre or narrower than said; with delay D each gambler hears one in D."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        before = uniform(rng, 500, delay)
        after = ndtr(scale * ndtri(uniform(rng, 4000, delay)) + bias)
        alarm = Alarm(delay, 10_000)
        alarms = [t - 500 for t in time_of_alarms(alarm, np.concatenate([before, after])) if t >= 500]
        assert alarms
        found.append(alarms[0])
    assert np.median(found) < soon * delay


def test_labels_may_be_missing_and_come_in_any_order():
    """Whose turn it is depends on the step, not on how many were heard."""
    one, two = Alarm(3, 100), Alarm(3, 100)
    pits = np.random.default_rng(1).uniform(size=9)
    for step in range(9):
        one.hear(pits[step], step)
        one.hear(math.nan, step)
    for step in (0, 2, 1, 3, 5, 4, 6, 7, 8):
        two.hear(pits[step], step)
    np.testing.assert_array_equal(one.capital, two.capital)


def test_off_and_wrong_periods():
    silent = Alarm(1, 0)
    assert not any(silent.hear(1.0, step) for step in range(1000))
    for period in (-1, math.nan, "often", True):
        with pytest.raises((LatentTrackError, TypeError)):
            Alarm(1, period)


def test_it_is_kept():
    alarm = Alarm(2, 50)
    for step in range(30):
        alarm.hear(0.9, step)
    twin = Alarm(2, 50)
    twin.restore(alarm.to_dict())
    assert [alarm.hear(0.99, s) for s in range(30, 60)] == [twin.hear(0.99, s) for s in range(30, 60)]
    assert alarm.raised == twin.raised > 0
