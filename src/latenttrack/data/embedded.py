"""The real stream that comes with the package: hourly weather at three New York airports in 2013."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from latenttrack.data.reading import Table, read_table, to_series
from latenttrack.data.series import Series

AIRPORTS_FILE = Path(__file__).parent / "files" / "airports_2013.csv.gz"
# One reading says 1048 mph (EWR, 12 February, 08:00 UTC); the strongest other one is below 50.
IMPOSSIBLE_WIND = 200.0


def airports(horizon: int = 1) -> Series:
    """Load hourly weather at EWR, JFK and LGA; predict the temperature some hours ahead.

    Temperature and dew point are converted from degrees Fahrenheit to degrees Celsius; wind speed stays in
    miles per hour, precipitation in inches, pressure in hPa, visibility in miles. Times are UTC. Hours
    without a report are rows of missing values. The one impossible wind speed is made missing; a false
    temperature (JFK, 9 May, 02:00 UTC: -10.5 between two of 14) looks possible and is kept.

    Args:
        horizon: hours ahead, also the label's delay; 0 gives the present temperature from the other columns.

    Returns:
        Three keys, one row an hour, period 24.
    """
    raw = read_table(AIRPORTS_FILE).columns
    angle = np.deg2rad(raw["wind_dir"])
    wind = raw["wind_speed"]
    columns = {
        "origin": raw["origin"],
        "time": raw["time_hour"],
        "temp": _celsius(raw["temp"]),
        "dewp": _celsius(raw["dewp"]),
        "humid": raw["humid"],
        "wind_dir_sin": np.sin(angle),
        "wind_dir_cos": np.cos(angle),
        "wind_speed": np.where(wind > IMPOSSIBLE_WIND, np.nan, wind),
        "precip": raw["precip"],
        "pressure": raw["pressure"],
        "visib": raw["visib"],
    }
    table = Table(columns, "the airports' weather")
    series = to_series(table, target="temp", time="time", key="origin", horizon=horizon, grid=True)
    return replace(series, target="temperature (°C)")


def _celsius(fahrenheit: np.ndarray) -> np.ndarray:
    return (fahrenheit - 32) / 1.8
