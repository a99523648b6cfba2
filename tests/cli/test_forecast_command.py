"""`latenttrack forecast` as a user types it."""

import csv
import io

import numpy as np
import pytest
from click.testing import CliRunner

import latenttrack as lt
from latenttrack.cli.main import cli
from latenttrack.data.series import Series

FAN = ["time", "step", "mean", "std", "q0.05", "q0.25", "q0.5", "q0.75", "q0.95"]
HOUR = np.timedelta64(3600, "s")
START = np.datetime64("2026-01-01T00:00:00", "ns")
ROWS = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that ends after 100 hours, and files of what came then."""
    folder, rng = tmp_path_factory.mktemp("forecast"), np.random.default_rng(0)
    n = ROWS + 10
    wind = rng.normal(size=n)
    power = 10 + np.append(0.0, wind[:-1]) + 0.1 * rng.normal(size=n)
    time = START + np.arange(n) * HOUR
    label = np.append(power[1:], np.nan)
    names = ("power", "wind")
    raw = Series(
        np.column_stack([power, wind]), label, time, names, "power", delay=1, source="power", horizon=1
    ).select(np.arange(ROWS))
    prepared, _, pipeline = lt.prepare(raw, 0.9, calendar={}, missing=False)
    lt.fit("rls", prepared, pipeline=pipeline).advance(raw).save(folder / "plant.lt")
    stamps = time.astype("datetime64[s]").astype(str)
    lines = [f"{t},{p:.4f},{w:.4f}" for t, p, w in zip(stamps, power, wind, strict=True)]
    ahead = [f"{line.split(',')[0]},,{line.split(',')[2]}" for line in lines]
    files = {"recent": lines[90:106], "old": lines[:50], "ahead": [*lines[90:106], *ahead[106:]]}
    files["untidy"] = [*reversed(files["ahead"]), lines[95]]
    for name, some in files.items():
        (folder / f"{name}.csv").write_text("\n".join(["time,power,wind", *some]))
    (folder / "narrow.csv").write_text("time,power\n2026-02-01 00:00:00,1.0")
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    """Beside the files."""
    monkeypatch.chdir(folder)


def run(*arguments):
    return CliRunner().invoke(
        cli, ["forecast", "plant.lt", "--samples", "10", *map(str, arguments)], standalone_mode=False
    )


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def test_a_table_on_standard_output():
    result = run("--in", "recent.csv", "--steps", 5)
    assert result.exception is None
    header, *lines = rows(result.stdout)
    assert header == FAN
    assert [line[0] for line in lines[:2]] == ["2026-01-05 10:00:00", "2026-01-05 11:00:00"]
    assert [line[1] for line in lines] == list("12345")
    numbers = np.array([line[2:] for line in lines], float)
    assert np.all(np.diff(numbers[:, 2:], axis=1) > 0)
    assert result.stderr == (
        "latenttrack: the future of wind is not known: earlier rows of the stream stand in\n"
    )


def test_what_is_known_of_the_future_is_not_missed():
    result = run("--in", "ahead.csv", "--steps", 4)
    assert result.exception is None
    assert result.stderr == ""


def test_rows_that_are_put_in_order_or_left_out_are_told():
    result = run("--in", "untidy.csv", "--steps", 4)
    assert result.exception is None
    assert result.stdout == run("--in", "ahead.csv", "--steps", 4).stdout
    assert result.stderr.splitlines() == [
        "latenttrack: untidy.csv: the rows were not in order of time, and are put in order",
        "latenttrack: untidy.csv: 1 row has the time of an earlier one, and is left out",
    ]


def test_without_recent_rows_it_begins_where_the_model_ends():
    assert rows(run("--steps", 1).stdout)[1][0] == "2026-01-05 04:00:00"


def test_files(tmp_path):
    fan, paths = tmp_path / "fan.csv", tmp_path / "paths.csv"
    result = run("--steps", 3, "-o", fan, "--paths", paths, "--seed", 7)
    assert result.stdout == ""
    assert rows(fan.read_text())[0] == FAN
    header, *lines = rows(paths.read_text())
    assert header == ["time", "step", *(f"path{s}" for s in range(1, 11))]
    again = lt.load("plant.lt").forecast(3, samples=10, seed=7)
    found = np.array([line[2:] for line in lines], float).T
    np.testing.assert_allclose(found, again.paths, rtol=1e-6)


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("SVG", b"<?xml")], ids=["png", "svg"])
def test_figures(tmp_path, ending, magic):
    out = tmp_path / f"fan.{ending}"
    assert run("--in", "recent.csv", "--steps", 3, "-o", out).exception is None
    assert out.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--steps", 2, "-o", "fan.docx"), r"fan.docx has an ending that is not known: .* \.svg or \.pdf"),
        (("--steps", 2, "--paths", "paths.png"), r"ends in \.csv"),
        (("--steps", 2, "-o", "nowhere/fan.csv"), "not an existing directory"),
        (("--steps", 2, "--in", "old.csv"), "before the model's own data do"),
        (("--steps", 2, "--in", "narrow.csv"), "narrow.csv has no column 'wind'"),
        (("--steps", 2, "--in", "nothing.csv"), "there is no file nothing.csv"),
    ],
)
def test_one_sentence_for_each_mistake(arguments, words):
    with pytest.raises(lt.LatentTrackError, match=words):
        raise run(*arguments).exception


def test_no_steps_are_refused():
    assert "0 is not in the range" in str(run("--steps", 0).exception)
