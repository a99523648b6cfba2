"""Times and rows of a live stream: shown as numpy shows them, read the same in whatever form they come."""

import numpy as np
import pytest

from latenttrack.data.feed import Feed
from latenttrack.errors import LatentTrackError


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


@pytest.mark.parametrize("marks", [(), ((-999.0, None),)])
@pytest.mark.parametrize("source", [None, "b", "elsewhere"])
@pytest.mark.parametrize("kind", [np.float64, np.float32, object])
def test_an_array_says_what_the_same_values_by_name_say(kind, source, marks):
    feed = Feed(("a", "b", "c"), "y", source=source, horizon=1 if source else 0, sentinels=marks)
    for b in (2.5, -999.0, 1e30, np.nan, np.inf, -np.inf):
        values = np.array([1.5, b, -np.inf if b == np.inf else 0.0], kind)
        row, label, flags = feed.row(values)
        named, same, said = feed.row(dict(zip(feed.inputs, values.tolist(), strict=True)))
        np.testing.assert_array_equal([*row, label], [*named, same])
        assert flags == said
        assert row.dtype == np.float64
        values[0] = 7.0  # what was heard stays
        assert row[0] == 1.5


def test_infinite_values_of_both_signs_and_sums_beyond_all_numbers_are_told_apart():
    feed = Feed(("a", "b"), "y")
    assert feed.row(np.array([np.inf, -np.inf]))[2] == ["missing:a", "missing:b"]
    assert feed.row(np.array([1.7e308, 1.7e308]))[2] == []


def test_an_array_of_another_length_is_refused():
    with pytest.raises(LatentTrackError, match=r"x has shape \(2,\)"):
        Feed(("a", "b", "c"), "y").row(np.zeros(2))


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-26T12:00",
        "2024-01-26 12:00:00Z",
        "2024-01-26T13:00+0100",
        "26.01.2024 12:00",
        "26.01.2024 12:00:00",
        "1706270400",
        "1706270400000",
    ],
)
def test_a_time_as_a_file_may_have_it_is_read_in_an_event(text):
    assert Feed(("a",), "y").time(text) == np.datetime64("2024-01-26T12:00", "ns").astype(int)


def test_a_count_since_1970_as_text_is_no_date_without_hyphens():
    assert Feed(("a",), "y").time("1711121000000") == 1711121000 * 10**9


@pytest.mark.parametrize("text", ["", "soon", "26.13.2024 12:00", "9" * 5000])
def test_other_texts_are_no_time(text):
    with pytest.raises(LatentTrackError, match="cannot be read"):
        Feed(("a",), "y").time(text)


def test_times_as_pandas_gives_them():
    pandas, feed = pytest.importorskip("pandas"), Feed(("a",), "y")
    seconds = 1_707_012_000
    expected = feed.time(seconds)
    for same in (np.int64(seconds), np.float64(seconds), pandas.Timestamp(seconds, unit="s")):
        assert feed.time(same) == expected
    for wrong in (pandas.NaT, np.datetime64("NaT"), np.timedelta64(5, "s"), np.bool_(True)):
        with pytest.raises(LatentTrackError, match="cannot be read"):
            feed.time(wrong)
