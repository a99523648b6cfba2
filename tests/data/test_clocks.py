"""Which columns make the time of a row, and what becomes of rows that are not in its order."""

import numpy as np
import pytest

from latenttrack.data.describing import Selection, understand
from latenttrack.data.reading import read_table
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


@pytest.mark.parametrize("options", [{}, {"features": ("wind",)}], ids=["chosen", "named"])
def test_a_row_is_named_by_its_place_in_the_file(options):
    wind = np.where(np.arange(N) == 5, np.inf, WIND)
    with pytest.raises(LatentTrackError, match=f"'wind' is infinite in row {N - 5}:"):
        described(backward(table(wind=wind)), **options)


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
