from pathlib import Path

import pytest
from click.testing import CliRunner

from latenttrack.cli.data import data
from latenttrack.data import jena
from latenttrack.data.jena import OFFICIAL, OFFICIAL_FILE
from latenttrack.errors import LatentTrackError


def run(*arguments):
    return CliRunner().invoke(data, [str(argument) for argument in arguments], catch_exceptions=False)


def write_hourly(path, rows):
    """An hourly file from (time, temperature, wind) triples; every other column is 1."""
    lines = [",".join(OFFICIAL.header)]
    for time, temperature, wind in rows:
        fields = dict.fromkeys(OFFICIAL.header[1:], "1") | {"T (degC)": temperature, "wv (m/s)": wind}
        lines.append(",".join([time, *fields.values()]))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    rows = [
        ("01.01.2009 00:10:00", "-3.5", "2"),
        ("01.01.2009 01:10:00", "", "-9999"),
        ("01.01.2009 02:10:00", "0.5", "4"),
        ("01.01.2009 05:40:00", "9.25", "3"),
        ("01.01.2009 06:40:00", "1", "-9999"),
        ("01.01.2009 07:40:00", "1", "1"),
    ]
    write_hourly(tmp_path / "jena_hourly_2009_2016.csv", rows)
    return tmp_path


def test_show(folder):
    text = run("show", "jena", "--data-dir", folder).stdout
    assert "jena: 6 rows from 2009-01-01 00:10 to 2009-01-01 07:40" in text
    assert f"file: {folder / 'jena_hourly_2009_2016.csv'}\n" in text
    assert "gaps: 1, the longest 3.5 h after 2009-01-01 02:10" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    # smallest, median, largest, sentinels, missing
    assert rows["T"][-5:] == ["-3.50", "1.00", "9.25", "0", "1"]
    assert rows["wv"][-5:] == ["1.00", "2.50", "4.00", "2", "0"]
    assert set(jena.MEASUREMENTS) <= set(rows)


def test_show_without_gaps_and_without_values(tmp_path):
    write_hourly(
        tmp_path / "jena_hourly_2009_2016.csv",
        [(f"01.01.2009 0{hour}:10:00", "1", "-9999") for hour in range(5)],
    )
    text = run("show", "jena", "--data-dir", tmp_path).stdout
    assert "gaps: none" in text
    assert next(line for line in text.splitlines() if line.startswith("wv")).split()[-3:] == [
        "(m/s)",
        "5",
        "0",
    ]


def test_show_looks_where_the_environment_says(folder, monkeypatch):
    monkeypatch.setenv("LATENTTRACK_DATA", str(folder))
    assert "6 rows" in run("show", "jena").stdout


def test_show_without_the_file(tmp_path):
    with pytest.raises(LatentTrackError, match="latenttrack data fetch jena"):
        run("show", "jena", "--data-dir", tmp_path)


@pytest.mark.parametrize("command", ["fetch", "show"])
def test_unknown_dataset(command, tmp_path):
    with pytest.raises(LatentTrackError, match=r"no dataset 'jenna' \(did you mean 'jena'"):
        run(command, "jenna", "--data-dir", tmp_path)


def test_fetch_prints_the_path_and_nothing_else(monkeypatch, tmp_path):
    content = b"fetched"

    def download(address, limit, progress):
        assert (address, limit) == (OFFICIAL.address, OFFICIAL.size)
        progress(3, None)
        progress(len(content), len(content))
        return content

    monkeypatch.setattr(jena, "download", download)
    monkeypatch.setattr(jena, "_fault", lambda archive: None)
    result = run("fetch", "jena", "--data-dir", tmp_path)
    path = tmp_path / f"{OFFICIAL_FILE}.zip"
    assert (result.stdout, result.stderr) == (f"{path}\n", "")
    assert Path(result.stdout.strip()).read_bytes() == content
