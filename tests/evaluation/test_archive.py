"""Records survive the disk, and damaged files are refused in one sentence."""

import dataclasses

import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.archive import read_records, write_records
from latenttrack.evaluation.records import FIELDS, Records, one_seed


def _records(time):
    rng = np.random.default_rng(0)
    steps = {name: rng.normal(size=(3, 5)).astype(np.float32) for name in FIELDS}
    steps["nll"][1, 2] = np.inf
    steps["nll"][:, 4] = np.nan
    y = np.array([1.0, 2.0, 3.0, 4.0, np.nan])
    return Records("lt", time, np.array([0, 0, 1, 1, 1]), ("a", "b"), "temperature (°C)", y, steps, 12, 3.5)


def _equal(left, right):
    for field in dataclasses.fields(Records):
        a, b = getattr(left, field.name), getattr(right, field.name)
        if field.name == "steps":
            assert a.keys() == b.keys()
            for name in a:
                np.testing.assert_array_equal(a[name], b[name])
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "time", [np.arange(5.0), np.datetime64("2015-07-13T09:40", "ns") + np.arange(5) * np.timedelta64(1, "h")]
)
def test_records_come_back_whole_and_one_seed_alone(tmp_path, time):
    records = _records(time)
    write_records(tmp_path / "lt.parquet", records)
    _equal(read_records(tmp_path / "lt.parquet"), records)
    for seed in range(3):
        _equal(read_records(tmp_path / "lt.parquet", seed), one_seed(records, seed))


def test_any_parquet_reader_opens_it(tmp_path):
    pl = pytest.importorskip("polars")
    write_records(tmp_path / "lt.parquet", _records(np.arange(5.0)))
    table = pl.read_parquet(tmp_path / "lt.parquet")
    assert table.columns == ["seed", "step", "time", "key", "y", *FIELDS]
    assert table.filter(pl.col("seed") == 2)["key"].to_list() == ["a", "a", "b", "b", "b"]


def test_what_is_not_a_record_is_refused(tmp_path):
    pl = pytest.importorskip("polars")
    with pytest.raises(LatentTrackError, match="there is no file"):
        read_records(tmp_path / "no.parquet")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "foreign.parquet")
    with pytest.raises(LatentTrackError, match="foreign"):
        read_records(tmp_path / "foreign.parquet")
    write_records(tmp_path / "lt.parquet", _records(np.arange(5.0)))
    whole = (tmp_path / "lt.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LatentTrackError, match="cut"):
        read_records(tmp_path / "cut.parquet")
    with pytest.raises(LatentTrackError, match="seed 3"):
        read_records(tmp_path / "lt.parquet", 3)
