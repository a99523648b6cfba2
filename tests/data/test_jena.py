import gzip
import io
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from latenttrack.data import Pipeline, jena
from latenttrack.data.cache import cache_directory, data_directories
from latenttrack.data.jena import MEASUREMENTS, OFFICIAL, OFFICIAL_FILE, find_jena, load_jena
from latenttrack.errors import LatentTrackError

SHARED = Path(__file__).parents[3] / "shared" / "data"
HOURLY_FILE = "jena_hourly_2009_2016.csv.gz"
QUARTER_FILE = "jena_climate_10min_2009_2010.csv.gz"
DAY = 144
START = datetime(2009, 1, 1, 0, 10)


def shared(name):
    path = SHARED / name
    return pytest.param(path, marks=pytest.mark.skipif(not path.is_file(), reason=f"{path} is not here"))


def official_csv(minutes, values=None, header=OFFICIAL.header):
    """CSV text in the official format: a row at each of `minutes` after the start; T numbers the times."""
    lines = [",".join(f'"{name}"' for name in header)]
    for minute in minutes:
        row = dict.fromkeys(header[1:], f"{minute / 10:.2f}") | (values or {}).get(minute, {})
        time = (START + timedelta(minutes=minute)).strftime("%d.%m.%Y %H:%M:%S")
        lines.append(",".join([time, *(row[name] for name in header[1:])]))
    return "\n".join(lines) + "\n"


def zipped(content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(OFFICIAL_FILE, content)
    return buffer.getvalue()


# --- where datasets are ---


def test_data_directories(monkeypatch, tmp_path):
    monkeypatch.setenv("LATENTTRACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LATENTTRACK_DATA", raising=False)
    assert cache_directory() == tmp_path / "cache"
    assert data_directories() == [tmp_path / "cache" / "data"]
    monkeypatch.setenv("LATENTTRACK_DATA", str(tmp_path / "mine"))
    assert data_directories() == [tmp_path / "mine"]
    assert data_directories(str(tmp_path)) == [tmp_path]
    monkeypatch.setenv("LATENTTRACK_DATA", "")
    assert data_directories() == [tmp_path / "cache" / "data"]


def test_official_file_comes_before_an_hourly_copy(tmp_path):
    for name in reversed(jena.FILES):
        (tmp_path / name).write_text("")
        assert find_jena(tmp_path).name == name
    assert find_jena(tmp_path).name == "jena_climate_2009_2016.csv"


def test_no_file_says_what_to_do(tmp_path):
    with pytest.raises(LatentTrackError, match=r"latenttrack data fetch jena.*LATENTTRACK_DATA") as caught:
        find_jena(tmp_path)
    assert str(tmp_path) in str(caught.value)


# --- rows ---


def test_every_sixth_row_from_the_first(tmp_path):
    (tmp_path / OFFICIAL_FILE).write_text(official_csv(range(0, 10 * DAY, 10)))
    table = load_jena(tmp_path)
    assert list(table.columns) == ["time", *MEASUREMENTS]
    np.testing.assert_array_equal(table.columns["T"], np.arange(0, DAY, 6))
    expected = np.datetime64("2009-01-01T00:10") + np.arange(24) * np.timedelta64(1, "h")
    np.testing.assert_array_equal(table.columns["time"], expected)


def test_repeated_day_leaves_no_trace(tmp_path):
    clean, repeated = tmp_path / "clean", tmp_path / "repeated"
    day = [*range(10 * DAY, 20 * DAY, 10)]
    minutes = [*range(0, 10 * DAY, 10), *day, *range(20 * DAY, 30 * DAY, 10)]
    for folder, order in {clean: minutes, repeated: minutes[: 2 * DAY] + day + minutes[2 * DAY :]}.items():
        folder.mkdir()
        (folder / OFFICIAL_FILE).write_text(official_csv(order))
    for name, column in load_jena(clean).columns.items():
        np.testing.assert_array_equal(load_jena(repeated).columns[name], column)


def test_repeats_go_before_every_sixth_row_is_taken(tmp_path):
    # Three repeated rows: if sixth rows were taken first, the later ones would be half an hour off.
    minutes = [*range(0, 200, 10), 170, 180, 190, *range(200, 400, 10)]
    (tmp_path / OFFICIAL_FILE).write_text(official_csv(minutes))
    np.testing.assert_array_equal(load_jena(tmp_path).columns["T"], np.arange(0, 40, 6))


def test_of_a_repeated_time_the_first_row_is_kept(tmp_path):
    text = official_csv(range(0, 120, 10))
    again = official_csv([60], {60: {"T (degC)": "99"}}).splitlines()[1]
    (tmp_path / OFFICIAL_FILE).write_text(text + again + "\n")
    np.testing.assert_array_equal(load_jena(tmp_path).columns["T"], [0, 6])


def test_sixth_rows_not_full_hours_after_a_gap(tmp_path):
    minutes = [*range(0, 90, 10), *range(110, 400, 10)]
    (tmp_path / OFFICIAL_FILE).write_text(official_csv(minutes))
    np.testing.assert_array_equal(load_jena(tmp_path).columns["T"], np.array(minutes)[::6] / 10)


def test_hourly_copy_is_taken_as_it_is(tmp_path):
    (tmp_path / "jena_hourly_2009_2016.csv").write_text(official_csv(range(0, 600, 60)))
    np.testing.assert_array_equal(load_jena(tmp_path).columns["T"], np.arange(0, 60, 6))


@pytest.mark.parametrize("compress", ["", ".gz", ".zip"])
def test_compressed_files(tmp_path, compress):
    content = official_csv(range(0, 300, 10)).encode()
    packed = {"": content, ".gz": gzip.compress(content), ".zip": zipped(content)}
    (tmp_path / (OFFICIAL_FILE + compress)).write_bytes(packed[compress])
    assert len(load_jena(tmp_path)) == 5


@pytest.mark.parametrize(
    ("old", "new", "encoding"),
    [
        ("degC", "°C", "latin-1"),
        ("degC", "°C", "utf-8"),
        ("degC", "Â°C", "utf-8"),
        ("degC", "\ufffdC", "utf-8"),
        ("(g/m**3)", "[g/m³]", "utf-8-sig"),
        (" (", "_(", "utf-8"),
    ],
)
def test_units_may_be_spelt_or_mangled_in_any_way(tmp_path, old, new, encoding):
    header = tuple(name.replace(old, new) for name in OFFICIAL.header)
    (tmp_path / OFFICIAL_FILE).write_text(official_csv(range(0, 120, 10), header=header), encoding=encoding)
    table = load_jena(tmp_path)
    assert list(table.columns) == ["time", *MEASUREMENTS]
    np.testing.assert_array_equal(table.columns["rho"], [0, 6])


def test_wind_is_not_the_strongest_gust(tmp_path):
    values = {0: {"wv (m/s)": "1.5", "max. wv (m/s)": "7.5", "VPdef (mbar)": "3", "VPact (mbar)": "4"}}
    (tmp_path / OFFICIAL_FILE).write_text(official_csv(range(0, 120, 10), values))
    columns = load_jena(tmp_path).columns
    assert (columns["wv"][0], columns["VPdef"][0]) == (1.5, 3)


def test_sentinels_only_in_the_wind(tmp_path):
    wrong = {60: {"wv (m/s)": "-9999.00", "max. wv (m/s)": "-9999.00", "p (mbar)": "-9999.00"}}
    (tmp_path / OFFICIAL_FILE).write_text(official_csv(range(0, 180, 10), wrong))
    np.testing.assert_array_equal(load_jena(tmp_path).columns["wv"], [0, -9999, 12])
    masked = load_jena(tmp_path, sentinels="missing").columns
    np.testing.assert_array_equal(masked["wv"], [0, np.nan, 12])
    np.testing.assert_array_equal(masked["p"], [0, -9999, 12])
    with pytest.raises(LatentTrackError, match="sentinels is 'drop'"):
        load_jena(tmp_path, sentinels="drop")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (official_csv(range(0, 300, 10)).replace("rho", "density"), "no column of numbers 'rho'"),
        (official_csv(range(0, 300, 10), {60: {"p (mbar)": "high"}}), "no column of numbers 'p'"),
        (official_csv(range(0, 300, 10)).replace("01.01.2009 01:10", "soon"), "time of every row"),
        (official_csv(range(0, 300, 10)).replace("01.01.2009 01:10:00", ""), "time of every row"),
        (official_csv(range(0, 300, 30)), "30 minutes apart"),
        (official_csv([0]), "minutes apart"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, text, message):
    (tmp_path / OFFICIAL_FILE).write_text(text)
    with pytest.raises(LatentTrackError, match=message) as caught:
        load_jena(tmp_path)
    assert str(tmp_path / OFFICIAL_FILE) in str(caught.value)


# --- the series ---


def test_series_is_the_papers(tmp_path):
    # Four weeks: enough for a week's cycle to be seen.
    values = {600: {"wv (m/s)": "-9999.00"}}
    (tmp_path / OFFICIAL_FILE).write_text(official_csv(range(0, 28 * 10 * DAY, 10), values))
    series = jena.jena_series(tmp_path)
    assert series.names == ("p", "T", "Tpot", "Tdew", "rh", "VPmax", "VPdef", "rho", "wv")
    assert (series.target, series.delay, series.period) == ("temperature (°C)", 1, 24)
    assert series.has_clock
    temperature = series.x[:, 1]
    np.testing.assert_array_equal(series.y[:-6], temperature[6:])
    assert np.isnan(series.y[-6:]).all()
    assert series.x[10, 8] == -9999
    pipeline = Pipeline.fit(series, calendar={"day": 1, "week": 1}, missing=False)
    assert len(pipeline.names) == 13
    assert pipeline.transform(series).x.shape == (28 * 24, 13)


def test_series_with_an_honest_delay(tmp_path):
    (tmp_path / OFFICIAL_FILE).write_text(official_csv(range(0, 600, 10), {0: {"wv (m/s)": "-9999"}}))
    series = jena.jena_series(tmp_path, horizon=2, delay=2, sentinels="missing")
    assert series.delay == 2
    assert np.isnan(series.y[-2:]).all()
    assert not np.isnan(series.y[:-2]).any()
    assert np.isnan(series.x[0, 8])


# --- the real data ---


@pytest.mark.parametrize("hourly", [shared(HOURLY_FILE)])
def test_hourly_file(hourly):
    columns = load_jena(hourly.parent).columns
    time, wind = columns["time"], columns["wv"]
    assert len(time) == 70_038
    assert (str(time[0]), str(time[-1])) == ("2009-01-01T00:10:00.000000000", "2016-12-31T23:50:00.000000000")
    assert [str(t)[:16] for t in time[wind == -9999]] == [f"2015-07-13T{h}:40" for h in ("09", "10", "11")]
    # Repeats were dropped before every sixth row was taken: one row of the official file is left after 23:50.
    # Of its 420,551 rows every sixth, from the first, would end ten rows before the last instead, at 22:20.
    slots = int((np.datetime64("2017-01-01T00:00") - time[0]) / np.timedelta64(10, "m")) + 1
    steps = np.diff(time) / np.timedelta64(10, "m")
    unique = slots - int(np.sum(steps - 6))
    assert (np.sum(steps != 6), unique, OFFICIAL.rows - unique) == (5, 420_224, 327)
    assert -(-unique // 6) == len(time)


@pytest.mark.parametrize("hourly", [shared(HOURLY_FILE)])
@pytest.mark.parametrize("quarter", [shared(QUARTER_FILE)])
def test_ten_minute_and_hourly_files_give_the_same_rows(hourly, quarter, tmp_path):
    (tmp_path / f"{OFFICIAL_FILE}.gz").symlink_to(quarter)
    ours, theirs = load_jena(tmp_path).columns, load_jena(hourly.parent).columns
    n = len(ours["time"])
    assert n == 17_764
    for name in ("time", "p", "T", "Tdew", "rh", "VPmax", "wv"):
        np.testing.assert_array_equal(ours[name], theirs[name][:n])
    # The hourly file holds these recomputed: they differ in the last printed digits.
    for name, last_digits in {"Tpot": 0.02, "VPdef": 0.01, "rho": 0.12}.items():
        assert np.abs(ours[name] - theirs[name][:n]).max() < last_digits + 1e-6


@pytest.mark.parametrize("quarter", [shared(QUARTER_FILE)])
def test_expected_header_and_start_are_the_official_ones(quarter):
    with gzip.open(quarter, "rt") as file:
        header, first = next(file), next(file)
    assert tuple(header.strip().replace('"', "").split(",")) == OFFICIAL.header
    assert first.startswith(OFFICIAL.first + ",")
