"""Rows for a future that is not known: earlier ones, at the same time of the season."""

import numpy as np
import pytest

from latenttrack.filtering.log import Entry, Log
from latenttrack.filtering.stand_ins import StandIns


def full_log(count, capacity=1000, first=0):
    log = Log(capacity)
    for n in range(first, first + count):
        log.append(Entry(n, n, np.array([float(n), n % 24])))
    return log


@pytest.mark.parametrize("first", [0, 7])
def test_each_path_goes_on_as_an_earlier_season_did(first):
    end = first + 110
    stand_ins = StandIns(full_log(110, first=first), 24, 8)
    for number in range(end, end + 100):
        rows = stand_ins.rows(number)
        assert (rows[:, 1] == number % 24).all()
        assert rows[:, 0].max() < end
        # Path s is in the season before path s - 1, four in all.
        assert (np.diff(rows[:4, 0]) == -24).all()
        assert np.array_equal(rows[:4], rows[4:])
        assert end - 24 <= rows[0, 0] < end


def test_without_a_season_the_newest_rows_are_held():
    stand_ins = StandIns(full_log(50), 1, 5)
    for number in (50, 51, 99):
        assert stand_ins.rows(number)[:, 0].tolist() == [49, 48, 47, 46, 49]


def test_a_season_too_long_for_the_log_is_none():
    assert StandIns(full_log(50), 168, 2).rows(60)[:, 0].tolist() == [49, 48]
    assert StandIns(full_log(1), 24, 2).rows(1)[:, 0].tolist() == [0, 0]


def test_a_log_that_has_lost_its_oldest_steps():
    assert StandIns(full_log(100, capacity=30), 24, 2).rows(100)[:, 0].tolist() == [76, 76]
