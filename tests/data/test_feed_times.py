"""Times of a live stream: shown as numpy shows them, whatever the date."""

import numpy as np

from latenttrack.data.feed import Feed


def test_times_are_shown_as_numpy_shows_them():
    feed = Feed(("a",), "y")
    rng = np.random.default_rng(0)
    for time in (0, -1, 999, -1000, 10**18, *rng.integers(-(9 * 10**18), 9 * 10**18, 300).tolist()):
        assert feed.show(time) == str(np.datetime64(time, "ns").astype("datetime64[us]"))


def test_a_row_of_floats_and_a_row_of_other_numbers_say_the_same():
    feed = Feed(("a", "b", "c", "d"), "y", sentinels=((-999.0, None),))
    floats = {"a": 1.0, "b": float("nan"), "c": -999.0, "d": float("inf")}
    others = {"a": 1, "b": None, "c": -999, "d": np.float32("inf")}
    (row, _, flags), (again, _, same) = feed.row(floats), feed.row(others)
    np.testing.assert_array_equal(row, again)
    assert row.dtype == np.float64
    assert flags == same == ["missing:b", "missing:c", "missing:d"]
