import hashlib
from pathlib import Path

import numpy as np
import pytest

from latenttrack.data import STREAMS, airports, load_stream
from latenttrack.data.embedded import AIRPORTS_FILE
from latenttrack.errors import LatentTrackError


def test_airports():
    series = airports()
    assert series.keys == ("EWR", "JFK", "LGA")
    assert np.bincount(series.key).tolist() == [8730, 8730, 8730]
    assert (series.delay, series.period, series.target) == (1, 24, "temperature (°C)")
    for key in range(3):
        assert np.all(np.diff(series.time[series.key == key]) == np.timedelta64(1, "h"))
    assert np.isnan(series.x).all(axis=1).sum() == 27 + 24 + 24  # hours without a report
    assert np.isnan(series.y).mean() < 0.01


def test_airports_units():
    series = airports()
    x = dict(zip(series.names, series.x.T, strict=True))
    assert -13 < np.nanmin(x["temp"]) < -9  # 10.94 F is -11.7 C
    assert 37 < np.nanmax(x["temp"]) < 38.5  # 100.04 F is 37.8 C
    assert np.nanmax(x["dewp"] - x["temp"]) < 3
    assert 5 < np.nanmax(x["wind_speed"]) < 60
    np.testing.assert_allclose(np.nanmax(x["wind_dir_sin"] ** 2 + x["wind_dir_cos"] ** 2), 1)
    assert abs(np.nanmedian(x["pressure"]) - 1017) < 2


@pytest.mark.parametrize("horizon", [1, 6])
def test_airports_label_is_the_temperature_to_come(horizon):
    series = airports(horizon)
    temp = series.x[:, series.names.index("temp")]
    for key in range(3):
        rows = np.flatnonzero(series.key == key)
        np.testing.assert_array_equal(series.y[rows[:-horizon]], temp[rows[horizon:]])
        assert np.isnan(series.y[rows[-horizon:]]).all()
    assert series.delay == horizon


def test_airports_days_start_at_the_right_hour():
    series = airports()
    temp = series.x[:, series.names.index("temp")]
    hour = (series.time - series.time.astype("datetime64[D]")) // np.timedelta64(1, "h")
    warmest = max(range(24), key=lambda h: np.nanmean(temp[hour == h]))
    assert warmest in (18, 19, 20)  # two to three in the afternoon in New York, in UTC


def test_airports_file_is_the_documented_one():
    assert AIRPORTS_FILE.stat().st_size < 300_000
    digest = hashlib.sha256(AIRPORTS_FILE.read_bytes()).hexdigest()
    assert digest in Path(AIRPORTS_FILE.parent / "PROVENANCE.md").read_text()


def test_load_stream():
    np.testing.assert_array_equal(load_stream("airports").y, airports().y)
    for name in STREAMS:
        np.testing.assert_array_equal(load_stream(name).y, STREAMS[name]().series.y)
    with pytest.raises(
        LatentTrackError, match=r"no stream 'airport' \(did you mean 'airports'.*'heavy-tails'"
    ):
        load_stream("airport")
