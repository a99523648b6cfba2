"""Which columns make the time of a row, and what becomes of rows that are not in its order."""

import numpy as np
import pytest

from latenttrack.data.describing import Selection, understand
from latenttrack.data.feed import Feed
from latenttrack.data.reading import read_table
from latenttrack.data.recent import read_covariates, read_rows
from latenttrack.errors import LatentTrackError

N = 240
HOURS = np.datetime64("2024-01-01T00", "ns") + np.arange(N) * np.timedelta64(1, "h")
RNG = np.random.default_rng(0)
POWER, WIND = RNG.normal(size=N).cumsum(), RNG.normal(size=N)


def table(**changes):
    columns = {"ts": HOURS, "wind": WIND, "power": POWER} | changes
    return read_table({name: values for name, values in columns.items() if values is not None})


def described(source, **options):
    return understand(Selection(source, "power", **options))


def backward(source):
    """Newest first, as many exports are."""
    return read_table({name: column[::-1] for name, column in source.columns.items()})


def test_a_row_without_a_key_is_named_by_its_place_in_the_file():
    """One of the rows before it is left out."""
    site = np.where(np.arange(N) == 5, "", "north").astype(object)
    times = np.where(np.arange(N) == 3, HOURS[2], HOURS)
    with pytest.raises(LatentTrackError, match="'site' is empty in row 6:"):
        described(table(site=site, ts=times), key="site")


def test_a_time_that_is_no_number_is_named_by_its_place_in_the_file():
    seconds = np.where(np.arange(N) == 5, np.inf, 3600.0 * np.arange(N))
    with pytest.raises(LatentTrackError, match=f"'ts' has no number in row {N - 5}:"):
        described(backward(table(ts=seconds)), time="ts")


def test_text_in_rows_that_are_left_out_does_not_count():
    """Without these rows the one column is empty, the other holds numbers."""
    again = np.arange(N) == 3
    rows = table(
        ts=np.where(again, HOURS[2], HOURS),
        note=np.where(again, "see above", "").astype(object),
        level=np.where(again, "faulty", (WIND**2).astype(str)).astype(object),
    )
    series, description = described(rows)
    assert description.dropped == (("note", "empty"),)
    assert series.names == ("wind", "power", "level")
    assert described(rows, features=("level",)).series.names == ("level",)
    np.testing.assert_array_equal(series.x[~again, 2], WIND[~again] ** 2)


def parts(hour=None):
    """The hours in columns, as in the Beijing air file."""
    days = HOURS.astype("datetime64[D]")
    return {
        "ts": None,
        "year": days.astype("datetime64[Y]").astype(int) + 1970.0,
        "month": days.astype("datetime64[M]").astype(int) % 12 + 1.0,
        "day": (days - days.astype("datetime64[M]")).astype(int) + 1.0,
        "hour": np.arange(N) % 24.0 if hour is None else hour,
    }


@pytest.mark.parametrize("clock", [("year", "month", "day", "hour"), ("ts", "hour")], ids=["parts", "dates"])
def test_the_24th_hour_is_the_next_midnight(clock):
    hour = 1.0 + np.arange(N) % 24
    changes = parts(hour) if clock[0] == "year" else {"ts": HOURS.astype("datetime64[D]"), "hour": hour}
    series, description = described(table(**changes))
    assert description.clock == clock
    np.testing.assert_array_equal(series.time, HOURS + np.timedelta64(1, "h"))


DAYTIMES = {
    "24 hours": lambda hour: f"{hour:02}:30",
    "seconds": lambda hour: f"{hour}:30:00",
    "points": lambda hour: f"{hour:02}.30.00",
    "spaces": lambda hour: f" {hour}:30 ",
    "12 hours": lambda hour: f"{(hour - 1) % 12 + 1}:30 {'AM' if hour < 12 else 'PM'}",
}


@pytest.mark.parametrize("form", DAYTIMES)
def test_times_of_the_day_stand_beside_dates(form):
    """One of them comes twice, as slips do."""
    daytimes = np.array([DAYTIMES[form](i % 24) for i in range(N)], object)
    daytimes[7] = daytimes[6]
    series, description = described(table(ts=HOURS.astype("datetime64[D]"), at=daytimes))
    assert (description.clock, description.repeated) == (("ts", "at"), 1)
    np.testing.assert_array_equal(series.time, HOURS + np.timedelta64(30, "m"))
    assert np.flatnonzero(np.isnan(series.y)).tolist() == [6, N - 1]  # the label is the next step's


def test_parts_of_a_second_count():
    daytimes = np.datetime64("2024-01-01", "ms") + np.arange(N) * np.timedelta64(900, "ms")
    texts = np.array([str(time)[11:] for time in daytimes], object)
    series, description = described(table(ts=daytimes.astype("datetime64[D]"), at=texts))
    np.testing.assert_array_equal(series.time, daytimes)
    assert description.repeated == 0


def test_when_the_sun_rises_is_no_clock_of_a_daily_file():
    days = np.datetime64("2024-01-01", "D") + np.arange(N)
    days[7] = days[6]
    rises = np.array([f"{6 + i % 3}:{i % 60:02}" for i in range(N)], object)
    description = described(table(ts=days, sunrise=rises)).description
    assert (description.clock, description.repeated) == (("ts",), 1)


def test_24_00_is_the_next_midnight():
    daytimes = np.array([f"{i % 24 + 1:02}:00" for i in range(N)], object)
    series, _ = described(table(ts=HOURS.astype("datetime64[D]"), at=daytimes))
    np.testing.assert_array_equal(series.time, HOURS + np.timedelta64(1, "h"))


FEED = Feed(("wind", "power"), "power", source="power", horizon=1, interval=3_600_000_000_000)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("hour", "0:00", "'hour' holds '0:00' in row 6: give hours as whole numbers from 0 to 24"),
        ("hour", np.nan, "'hour' is empty in row 6"),
        ("hour", 25.0, "'hour' holds 25 in row 6"),
        ("hour", 2.5, "'hour' holds 2.5 in row 6"),
        ("day", np.nan, "'day' is empty in row 6"),
        ("day", 35.0, "'day' holds 35 in row 6: give days as whole numbers from 1 to 31"),
        ("year", 24.0, "'year' holds 24 in row 6"),
        ("at", "25:00", "'at' holds '25:00' in row 6: give times of the day such as 17:24"),
        ("at", "13:00 PM", "'at' holds '13:00 PM' in row 6"),
        ("at", "24:01", "'at' holds '24:01' in row 6"),
        ("at", "24:00:00.5", "'at' holds '24:00:00.5' in row 6"),
        ("at", "", "'at' is empty in row 6"),
        ("date", "soon", "'date' holds 'soon' in row 6"),
        ("date", "", "'date' is empty in row 6"),
    ],
)
def test_times_of_recent_rows_that_cannot_be_read_are_named(column, value, words):
    changes = parts()
    changes |= {"date": HOURS.astype("datetime64[D]").astype(str), "at": [f"{i % 24}:00" for i in range(N)]}
    clock = {"date": ("date", "hour"), "at": ("date", "at")}.get(column, ("year", "month", "day", "hour"))
    values = list(changes[column])
    values[5] = value
    rows = {"power": POWER, "wind": WIND, **changes, column: values}
    rows.pop("ts")
    for read in (read_rows, read_covariates):
        with pytest.raises(LatentTrackError, match=words):
            read(rows, FEED, clock=clock)


def test_a_time_of_the_day_that_is_missing_at_first_is_named():
    days = HOURS.astype("datetime64[D]").astype(str).tolist()
    rows = {"power": POWER, "wind": WIND, "date": days, "at": ["", *(f"{i % 24}:00" for i in range(1, N))]}
    with pytest.raises(LatentTrackError, match="'at' is empty in row 1: give times of the day"):
        read_rows(rows, FEED, clock=("date", "at"))


def test_days_that_a_month_has_not_are_named():
    rows = {"year": [2023.0], "month": [2.0], "day": [29.0], "power": [1.0], "wind": [1.0]}
    with pytest.raises(LatentTrackError, match="'day' holds 29 in row 1, and the month 2023-02 has no such"):
        read_rows(rows, FEED, clock=("year", "month", "day"))
    rows["year"] = [2024.0]
    assert len(read_rows(rows, FEED, clock=("year", "month", "day"))) == 1


@pytest.mark.parametrize(
    ("hour", "why"),
    [
        ([f"{i % 24}:00" for i in range(N)], "'hour' holds '0:00' in row 1: give hours as whole numbers"),
        (np.where(np.arange(N) == 5, np.nan, np.arange(N) % 24), "'hour' is empty in row 6"),
        (np.arange(N) % 24 // 6 + 0.0, "many rows have the same year, month, day, hour: add what tells"),
    ],
    ids=["text", "missing", "shifts"],
)
def test_parts_that_make_no_clock_leave_a_row_a_step(hour, why):
    series, description = described(table(**parts(hour)))
    assert description.clock == ()
    assert len(series) == N
    told = dict(description.lines())["time"]
    assert told.startswith("a row is a step, as ")
    assert why in told


def test_without_hours_a_few_rows_of_one_day_are_slips():
    daily = np.datetime64("2024-01-01", "D") + np.arange(N)
    daily[7] = daily[6]
    months = daily.astype("datetime64[M]")
    columns = {
        "year": daily.astype("datetime64[Y]").astype(int) + 1970.0,
        "month": months.astype(int) % 12 + 1.0,
        "day": (daily - months).astype(int) + 1.0,
    }
    description = described(table(**columns, ts=None)).description
    assert (description.clock, description.repeated) == (("year", "month", "day"), 1)
    # Two streams have the same days, and each its own slip.
    halves = np.repeat(["a", "b"], N // 2)
    twice = {name: np.tile(column[: N // 2], 2) for name, column in columns.items()}
    description = described(table(**twice, site=halves, ts=None), key="site").description
    assert (description.clock, description.repeated) == (("year", "month", "day"), 2)


HALF = N // 2
MINUTES = np.timedelta64(30, "m")


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
@pytest.mark.parametrize(
    "second",
    [HOURS[:HALF] + MINUTES, HOURS[:HALF], HOURS[HALF - 40 : N - 40]],
    ids=["between", "same", "some"],
)
def test_two_streams_one_after_another_are_refused(second, newest_first):
    times = [HOURS[:HALF][:: -1 if newest_first else 1], second[:: -1 if newest_first else 1]]
    rows = table(ts=np.concatenate(times), site=np.repeat(["north", "south"], HALF))
    with pytest.raises(LatentTrackError, match=f"begin anew in row {HALF + 1}, .* with --key"):
        described(rows)
    with pytest.raises(LatentTrackError, match="the rows of one"):
        read_rows(rows, FEED, clock=("ts",))
    assert described(rows, key="site").series.keys == ("north", "south")
    with pytest.raises(LatentTrackError, match="several streams of the same 'plant'"):
        described(read_table(rows.columns | {"plant": np.repeat(["only"], N)}), key="plant")


def test_two_streams_with_the_time_in_parts_are_refused():
    columns = {name: c if c is None else np.tile(c[:HALF], 2) for name, c in parts().items()}
    with pytest.raises(LatentTrackError, match=f"begin anew in row {HALF + 1}, .* with --key"):
        described(table(**columns))


def test_two_streams_of_dates_without_hours_are_refused():
    days = np.datetime64("2024-01-01", "D") + np.repeat(np.arange(30), 24)
    with pytest.raises(LatentTrackError, match=r"begin anew in row 721, .* with --key"):
        described(read_table({"ts": np.tile(days, 2), "power": RNG.normal(size=1440)}))


ORDERS = {
    "newest first": np.arange(N)[::-1],
    "shuffled": np.random.default_rng(1).permutation(N),
    "newest day first": np.arange(N).reshape(-1, 24)[::-1].ravel(),
    "months one after another": np.roll(np.arange(N), 100),
    "a few late": np.argsort(np.arange(N) + 9.5 * (np.arange(N) % 37 == 5)),
    "one far too early": np.insert(np.arange(N - 1), 90, N - 1),
}


@pytest.mark.parametrize("order", ORDERS)
def test_one_stream_in_any_order_is_put_in_order(order):
    rows = read_table({name: column[ORDERS[order]] for name, column in table().columns.items()})
    series, description = described(rows)
    assert description.moved
    np.testing.assert_array_equal(series.time, HOURS)
    np.testing.assert_array_equal(series.x[:, 0], WIND)


def test_an_hour_that_comes_twice_is_one_stream():
    """As in local time, in autumn."""
    minutes = np.datetime64("2024-10-20T00", "m") + np.arange(15_000)
    times = np.where(np.arange(15_000) < 10_000, minutes, minutes - 60)
    power = RNG.normal(size=15_000)
    description = described(read_table({"ts": times, "power": power})).description
    assert description.repeated == 60
