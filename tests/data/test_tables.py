import gzip
import json
import re
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latenttrack.data import Table, read_table, to_series
from latenttrack.data.categories import kind_of
from latenttrack.data.clocks import in_order
from latenttrack.data.columns import from_text, from_values, times_from_text
from latenttrack.data.feed import Feed
from latenttrack.errors import LatentTrackError

CSV = (
    "when,load,site,flag\n"
    "2020-01-01T00:00:00Z,1.5,north,True\n"
    "2020-01-01T01:00:00Z,,south,False\n"
    "2020-01-01T02:00:00Z,-3e2,,True\n"
)
WHEN = [datetime(2020, 1, 1, hour, tzinfo=UTC) for hour in range(3)]
COLUMNS = {
    "when": WHEN,
    "load": [1.5, None, -300.0],
    "site": ["north", "south", None],
    "flag": [True, False, True],
}


def write(path, content):
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def json_lines():
    rows = [dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)]
    return "\n".join(json.dumps(row | {"when": row["when"].isoformat()}) for row in rows)


def as_zip(folder):
    with zipfile.ZipFile(folder / "t.csv.zip", "w") as archive:
        archive.writestr("t.csv", CSV)
        archive.writestr("__MACOSX/._t.csv", "junk")
    return folder / "t.csv.zip"


def as_parquet(folder):
    pq.write_table(pa.table(COLUMNS), folder / "t.parquet")
    return folder / "t.parquet"


SOURCES = {
    "csv": lambda folder: write(folder / "t.csv", CSV),
    "path as text": lambda folder: str(write(folder / "t.csv", CSV)),
    "csv.gz": lambda folder: write(folder / "t.csv.gz", CSV),
    "csv.zip": as_zip,
    "semicolons": lambda folder: write(folder / "t.csv", CSV.replace(",", ";").replace("1.5", "1,5")),
    "tabs": lambda folder: write(folder / "t.tsv", CSV.replace(",", "\t")),
    "tabs, packed": lambda folder: write(folder / "t.tsv.gz", CSV.replace(",", "\t")),
    "tabs, decimal comma": lambda folder: write(
        folder / "t.csv", CSV.replace(",", "\t").replace("1.5", "1,5")
    ),
    "bars": lambda folder: write(folder / "t.txt", CSV.replace(",", "|")),
    "UTF-16": lambda folder: write(folder / "t.csv", CSV.encode("utf-16")),
    "UTF-16, other end first": lambda folder: write(folder / "t.csv", ("\ufeff" + CSV).encode("utf-16-be")),
    "windows": lambda folder: write(folder / "T.CSV", "\ufeff" + CSV.replace("\n", "\r\n")),
    "jsonl": lambda folder: write(folder / "t.jsonl", json_lines()),
    "ndjson.gz": lambda folder: write(folder / "t.ndjson.gz", json_lines()),
    "parquet": as_parquet,
    "pandas": lambda folder: pd.DataFrame(COLUMNS),
    "pandas, time as index": lambda folder: pd.DataFrame(COLUMNS).set_index("when"),
    "polars": lambda folder: pl.DataFrame(COLUMNS),
    "lazy polars": lambda folder: pl.DataFrame(COLUMNS).lazy(),
    "pyarrow": lambda folder: pa.table(COLUMNS),
    "dict": lambda folder: COLUMNS,
}


@pytest.mark.parametrize("source", SOURCES)
def test_all_readers_agree(source, tmp_path):
    table = read_table(SOURCES[source](tmp_path))
    assert set(table.columns) == {"when", "load", "site", "flag"}
    hours = np.datetime64("2020-01-01", "ns") + np.arange(3) * np.timedelta64(1, "h")
    assert table.columns["when"].dtype == np.dtype("datetime64[ns]")
    np.testing.assert_array_equal(table.columns["when"], hours)
    assert table.columns["load"].dtype == table.columns["flag"].dtype == np.float64
    np.testing.assert_array_equal(table.columns["load"], [1.5, np.nan, -300])
    np.testing.assert_array_equal(table.columns["flag"], [1, 0, 1])
    assert table.columns["site"].tolist() == ["north", "south", ""]
    assert len(table) == 3
    assert read_table(table) is table


def test_frames_with_other_types_agree():
    day = [datetime(2020, 1, 1).date(), datetime(2020, 1, 2).date()]
    columns = {"day": day, "n": [1, 2], "kind": ["u", "v"]}
    frames = [
        pd.DataFrame(columns | {"kind": pd.Categorical(["u", "v"])}),
        pl.DataFrame(columns).with_columns(pl.col("kind").cast(pl.Categorical), pl.col("n").cast(pl.Int8)),
        pa.table(columns | {"kind": pa.array(["u", "v"]).dictionary_encode()}),
    ]
    for frame in frames:
        table = read_table(frame)
        assert table.columns["day"].tolist() == [1577836800 * 10**9, 1577923200 * 10**9]
        assert table.columns["day"].dtype == np.dtype("datetime64[ns]")
        assert table.columns["n"].dtype == np.float64
        assert table.columns["kind"].tolist() == ["u", "v"]


def test_nullable_pandas_columns():
    columns = {
        "n": pd.array([1, None], "Int64"),
        "flag": pd.array([True, None], "boolean"),
        "odd": [1.5, pd.NA],
    }
    table = read_table(pd.DataFrame(columns))
    np.testing.assert_array_equal(table.columns["n"], [1, np.nan])
    np.testing.assert_array_equal(table.columns["flag"], [1, np.nan])
    np.testing.assert_array_equal(table.columns["odd"], [1.5, np.nan])


def test_zones_are_converted_to_utc():
    berlin = timezone(timedelta(hours=1))
    frame = {"when": [datetime(2020, 1, 1, 1, tzinfo=berlin)]}
    for source in (pd.DataFrame(frame), pl.DataFrame(frame), pa.table(frame), frame):
        assert read_table(source).columns["when"][0] == np.datetime64("2020-01-01T00:00")


def test_missing_words():
    words = ["", "NA", "NaN", "nan", "null", "None", "N/A", "n/a", "#N/A", "-", "?", "NULL"]
    np.testing.assert_array_equal(from_text([*words, " 1 "]), [np.nan] * len(words) + [1])
    padded = [f"  {word} " for word in words]
    np.testing.assert_array_equal(from_values([*padded, "1"]), [np.nan] * len(words) + [1])
    words += padded
    feed = Feed(("a",), "y")
    assert [feed.row({"a": word})[2] for word in words] == [["missing:a"]] * len(words)


def test_fields_may_be_filled_up_with_spaces(tmp_path):
    """As columns of one width are, whatever separates them."""
    for mark in ",;":
        rows = [
            ("time", "kind", "level"),
            ("2024-01-01", " a ", "  1"),
            ("2024-01-02", "a", "   "),
            (" ", "b", "NA "),
        ]
        table = read_table(write(tmp_path / "t.csv", "\n".join(map(mark.join, rows))))
        assert np.isnat(table.columns["time"]).tolist() == [False, False, True]
        assert table.columns["kind"].tolist() == ["a", "a", "b"]
        np.testing.assert_array_equal(table.columns["level"], [1, np.nan, np.nan])
    assert kind_of(" a ", ("a", "b")) == "a"
    assert kind_of("  ", ("a", "b")) == ""


def test_rows_without_anything_in_them_are_left_out(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "a,b\n1,2\n,\n\n3,\n , \n5,6\n,\n"))
    np.testing.assert_array_equal(table.columns["a"], [1, 3, 5])
    assert [table.number(row) for row in range(3)] == [1, 3, 5]  # a blank line was never a row
    np.testing.assert_array_equal(table.columns["b"], [2, np.nan, 6])
    assert len(read_table(write(tmp_path / "t.csv", 'a\n1\n""\n3\n'))) == 3  # a step that was missed
    with pytest.raises(LatentTrackError, match="header but no rows"):
        read_table(write(tmp_path / "t.csv", "a,b\n,\n,\n"))


def test_a_row_after_one_without_anything_is_named_by_its_place(tmp_path):
    path = write(tmp_path / "t.csv", "ts,y\n2020-01-02,1\n,\n2020-01-01,2\n,3\n")
    for source in (path, in_order(read_table(path), "ts", None).table):
        with pytest.raises(LatentTrackError, match="'ts' is empty in row 4"):
            to_series(source, target="y")
    path = write(tmp_path / "t.csv", "ts,y\n2020-01-02,1\n,\n2020-01-01,2\n")
    ordered = in_order(read_table(path), "ts", None).table
    assert [ordered.number(row) for row in range(2)] == [3, 1]


THOUSANDS = {
    "told by the column": ("y\n1.100,5\n900\n", [1100.5, 900.0]),
    "told by another column": ("y;a\n1.100;1,5\n900;2,5\n", [1100.0, 900.0]),
    "told by a million": ("y;a\n1.100;1.100.000\n900;1.200.000\n", [1100.0, 900.0]),
    "not all points have three digits after them": ("y;a\n1.100;1,5\n9.25;2,5\n", [1.1, 9.25]),
    "a zero in front": ("y;a\n0.100;1,5\n0.250;2,5\n", [0.1, 0.25]),
    "not told": ("y;a\n1.100;1\n900;2\n", [1.1, 900.0]),
}


@pytest.mark.parametrize("case", THOUSANDS)
def test_points_that_mark_thousands(case, tmp_path):
    text, expected = THOUSANDS[case]
    table = read_table(write(tmp_path / "t.csv", text.replace("\n", ";\n") if ";" not in text else text))
    assert table.columns["y"].tolist() == expected
    assert table.doubtful == ({"y": "1.100"} if case == "not told" else {})


def test_a_point_is_no_mark_of_thousands_in_a_file_with_commas(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "y,a\n1.100,1\n1.200,2\n"))
    assert table.columns["y"].tolist() == [1.1, 1.2]
    assert table.doubtful == {}


def test_names_that_look_like_numbers_stay_text():
    assert from_text(["1_2", "12"]).tolist() == ["1_2", "12"]


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-31 06:05:00",
        "2020-01-31T06:05",
        "2020-01-31T06:05:00Z",
        "2020-01-31T07:05:00.000+01:00",
        "2020-01-31 00:35:00-0530",
        "31.01.2020 06:05:00",
        "31.01.2020 06:05",
        "31/01/2020 06:05",
        "31/1/2020 6:05:00",
        "01/31/2020 06:05",
        "1/31/2020, 6:05 AM",
        "2020/01/31 06:05",
    ],
)
def test_forms_of_time(text):
    assert times_from_text([text, ""])[0] == np.datetime64("2020-01-31T06:05", "ns")
    assert np.isnat(times_from_text([text, ""])[1])


@pytest.mark.parametrize(
    "text", ["now", "2020-02-30", "9999-12-31", "13/13/2020", "01/02/2020", "2020", "12:30", ""]
)
def test_what_is_not_a_time(text):
    assert times_from_text([text]) is None


def test_one_day_beyond_12_tells_days_from_months():
    days = times_from_text(["01/02/2020", "", "13/02/2020"])
    assert days.astype("datetime64[D]").astype(str).tolist() == ["2020-02-01", "NaT", "2020-02-13"]
    days = times_from_text(["01/02/2020 12:30 AM", "01/13/2020 12:30 pm"])
    assert days.astype("datetime64[m]").astype(str).tolist() == ["2020-01-02T00:30", "2020-01-13T12:30"]
    assert times_from_text(["01/02/2020", "02/12/2020"]) is None
    assert times_from_text(["13/02/2020", "02/13/2020"]) is None


def test_latin_1_header(tmp_path):
    path = write(tmp_path / "t.csv", "PAR (µmol/m²/s),Tür\n1,auf\n".encode("latin-1"))
    assert list(read_table(path).columns) == ["PAR (µmol/m²/s)", "Tür"]


def test_odd_but_legal_csv(tmp_path):
    path = write(tmp_path / "t.csv", '\n,"a, b"\n1,"x\ny"\n\n2,z\n')
    table = read_table(path)
    assert table.columns["column_1"].tolist() == [1, 2]
    assert table.columns["a, b"].tolist() == ["x\ny", "z"]


def test_json_lines_may_leave_out_fields(tmp_path):
    path = write(tmp_path / "t.jsonl", '{"a": 1}\n\n{"a": null, "b": "x"}\n{"a": true, "b": 2}\n')
    table = read_table(path)
    np.testing.assert_array_equal(table.columns["a"], [1, np.nan, 1])
    assert table.columns["b"].tolist() == ["", "x", "2"]


BROKEN = {
    "empty": ("t.csv", "", "t.csv is empty"),
    "blank": ("t.jsonl", " \n\n", "t.jsonl is empty"),
    "header only": ("t.csv", "a,b\n", "header but no rows"),
    "ragged": ("t.csv", "a,b\n1,2\n3\n", "line 3, has 1 fields and the header has 2"),
    "open quote": ("t.csv", 'a,b\n1,"2\n', "line 2, is not CSV"),
    "repeated name": ("t.csv", "a,b,a\n1,2,3\n", "two columns named 'a'"),
    "format": ("t.xlsx", "PK", r"t.xlsx has a format that is not known.*\.parquet"),
    "bad JSON": ("t.jsonl", '{"a": 1}\n{"a": \n', "line 2, is not a JSON object"),
    "JSON array": ("t.jsonl", "[1, 2]\n", "line 1, is not a JSON object"),
    "nested JSON": ("t.jsonl", '{"a": {"b": 1}}\n', "line 1: 'a' holds a list or an object"),
    "no fields": ("t.jsonl", "{}\n", "has no columns"),
    "parquet": ("t.parquet", "not parquet", "t.parquet is not a readable Parquet file"),
    "zip": ("t.csv.zip", "not zip", "t.csv.zip is not a readable compressed file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_named(case, tmp_path):
    name, content, message = BROKEN[case]
    with pytest.raises(LatentTrackError, match=message):
        read_table(write(tmp_path / name, content))


@pytest.mark.parametrize(
    "content",
    [b"a,b\n1,2\n", gzip.compress(CSV.encode())[:-12], gzip.compress(b"")],
    ids=["plain", "truncated", "empty"],  # bytes with the time of compression in them make no name
)
def test_broken_gzip(content, tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(content)
    with pytest.raises(LatentTrackError, match=r"t\.csv\.gz is (not a readable compressed file|empty)"):
        read_table(tmp_path / "t.csv.gz")


def test_zip_with_two_members(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("a.csv", CSV)
        archive.writestr("b.csv", CSV)
    with pytest.raises(LatentTrackError, match="holds 2 files"):
        read_table(tmp_path / "t.csv.zip")


def test_no_such_file_and_directory(tmp_path):
    with pytest.raises(LatentTrackError, match=r"there is no file .*nothing\.csv"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(LatentTrackError, match="is a directory"):
        read_table(tmp_path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = as_parquet(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(LatentTrackError, match=r'pip install "latenttrack\[data\]"'):
        read_table(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([1, 2], "the list cannot be read as a table"),
        (np.zeros((2, 2)), "the ndarray cannot be read as a table"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "same name.*'a'"),
        (pa.table([[1], [2]], names=["a", "a"]), "same name.*'a'"),
        (pd.DataFrame({"a": []}), "columns but no rows"),
        ({"a": [1, 2], "b": [1]}, "'a' has 2 rows and column 'b' has 1"),
        ({"a": np.zeros((2, 2))}, r"'a' has shape \(2, 2\)"),
        ({"a": np.array(["9999-01-01"], "datetime64[s]")}, "'a' holds the time 9999-01-01"),
        ({}, "no columns"),
    ],
)
def test_other_sources_are_refused(source, message):
    with pytest.raises(LatentTrackError, match=message):
        read_table(source)


def test_numbered_pandas_columns_get_text_names():
    assert list(read_table(pd.DataFrame([[1, 2]])).columns) == ["0", "1"]


def test_a_table_is_checked():
    with pytest.raises(LatentTrackError, match="sensors: column 'a' has 1 rows and column 'b' has 2"):
        Table({"a": np.zeros(1), "b": np.zeros(2)}, "sensors")


WITH_LITTLE_MEMORY = """
import resource, sys, time
from latenttrack.data import read_table
from latenttrack.errors import LatentTrackError
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
for path in sys.argv[1:]:
    begin = time.perf_counter()
    try:
        read_table(path)
    except LatentTrackError as error:
        print(time.perf_counter() - begin, error)
"""


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path):
    """Soon, and before the memory is full."""
    zeros = bytes(10 * 2**20)
    paths = [tmp_path / "bomb.csv.gz", tmp_path / "bomb.jsonl.gz", tmp_path / "bomb.csv.zip"]
    for path in paths[:2]:
        path.write_bytes(gzip.compress(zeros) * 400)
    with zipfile.ZipFile(paths[2], "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.csv", "w") as file:
        for _ in range(20):
            file.write(zeros)
    done = subprocess.run(
        [sys.executable, "-c", WITH_LITTLE_MEMORY, *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    for line, path in zip(lines, paths, strict=True):
        seconds, sentence = line.split(" ", 1)
        assert float(seconds) < 10.0
        assert re.match(rf"{path} unpacks to more than \d\d MiB", sentence)


def test_tables_of_too_many_rows_or_columns_are_refused(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [0] * 1000}), tmp_path / "t.parquet")
    path = write(tmp_path / "t.csv", "," * 200_000 + "\n")
    with pytest.raises(LatentTrackError, match="200001 fields"):
        read_table(path)
    monkeypatch.setattr("latenttrack.data.tables.MOST_BYTES", 4000)
    with pytest.raises(LatentTrackError, match="1000 rows"):
        read_table(tmp_path / "t.parquet")
