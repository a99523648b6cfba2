"""ETTh1 and bike sharing from a user's copy of the public files."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from latenttrack.data.public import PUBLIC, public_series
from latenttrack.errors import LatentTrackError

SHARED = Path(__file__).parents[3] / "shared" / "data"
BIKE = "instant,dteday,season,yr,mnth,hr,holiday,weekday,workingday,weathersit,temp,atemp,hum,windspeed,casual,registered,cnt\n"  # noqa: E501


def needs(name):
    path = SHARED / name
    return pytest.mark.skipif(not path.is_file(), reason=f"{path} is not here")


def etth1_csv(hours):
    rows = [f"2016-07-0{1 + h // 24} {h % 24:02d}:00:00,1,2,3,4,5,6,{h}" for h in hours]
    return "\n".join(["date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT", *rows]) + "\n"


def bike_csv(hours):
    rows = [
        f"{i + 1},2011-01-0{1 + h // 24},1,0,1,{h % 24},0,6,0,1,0.2,0.3,0.8,0,{h},{h},{2 * h}"
        for i, h in enumerate(hours)
    ]
    return BIKE + "\n".join(rows) + "\n"


@pytest.mark.parametrize("file", ["etth1.csv", "etth1.csv.gz", "ETTh1.csv", "ETTh1.csv.gz"])
def test_every_usual_name_is_found(tmp_path, file):
    text = etth1_csv(range(30)).encode()
    (tmp_path / file).write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
    assert len(public_series("etth1", tmp_path)) == 30


@pytest.mark.parametrize("file", ["bike_hour.csv", "bike_hour.csv.gz", "hour.csv"])
def test_the_folder_may_come_from_the_environment(tmp_path, monkeypatch, file):
    monkeypatch.setenv("LATENTTRACK_DATA", str(tmp_path))
    text = bike_csv(range(30)).encode()
    (tmp_path / file).write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
    assert len(public_series("bike")) == 30


def test_gaps_become_rows_of_missing_values(tmp_path):
    """A step is an hour: a label across a gap is that of the hour meant, not of the row meant."""
    (tmp_path / "hour.csv").write_text(bike_csv([*range(10), *range(13, 40)]))
    series = public_series("bike", tmp_path, horizon=2)
    assert len(series) == 40
    gap = np.arange(40)[10:13]
    assert np.isnan(series.x[gap]).all()
    expected = 2.0 * (np.arange(40) + 2)
    expected[gap - 2] = expected[38:] = np.nan
    np.testing.assert_array_equal(series.y, expected)
    np.testing.assert_array_equal(np.diff(series.time), np.timedelta64(1, "h"))
    assert (series.delay, series.period, series.target) == (2, 24, "bikes rented in an hour")


def test_no_input_gives_the_answer_away(tmp_path):
    """The parts of the count never; the count itself where the protocol has it by then."""
    (tmp_path / "hour.csv").write_text(bike_csv(range(40)))
    for horizon, delay, present in ((0, None, False), (1, None, True), (6, 1, True), (2, 5, False)):
        series = public_series("bike", tmp_path, horizon=horizon, delay=delay)
        assert ("cnt" in series.names) == present
        assert not {"casual", "registered", "instant"} & set(series.names)
        assert series.delay == (delay or max(horizon, 1))


@pytest.mark.parametrize("name", PUBLIC)
def test_where_the_file_is_absent_one_sentence_says_what_to_do(tmp_path, name):
    with pytest.raises(LatentTrackError) as caught:
        public_series(name, tmp_path)
    for word in (*PUBLIC[name].files, PUBLIC[name].address, str(tmp_path), "LATENTTRACK_DATA"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "file", "text", "says"),
    [
        ("bike", "hour.csv", etth1_csv(range(3)), "no column of dates 'dteday'"),
        ("etth1", "etth1.csv", etth1_csv(range(3)).replace("OT", "oil"), "no column of numbers 'OT'"),
        ("etth1", "etth1.csv", etth1_csv(range(3)).replace(",6,1", ",6,hot"), "no column of numbers 'OT'"),
        ("bike", "hour.csv", bike_csv(range(3)).replace("2011-01-01,1,0,1,1,", ",1,0,1,1,"), "row 2"),
        ("bike", "hour.csv", bike_csv(range(3)).replace("1,0,1,1,0", "1,0,1,,0"), "no 'hr' in row 2"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, name, file, text, says):
    (tmp_path / file).write_text(text)
    with pytest.raises(LatentTrackError, match=says) as caught:
        public_series(name, tmp_path)
    assert str(tmp_path / file) in str(caught.value)


def test_unknown_datasets_are_refused():
    with pytest.raises(LatentTrackError, match="'etth1'"):
        public_series("etth2")


@needs("etth1.csv.gz")
def test_the_real_transformer():
    series = public_series("etth1", SHARED, horizon=6)
    assert series.x.shape == (17_420, 7)
    assert str(series.time[0]) == "2016-07-01T00:00:00.000000000"
    assert np.isnan(series.y).sum() == 6
    np.testing.assert_array_equal(series.y[:-6], series.x[6:, series.names.index("OT")])


@needs("bike_hour.csv.gz")
def test_the_real_bikes():
    series = public_series("bike", SHARED)
    assert series.x.shape == (731 * 24, 8)
    missing = np.isnan(series.x[:, -1])
    assert missing.sum() == 731 * 24 - 17_379
    np.testing.assert_array_equal(series.y[:-1], series.x[1:, -1])
    assert np.nanmax(series.y) == 977
