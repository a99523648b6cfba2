from pathlib import Path

import numpy as np
import pytest

from latenttrack.data import read_table, to_series
from latenttrack.data.feed import Feed
from latenttrack.errors import LatentTrackError

SHARED = Path(__file__).parents[3] / "shared" / "data"


def hours(*offsets):
    return np.datetime64("2020-01-01", "ns") + np.array(offsets) * np.timedelta64(1, "h")


def table(**changes):
    columns = {"when": hours(0, 1, 2, 3, 4), "load": [1.0, 2, 3, 4, 5], "temp": [10.0, 20, -9999, 40, 50]}
    return read_table({k: v for k, v in (columns | changes).items() if v is not None})


def test_defaults():
    series = to_series(table(), target="load")
    assert series.names == ("temp",)
    assert series.y.tolist() == [1, 2, 3, 4, 5]
    assert (series.delay, series.period, series.target, series.keys) == (1, 24, "load", ("",))
    np.testing.assert_array_equal(series.time, hours(0, 1, 2, 3, 4))


def test_horizon_shifts_the_target_and_lets_its_present_in():
    series = to_series(table(), target="load", horizon=2)
    assert series.names == ("load", "temp")
    np.testing.assert_array_equal(series.y, [3, 4, 5, np.nan, np.nan])
    np.testing.assert_array_equal(series.x[:, 0], [1, 2, 3, 4, 5])
    assert series.delay == 2
    assert to_series(table(), target="load", horizon=2, delay=1).delay == 1


def test_horizon_beyond_the_end_leaves_no_label():
    assert np.isnan(to_series(table(), target="load", horizon=9).y).all()


def test_keys_are_grouped_and_never_mixed():
    mixed = table(when=hours(0, 0, 1, 1, 2), site=["b", "a", "b", "a", "b"])
    series = to_series(mixed, target="load", key="site", horizon=1)
    assert series.keys == ("b", "a")
    assert series.key.tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_array_equal(series.y, [3, 5, np.nan, 4, np.nan])
    numbered = to_series(table(site=[7, 7, 7, 8, 8], when=None), target="load", key="site")
    assert numbered.keys == ("7", "8")
    assert numbered.names == ("temp",)
    assert numbered.time.tolist() == [0, 1, 2, 0, 1]


def test_sentinels_become_missing_before_anything_else():
    series = to_series(table(), target="temp", horizon=1, sentinels=(-9999,), features=["temp"])
    single = to_series(table(), target="temp", horizon=1, sentinels=-9999, features="temp")
    assert single.names == ("temp",)
    np.testing.assert_array_equal(single.x, series.x)
    np.testing.assert_array_equal(series.x[:, 0], [10, 20, np.nan, 40, 50])
    np.testing.assert_array_equal(series.y, [20, np.nan, 40, 50, np.nan])


def test_infinite_values_are_missing():
    infinite = table(temp=[1, 2, np.inf, 4, 5], load=[1, 2, 3, -np.inf, 5])
    series = to_series(infinite, target="load")
    assert np.flatnonzero(np.isnan(series.x[:, 0])) == [2]
    assert np.flatnonzero(np.isnan(series.y)) == [3]


def test_grid_fills_gaps_so_that_steps_mean_time():
    gap = table(when=hours(0, 1, 2, 5, 6))
    series = to_series(gap, target="load", horizon=1, grid=True)
    np.testing.assert_array_equal(series.time, hours(*range(7)))
    np.testing.assert_array_equal(series.x[:, 0], [1, 2, 3, np.nan, np.nan, 4, 5])
    np.testing.assert_array_equal(series.y, [2, 3, np.nan, np.nan, 4, 5, np.nan])
    np.testing.assert_array_equal(to_series(gap, target="load", horizon=1).y, [2, 3, 4, 5, np.nan])


def test_grid_keeps_each_key_to_its_own_span():
    keyed = table(when=hours(0, 1, 7, 8, 10), site=["a", "a", "b", "b", "b"])
    series = to_series(keyed, target="load", key="site", grid=True)
    np.testing.assert_array_equal(series.time, hours(0, 1, 7, 8, 9, 10))
    assert series.key.tolist() == [0, 0, 1, 1, 1, 1]
    np.testing.assert_array_equal(series.y, [1, 2, 3, 4, np.nan, 5])


def test_clockless_tables_count_steps():
    series = to_series(table(when=None), target="load")
    assert series.time.tolist() == [0, 1, 2, 3, 4]
    assert series.period is None
    assert to_series(table(when=None), target="load", period=12).period == 12
    assert not to_series(table(), target="load", time=False).has_clock


def test_numbers_named_as_time_are_seconds_since_1970():
    series = to_series(table(when=1577836800.25 + 60 * np.arange(5)), target="load", time="when")
    assert series.time[1] == np.datetime64("2020-01-01T00:01:00.250")
    assert series.period == 1440


@pytest.mark.parametrize("per_second", [1, 10**3, 10**6, 10**9])
def test_counts_since_1970_mean_the_same_in_a_file_and_in_an_event(per_second):
    when = (1704067200 + 3600 * np.arange(5)) * per_second
    series = to_series(table(when=when), target="load", time="when")
    assert series.time[1] == np.datetime64("2024-01-01T01:00")
    feed = Feed(("temp",), "load")
    assert [feed.time(number) for number in when.tolist()] == series.time.astype(int).tolist()


@pytest.mark.parametrize("number", [9.3e9, -5e10, 9.3e12, 9.3e15, 9.3e18, 1e300])
def test_counts_that_fit_no_unit_are_refused_in_a_file_and_in_an_event(number):
    with pytest.raises(LatentTrackError, match=r"'when' holds .* in row 1, and not all .* write times like"):
        to_series(table(when=number + np.arange(5)), target="load", time="when")
    with pytest.raises(LatentTrackError, match="cannot be read: write it like"):
        Feed(("temp",), "load").time(number)


@pytest.mark.parametrize(
    ("minutes", "period"),
    [(60, 24), (10, 144), (30, 48), (15, 96), (720, 2), (1440, 7), (20 * 60, None), (10080, None)],
)
def test_period_is_a_day_or_a_week_of_days(minutes, period):
    when = np.datetime64("2020-01-01", "ns") + np.arange(5) * np.timedelta64(minutes, "m")
    assert to_series(table(when=when), target="load").period == period


BAD = {
    "unknown target": (
        {},
        {"target": "laod"},
        r"no column 'laod' \(did you mean 'load'\?\).*'when', 'load', 'temp'",
    ),
    "unknown feature": ({}, {"features": ["Temp"]}, r"no column 'Temp' \(did you mean 'temp'\?\)"),
    "unknown time": ({}, {"time": "then"}, "no column 'then'"),
    "unknown key": ({}, {"key": "site"}, "no column 'site'"),
    "text target": ({"load": ["1", "2", "up", "4", "5"]}, {}, "'load' is not numeric: it holds 'up'"),
    "text feature": (
        {"temp": ["1", "", "3", "x", "5"]},
        {"features": ["temp"]},
        "'temp' is not numeric.*'x'",
    ),
    "time as feature": ({}, {"features": ["when"]}, "'when' holds times"),
    "answer as feature": ({}, {"features": ["load"]}, "'load' is also a feature"),
    "unsorted": (
        {"when": hours(0, 2, 1, 3, 4)},
        {},
        "'when' are not sorted: 2020-01-01T01:00:00 comes after",
    ),
    "duplicate": (
        {"when": hours(0, 1, 1, 3, 4)},
        {},
        "'when' are not unique: 2020-01-01T01:00:00 occurs twice",
    ),
    "two clocks": ({"then": hours(0, 1, 2, 3, 4)}, {}, "several time columns.*'when', 'then'.*name one"),
    "odd time": ({"when": ["2020-01-01", "", "soon", "", ""]}, {"time": "when"}, "'when' holds 'soon'"),
    "ambiguous dates": (
        {"when": [f"0{day}/02/2020" for day in range(1, 6)]},
        {"time": "when"},
        "'when' holds dates such as '01/02/2020', of which it cannot be told .* write them like 2013-01-31",
    ),
    "ambiguous dates, not named": (
        {"when": [f"0{day}/02/2020 12:00" for day in range(1, 6)]},
        {},
        "'when' holds dates such as '01/02/2020 12:00'",
    ),
    "odd time among dates": (
        {"when": ["01/02/2020", "13/02/2020", "soon", "", ""]},
        {"time": "when"},
        "'when' holds 'soon' in row 3",
    ),
    "no time": ({"when": ["2020-01-01", "", "2020-01-03", "", ""]}, {}, "'when' is empty in row 2"),
    "no number": ({"when": [0, np.nan, 2, 3, 4]}, {"time": "when"}, "'when' has no number in row 2"),
    "two units": (
        {"when": [1704067200, 1704070800, 1704074400000, 1704078000, 1704081600]},
        {"time": "when"},
        "'when' holds 1704074400000 in row 3, and not all of its numbers count seconds",
    ),
    "years": ({"when": np.arange(1400, 1405)}, {"time": "when"}, "such as 1400, which look like years"),
    "dates": ({"when": [20240129, 20240130, 20240131, 20240201, 20240202]}, {"time": "when"}, "or dates"),
    "no key": ({"site": ["a", "a", "", "b", "b"]}, {"key": "site"}, "'site' is empty in row 3"),
    "infinite sentinel": ({}, {"sentinels": np.inf}, "a sentinel is not finite: leave it out"),
    "horizon": ({}, {"horizon": -1}, "horizon is -1"),
    "half a horizon": ({}, {"horizon": 1.5}, "horizon is 1.5.*whole"),
    "delay": ({}, {"delay": 0}, "delay is 0"),
    "grid, no clock": ({"when": None}, {"grid": True}, "grid needs a time column"),
    "off grid": (
        {"when": hours(0, 1, 2, 3, 4) + np.array([0, 0, 0, 0, 7], "m8[m]")},
        {"grid": True},
        "04:07:00 lies off",
    ),
    "sparse grid": ({"when": hours(0, 1, 2, 3, 4000)}, {"grid": True}, "of these 5 rows would need 4001"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    columns, arguments, message = BAD[case]
    with pytest.raises(LatentTrackError, match=message):
        to_series(table(**columns), **{"target": "load"} | arguments)


def test_what_read_table_reads_can_be_given_directly():
    columns = {"load": [1.0, 2.0, 3.0], "temp": [4.0, 5.0, 6.0]}
    direct, read = (to_series(source, target="load") for source in (columns, read_table(columns)))
    assert direct.names == read.names == ("temp",)
    np.testing.assert_array_equal(direct.x, read.x)
    with pytest.raises(LatentTrackError, match="no file nowhere"):
        to_series("nowhere.csv", target="load")


def test_duplicates_name_their_key():
    keyed = table(when=hours(0, 1, 0, 0, 1), site=["a", "a", "b", "b", "b"])
    with pytest.raises(LatentTrackError, match="of key 'b' are not unique: 2020-01-01T00:00:00"):
        to_series(keyed, target="load", key="site")


def shared(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not on this machine")
    return read_table(path)


def test_jena_2020():
    weather = shared("jena_weather_2020.csv.gz")
    assert len(weather) == 52_696
    assert len(weather.columns) == 22
    with pytest.raises(LatentTrackError, match="'date' are not unique: 2020-05-12T06:00:00"):
        to_series(weather, target="T (degC)")
    first = np.unique(weather.columns["date"], return_index=True)[1]
    unique = read_table({name: column[first] for name, column in weather.columns.items()})
    series = to_series(unique, target="T (degC)", horizon=6, sentinels=(-9999,), grid=True)
    assert series.period == 144
    assert np.nanmin(series.x) > -1000
    assert len(series) == 366 * 144  # 2020-01-01 00:10 to 2021-01-01 00:00, gap filled


def test_jena_hourly_has_german_times_and_a_sentinel():
    weather = shared("jena_hourly_2009_2016.csv.gz")
    series = to_series(weather, target="T (degC)", horizon=6)
    assert len(series) == 70_038
    assert series.time[0] == np.datetime64("2009-01-01T00:10")
    assert (series.x == -9999).sum() == 3
    assert not (to_series(weather, target="T (degC)", sentinels=(-9999,)).x == -9999).any()


def test_etth1():
    series = to_series(shared("etth1.csv.gz"), target="OT", horizon=1, grid=True)
    assert (series.x.shape, series.period) == ((17_420, 7), 24)
    np.testing.assert_array_equal(series.y[:-1], series.x[1:, series.names.index("OT")])


def test_bike_needs_its_clock_switched_off():
    bikes = shared("bike_hour.csv.gz")
    with pytest.raises(LatentTrackError, match="'dteday' are not unique"):
        to_series(bikes, target="cnt")
    series = to_series(bikes, target="cnt", time=False, features=["hr", "temp", "hum"])
    assert (series.x.shape, series.has_clock) == ((17_379, 3), False)
