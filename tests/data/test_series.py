import subprocess
import sys

import numpy as np
import pytest

from latenttrack.data import Series, require_learnable
from latenttrack.errors import LatentTrackError


def make(n=6, **changes):
    values = {
        "x": np.arange(2.0 * n).reshape(n, 2),
        "y": np.arange(float(n)),
        "time": np.datetime64("2020-01-01", "ns") + np.arange(n) * np.timedelta64(1, "h"),
        "names": ("a", "b"),
    }
    return Series(**values | changes)


def two_keys():
    """Five rows of "p" at 0..4 and three of "q" at 2..4."""
    time = np.array([0, 1, 2, 3, 4, 2, 3, 4.0])
    return make(8, time=time, keys=("p", "q"), key=np.array([0, 0, 0, 0, 0, 1, 1, 1]))


def spoiled(n, row, column, value):
    x = np.arange(2.0 * n).reshape(n, 2)
    x[row, column] = value
    return x


BAD = {
    "rows differ": ({"x": np.zeros((5, 2))}, r"\(5, 2\).*\(6,\)"),
    "x is flat": ({"x": np.zeros(6)}, r"\(6,\).*\(6,\)"),
    "too few times": ({"time": np.arange(4.0)}, r"time has shape \(4,\).*\(6,\)"),
    "too few keys": ({"key": np.zeros(3, int)}, r"key has shape \(3,\).*\(6,\)"),
    "empty": ({"x": np.zeros((0, 2)), "y": np.zeros(0), "time": np.zeros(0)}, "no rows"),
    "names": ({"names": ("a",)}, r"names has 1 entries.*\(6, 2\)"),
    "names repeat": ({"names": ("a", "a")}, "'a' occurs twice"),
    "infinite x": ({"x": spoiled(6, 3, 1, np.inf)}, "'b' is infinite in row 4"),
    "infinite y": (
        {"y": np.array([0, 1, -np.inf, 3, 4, 5]), "target": "load"},
        "'load' is infinite in row 3",
    ),
    "unsorted": ({"time": np.array([0, 1, 3, 2, 4, 5.0])}, "not sorted: step 2 comes after step 3.*sort"),
    "duplicate": ({"time": np.array([0, 1, 2, 2, 4, 5.0])}, "not unique: step 2 occurs twice.*drop"),
    "no time": ({"time": np.array([0, 1, np.nan, 3, 4, 5.0])}, "time of row 3 is missing"),
    "odd time": ({"time": np.array(list("abcdef"))}, "time holds neither"),
    "text": ({"x": np.full((6, 2), "a")}, "x is not an array of numbers"),
    "delay": ({"delay": 0}, "delay is 0"),
    "half a delay": ({"delay": 1.5}, "delay is 1.5.*whole number"),
    "scale": ({"y_scale": 0.0}, "y_scale is 0"),
    "period": ({"period": 0}, "period is 0"),
    "half a period": ({"period": 2.5}, "period is 2.5.*whole number"),
    "key range": ({"key": np.array([0, 0, 0, 0, 0, 1])}, "from 0 to 1 and there are 1 keys"),
    "key order": ({"key": np.array([0, 0, 1, 1, 0, 0]), "keys": ("p", "q")}, "'p' do not stand together"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    changes, message = BAD[case]
    with pytest.raises(LatentTrackError, match=message):
        make(**changes)


def test_bad_time_names_its_key():
    time = np.array([0, 1, 2, 5, 4.0])
    with pytest.raises(LatentTrackError, match="of key 'q' are not sorted: step 4 comes after step 5"):
        make(5, time=time, keys=("p", "q"), key=np.array([0, 0, 0, 1, 1]))


def test_values_are_normalised():
    series = make(3, x=[[1, 2], [3, 4], [5, None]], key=None, time=[0, 1, 2])
    assert (series.x.dtype, series.time.dtype, series.key.dtype) == (np.float64, np.float64, np.int32)
    assert np.isnan(series.x[2, 1])
    assert series.key.tolist() == [0, 0, 0]
    assert len(series) == 3
    assert not series.has_clock
    assert make().has_clock


def test_select_takes_masks_and_indices():
    series = two_keys()
    by_mask, by_index = series.select(series.time >= 3), series.select(np.array([3, 4, 6, 7]))
    np.testing.assert_array_equal(by_mask.x, by_index.x)
    assert by_mask.y.tolist() == [3, 4, 6, 7]
    assert by_mask.key.tolist() == [0, 0, 1, 1]
    assert by_mask.keys == ("p", "q")


def test_split_cuts_all_keys_at_one_time():
    past, future = two_keys().split(0.5)
    assert past.time.max() < future.time.min()
    assert past.time.tolist() == [0, 1, 2, 2]
    assert future.time.tolist() == [3, 4, 3, 4]


def test_split_of_one_stream_has_the_exact_share():
    past, future = make(10).split(0.7)
    assert (len(past), len(future)) == (7, 3)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_split_refuses_a_wrong_fraction(fraction):
    with pytest.raises(LatentTrackError, match="fraction is"):
        make().split(fraction)


@pytest.mark.parametrize(("n", "fraction"), [(1, 0.5), (6, 0.01)])
def test_split_refuses_an_empty_part(n, fraction):
    with pytest.raises(LatentTrackError, match="leaves one part empty"):
        make(n).split(fraction)


def test_sequences_pad_at_the_end_and_point_back():
    series = two_keys()
    x = series.x.copy()
    x[1, 0] = np.nan
    series = make(8, x=x, time=series.time, keys=("p", "q", "unused"), key=series.key)
    batch = series.sequences()
    assert batch.valid.tolist() == [[True] * 5, [True] * 3 + [False] * 2, [False] * 5]
    np.testing.assert_array_equal(batch.x[batch.valid], series.x.astype(np.float32))
    assert np.all(batch.x[~batch.valid] == 0)
    assert np.isnan(batch.y[~batch.valid]).all()
    assert batch.x.dtype == batch.y.dtype == np.float32
    np.testing.assert_array_equal(series.y[batch.row[batch.valid]], batch.y[batch.valid])
    assert np.all(batch.row[~batch.valid] == 0)


def test_require_learnable():
    require_learnable(make(), minimum=6)
    with pytest.raises(LatentTrackError, match=r"6 rows with a label.*at least 64"):
        require_learnable(make())
    with pytest.raises(LatentTrackError, match=r"'load' is constant \(always 3\)"):
        require_learnable(make(y=np.full(6, 3.0), target="load"), minimum=2)
    with pytest.raises(LatentTrackError, match=r"\(always 7\)"):  # in the label's own units
        require_learnable(make(y=np.zeros(6), y_loc=7.0, y_scale=2.0), minimum=2)
    with pytest.raises(LatentTrackError, match="all labels of 'load' are missing"):
        require_learnable(make(y=np.full(6, np.nan), target="load"), minimum=2)


@pytest.mark.parametrize("unit", [1e300, 1e40, 1e16, 1e-17, 1e-300])
def test_labels_that_single_precision_cannot_square_are_refused(unit):
    y = np.random.default_rng(0).normal(size=100)
    for changes in ({"y": y * unit}, {"y": y, "y_scale": unit}):
        with pytest.raises(LatentTrackError, match=r"'load' has a standard deviation of .* in other units"):
            require_learnable(make(100, target="load", **changes))
    require_learnable(make(100, y=y * 1e12))
    require_learnable(make(100, y=y * 1e-12))


def test_the_room_imports_no_heavy_library():
    heavy = "jax", "scipy", "narwhals", "pandas", "polars", "pyarrow"
    code = f"import sys, latenttrack.data; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
