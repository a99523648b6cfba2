"""What is said about a user's file before anything is trained on it."""

import json

import numpy as np
import pandas as pd
import pytest

from latenttrack.data.describing import Gaps, Selection, understand
from latenttrack.data.reading import read_table
from latenttrack.data.suspects import Sentinel, find_suspects, mask_sentinels, parse_sentinel, remedies
from latenttrack.errors import LatentTrackError

N = 60
HOURS = np.datetime64("2024-01-01T00", "ns") + np.arange(N) * np.timedelta64(1, "h")
RNG = np.random.default_rng(0)
POWER, WIND = RNG.normal(size=N).cumsum(), RNG.normal(size=N)


def table(**changes):
    columns = {"ts": HOURS, "wind": WIND, "power": POWER} | changes
    return read_table({name: values for name, values in columns.items() if values is not None})


def described(source=None, target="power", **options):
    return understand(Selection(table() if source is None else source, target, **options))


def facts(description):
    """What is said, by heading."""
    told = {}
    for heading, words in description.lines():
        told.setdefault(heading, []).append(words)
    return told


def test_a_tidy_file():
    series, description = described(horizon=6)
    assert facts(description) == {
        "rows": ["60, 2024-01-01 00:00 to 2024-01-03 11:00"],
        "time": ["ts: every hour, no gaps"],
        "predicted": ["power, 6 steps (6 hours) ahead; a label is known when it is measured"],
        "inputs": ["wind, power"],
        "missing": ["nothing"],
    }
    assert (series.names, series.delay, series.period, len(series)) == (("wind", "power"), 6, 24, N)
    np.testing.assert_array_equal(series.y[:-6], POWER[6:])


def test_gaps_are_counted_and_filled():
    kept = np.delete(np.arange(N), [10, 11, 12, 40])
    rows = {"ts": HOURS[kept], "wind": WIND[kept], "power": POWER[kept]}
    series, description = described(read_table(rows))
    assert (description.gaps, description.rows, len(series)) == (Gaps(2, 4, 3), 56, N)
    assert "2 gaps (the longest 3 hours); 4 missing rows put in" in facts(description)["time"][0]
    assert np.isnan(series.x[[10, 11, 12, 40]]).all()


def test_irregular_times_make_every_row_a_step():
    times = HOURS + np.where(np.arange(N) == 30, np.timedelta64(7, "m"), np.timedelta64(0, "m"))
    series, description = described(table(ts=times), horizon=2)
    assert not description.regular
    assert "irregular (96.6 % of the rows 1 hour apart), so a row is a step" in facts(description)["time"][0]
    assert facts(description)["predicted"][0].startswith("power, 2 steps ahead;")
    assert len(series) == N


def test_without_a_clock():
    series, description = described(table(ts=None), horizon=0)
    assert "--time" in facts(description)["time"][0]
    assert (description.span, description.clock, series.names) == (None, (), ("wind",))
    assert "known 1 step after its row" in facts(description)["predicted"][0]


def test_dates_and_hours_in_two_columns():
    """As in the bike sharing file."""
    split = {"day": HOURS.astype("datetime64[D]"), "hr": np.arange(N) % 24.0, "ts": None}
    series, description = described(table(weekday=np.arange(N) // 24.0, **split))
    assert description.clock == ("day", "hr")
    assert facts(description)["time"] == ["day and hr: every hour, no gaps"]
    np.testing.assert_array_equal(series.time, HOURS)
    assert series.names == ("wind", "power", "weekday")
    assert description.to_dict()["time"] == ["day", "hr"]


def test_dates_that_repeat_without_hours_are_refused():
    with pytest.raises(LatentTrackError, match="occurs twice"):
        described(table(ts=HOURS.astype("datetime64[D]")))


def test_several_streams():
    half = N // 2
    site = np.repeat(["north", "south"], half)
    series, description = described(table(ts=np.tile(HOURS[:half], 2), site=site), key="site")
    assert facts(description)["rows"][0].startswith("60 in 2 streams, ")
    assert (series.keys, series.names, description.dropped) == (("north", "south"), ("wind", "power"), ())


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (np.full(N, 3.5), "always 3.5"),
        (np.where(np.arange(N) < 9, np.nan, 2.0), "always 2"),
        (np.full(N, np.nan), "empty"),
        ([f"note {i}" for i in range(N)], "text, such as 'note 0'"),
        (["a"] * (N - 1) + [""], "text, such as 'a'"),
        (HOURS + np.timedelta64(1, "D"), "holds times"),
        (np.arange(N) + 1.0, "numbers the rows"),
        (POWER, "repeats power"),
        (np.where(np.arange(N) == 5, np.nan, WIND), "repeats wind"),
        (np.append(POWER[1:], 0.0), "holds power 1 step ahead, and gives the answer away"),
    ],
)
def test_columns_that_are_not_worth_having(column, why):
    series, description = described(table(other=column), time="ts")
    assert description.dropped == (("other", why),)
    assert series.names == ("wind", "power")
    # Whoever names a column has it, if it holds numbers at all.
    if np.asarray(column).dtype.kind == "f":
        assert described(table(other=column), features=("other",))[0].names == ("other",)


def test_a_column_that_follows_the_clock_across_a_gap():
    kept = np.delete(np.arange(N), [10, 11])
    rows = {"ts": HOURS[kept], "seconds": 3600.0 * kept, "power": POWER[kept]}
    assert described(read_table(rows))[1].dropped == (("seconds", "repeats the time"),)


def test_columns_that_are_nearly_always_zero_are_no_copies():
    one, other = (np.where(np.arange(N) % 30 == rest, 1.0, 0.0) for rest in (3, 4))
    assert described(table(one=one, other=other))[1].dropped == ()


def test_a_label_is_not_known_before_it_is_measured():
    """Else what is learned, and how well it does on held-out rows, would not hold in a live stream."""
    with pytest.raises(LatentTrackError, match="delay is 1, but what is 6 steps ahead is measured only then"):
        described(horizon=6, delay=1)
    assert described(horizon=6, delay=6)[0].delay == 6
    assert described(horizon=0, delay=1)[0].delay == 1


def test_a_label_known_late_is_no_input():
    series, description = described(horizon=2, delay=5)
    assert (series.names, series.delay) == (("wind",), 5)
    assert description.dropped == (("power", "it is what is predicted, and known only 3 steps later"),)
    assert "a label is known 5 steps (5 hours) after its row" in facts(description)["predicted"][0]
    with pytest.raises(LatentTrackError, match="not known yet"):
        described(horizon=2, delay=5, features=("power",))


def test_parts_that_add_up_to_the_target_of_the_same_row():
    """As casual and registered riders do in the bike sharing file."""
    parts = {"casual": POWER - WIND, "still": np.ones(N)}
    _, description = described(table(**parts), horizon=0)
    assert "the inputs of a row add up to its power" in facts(description)["suspicious"][0]
    assert not described(table(**parts), horizon=1)[1].given_away
    assert not described(table(casual=POWER - 0.9 * WIND + 0.1 * RNG.normal(size=N)), horizon=0)[1].given_away


def test_missing_values_are_counted():
    power, wind = POWER.copy(), WIND.copy()
    power[3], wind[5:25] = np.nan, np.nan
    assert facts(described(table(power=power, wind=wind))[1])["missing"] == ["wind 20 times, power once"]


def with_values(column, **places):
    """The column with some numbers in the place of others."""
    column = column.copy()
    for count, value in places.values():
        column[RNG.choice(N, count, replace=False)] = value
    return column


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (with_values(WIND, a=(4, -9999.0)), {-9999.0}),
        (with_values(WIND, a=(1, -9999.0)), {-9999.0}),  # a usual code need not repeat
        (with_values(1000 + WIND, a=(3, 0.0)), {0.0}),
        (np.r_[with_values(WIND)[:-4], -9999.0, -9999.0, 999.9, 999.9], {-9999.0, 999.9}),
        (np.r_[with_values(WIND)[:-4], -9999.0, -9999.0, -8888.0, -8888.0], {-9999.0, -8888.0}),
        (np.r_[5000 * RNG.uniform(size=N - 2), -999.0, -999.0], {-999.0}),
        (WIND, set()),
        (with_values(WIND, a=(1, 70.0)), set()),  # an outlier that does not repeat
        (np.round(WIND), set()),
        (np.where(WIND > 1.5, 1.0, 0.0), set()),
        (np.where(WIND > 0.5, np.round(np.exp(2 * WIND)), 0.0), set()),  # rain
        (np.full(N, np.nan), set()),
        (np.arange(900.0, 1000.0)[-N:], set()),  # 999 among its like
    ],
)
def test_sentinels_are_suspected(column, found):
    assert {s.value for s in find_suspects(table(wind=column), ["wind"])} == found


def test_a_single_value_is_suspected_if_it_is_very_far_out():
    assert find_suspects(table(wind=with_values(WIND, a=(1, 1e30))), ["wind"]) == (("wind", 1e30, 1),)
    assert find_suspects(table(wind=with_values(WIND, a=(1, 500.0))), ["wind"]) == ()
    said = 'if it means missing, add --sentinel "1e+30"'
    _, description = described(table(wind=with_values(WIND, a=(1, 1e30))))
    assert facts(description)["suspicious"] == [f"1e+30 in wind once: {said}"]


def test_a_suspect_comes_with_the_option_to_type():
    wind = with_values(WIND, a=(4, -9999.0))
    _, description = described(table(wind=wind))
    said = "-9999 in wind 4 times: if it means missing, add --sentinel -9999"
    assert facts(description)["suspicious"] == [said]
    assert description.missing == {}  # nothing is masked on suspicion
    series, description = described(table(wind=wind), sentinels=(Sentinel(-9999.0), Sentinel(-1e9)))
    assert "suspicious" not in facts(description)
    assert facts(description)["sentinel"] == [
        "-9999, made missing 4 times",
        "-1000000000, made missing never",
    ]
    assert np.isnan(series.x[:, 0]).sum() == 4


def test_a_number_that_is_a_measurement_elsewhere_is_masked_in_one_column():
    rows = table(pressure=with_values(1000 + WIND, a=(3, 0.0)), rain=np.maximum(np.round(WIND), 0.0))
    suspects = find_suspects(rows, ["pressure", "rain"])
    assert list(remedies(suspects, rows)) == [Sentinel(0.0, "pressure")]
    masked = mask_sentinels(rows, [Sentinel(0.0, "pressure")])
    assert np.isnan(masked.columns["pressure"]).sum() == 3
    assert not np.isnan(masked.columns["rain"]).any()
    spaced = table(**{"air pressure": rows.columns["pressure"], "rain": rows.columns["rain"]})
    assert facts(described(spaced)[1])["suspicious"][0].endswith('add --sentinel "air pressure=0"')


def test_sentinels_as_they_are_typed():
    assert parse_sentinel("-9999") == Sentinel(-9999.0)
    assert parse_sentinel("a=b=0") == Sentinel(0.0, "a=b")
    assert str(parse_sentinel("wv (m/s)=-9999.5")) == "wv (m/s)=-9999.5"
    with pytest.raises(LatentTrackError, match="no number"):
        parse_sentinel("none")
    for text in ("inf", "-inf", "nan", "wind=inf"):
        with pytest.raises(LatentTrackError, match="not finite: leave it out"):
            parse_sentinel(text)
    with pytest.raises(LatentTrackError, match="did you mean 'wind'"):
        described(sentinels=(Sentinel(0.0, "wint"),))


@pytest.mark.parametrize("ending", ["Z", "+02:00", "-0530"])
def test_times_with_an_offset_are_said_to_be_in_utc(ending, tmp_path):
    texts = [f"{time}{ending}" for time in HOURS.astype("datetime64[s]")]
    path = tmp_path / "plant.csv"
    path.write_text("\n".join(["ts,power", *(f"{t},{p}" for t, p in zip(texts, POWER, strict=True))]))
    frame = pd.DataFrame({"ts": pd.to_datetime(texts), "power": POWER})
    for source in (path, read_table({"ts": texts, "power": POWER}), read_table(frame)):
        told = facts(described(source).description)["time"]
        assert told == ["ts: every hour, no gaps", "in UTC, as the file gives offsets from it"]
    assert len(facts(described().description)["time"]) == 1


def test_points_that_may_mark_thousands_are_suspicious(tmp_path):
    path = tmp_path / "plant.csv"
    path.write_text("\n".join(["ts;power", *(f"{t};1.{100 + i}" for i, t in enumerate(HOURS))]))
    (told,) = facts(described(path).description)["suspicious"]
    assert told.startswith("the point in numbers of power such as 1.100 is taken as the decimal mark: if")


def test_infinite_values_are_counted_as_missing():
    power = np.where(np.arange(N) % 20 == 0, np.inf, POWER)
    wind = np.where(np.arange(N) == 7, -np.inf, WIND)
    series, description = described(table(power=power, wind=wind, spare=np.full(N, np.inf)))
    assert facts(description)["missing"] == ["power 3 times, wind once"]
    assert facts(description)["infinite"] == ["power 3 times, wind once, counted as missing"]
    assert np.isnan(series.x[7]).sum() == 1


def test_the_same_from_every_kind_of_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow.parquet")
    import pyarrow as arrow

    rows = [{"ts": str(t), "wind": w, "power": p} for t, w, p in zip(HOURS, WIND, POWER, strict=True)]
    csv, lines, parquet = (tmp_path / f"plant.{ending}" for ending in ("csv", "jsonl", "parquet"))
    csv.write_text("\n".join(["ts,wind,power", *(f"{r['ts']},{r['wind']},{r['power']}" for r in rows)]))
    lines.write_text("\n".join(map(json.dumps, rows)))
    pyarrow.write_table(arrow.table({"ts": HOURS, "wind": WIND, "power": POWER}), parquet)
    told = [described(path)[1].lines() for path in (csv, lines, parquet)]
    assert told[0] == told[1] == told[2] == described()[1].lines()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "powr"}, "did you mean 'power'"),
        ({"time": "tz"}, "did you mean 'ts'"),
        ({"features": ("wint",)}, "did you mean 'wind'"),
        ({"key": "sight"}, "did you mean 'site'"),
        ({"target": "site"}, "not numeric"),
        ({"time": "site"}, "not a time"),
        ({"features": ("note",)}, "not numeric"),
        ({"features": ("power",), "horizon": 0}, "gives the answer away"),
    ],
)
def test_mistakes_are_named(options, said):
    with pytest.raises(LatentTrackError, match=said):
        described(table(site=["a", "b"] * (N // 2), note=[f"no. {i}" for i in range(N)]), **options)


def test_text_of_a_few_kinds_is_an_input():
    site = ["a", "b", "b"] * (N // 3)
    series, description = described(table(site=site))
    assert series.names == ("wind", "power", "site=b", "site=a")
    assert series.categories == (("site", ("b", "a")),)
    np.testing.assert_array_equal(series.x[:, 2], np.array(site) == "b")
    assert (description.inputs, description.dropped) == (series.names, ())
    taken = described(table(site=site, **{"site=a": WIND**2})).series
    assert (taken.names, taken.categories) == (("wind", "power", "site=a"), ())
    np.testing.assert_array_equal(taken.x[:, 2], WIND**2)
    holes = described(table(site=["", *site[1:]])).description
    assert facts(holes)["missing"] == ["site once"]
    copied = described(table(site=site, twin=["", *site[1:]]))
    assert (copied.series.names, copied.series.categories) == (series.names, series.categories)
    assert facts(copied.description)["missing"] == ["nothing"]
    named, _ = described(table(site=site), features=("site", "wind"))
    assert named.names == ("site=b", "site=a", "wind")


def test_many_columns_with_missing_values_are_summed_up():
    columns = {f"c{i}": np.where(np.arange(N) < i, np.nan, RNG.normal(size=N)) for i in range(1, 12)}
    assert facts(described(table(**columns))[1])["missing"][0].endswith("c4 4 times and 3 more columns")


def test_facts_for_programs():
    _, description = described(sentinels=(Sentinel(0.0, "wind"),), horizon=3)
    values = json.loads(json.dumps(description.to_dict()))
    assert values["sentinels"] == [[0.0, "wind"]]
    assert (values["interval"], values["delay"], values["inputs"]) == (3600.0, 3, ["wind", "power"])
    assert values["span"] == ["2024-01-01 00:00", "2024-01-03 11:00"]


def test_rows_out_of_order_are_put_in_order():
    """Newest first, as many exports are."""
    forward, _ = described(table(), horizon=2)
    backward = {name: column[::-1] for name, column in table().columns.items()}
    series, description = described(backward, horizon=2)
    assert "the rows were not in order of time, and are put in order" in facts(description)["time"]
    np.testing.assert_array_equal(series.x, forward.x)
    np.testing.assert_array_equal(series.time, forward.time)


def test_of_rows_with_one_time_the_first_is_kept():
    plain, _ = described(table())
    twice = {name: np.append(column, column[[3, 3, 7]]) for name, column in table().columns.items()}
    twice["wind"][-3:] = -1.0
    series, description = described(twice)
    assert facts(description)["repeated"] == ["3 rows have the time of an earlier one, and are left out"]
    assert description.rows == N + 3
    np.testing.assert_array_equal(series.x, plain.x)


def test_streams_are_put_in_order_one_by_one():
    half = N // 2
    order = np.random.default_rng(0).permutation(N)
    site = np.repeat(["north", "south"], half)
    whole = table(ts=np.tile(HOURS[:half], 2), site=site)
    series, description = described(
        {name: column[order] for name, column in whole.columns.items()}, key="site"
    )
    assert (description.moved, description.repeated) == (True, 0)
    for place, name in enumerate(series.keys):
        here = series.key == place
        np.testing.assert_array_equal(series.time[here], HOURS[:half])
        np.testing.assert_array_equal(series.x[here, 0], whole.columns["wind"][site == name])


def test_years_months_days_and_hours_make_a_clock():
    """As in the Beijing air file."""
    days = HOURS.astype("datetime64[D]")
    parts = {
        "Year": days.astype("datetime64[Y]").astype(int) + 1970.0,
        "month": days.astype("datetime64[M]").astype(int) % 12 + 1.0,
        "day": (days - days.astype("datetime64[M]")).astype(int) + 1.0,
        "hour": np.arange(N) % 24.0,
    }
    series, description = described(table(ts=None, **parts))
    assert facts(description)["time"] == ["Year, month, day and hour: every hour, no gaps"]
    assert description.to_dict()["time"] == ["Year", "month", "day", "hour"]
    assert series.names == ("wind", "power")
    np.testing.assert_array_equal(series.time, HOURS)
    # Impossible dates, or none, make no clock.
    for day in (None, parts["day"] + 30.0):
        assert described(table(ts=None, **parts | {"day": day})).description.clock == ()
