"""From a public file to a live stream and a fan, as a user types it."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"
# A reference, which has nothing to train: a network goes the same way in the test of the guide.
RUNS = {
    "etth1": ("etth1.csv.gz", ["--target", "OT", "--time", "date", "--model", "rls-t"]),
    "bike": ("bike_hour.csv.gz", ["--target", "cnt", "--time", "dteday", "--model", "rls-t"]),
}


def type_in(folder, *words):
    """The command in a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "latenttrack", *words],
        cwd=folder,
        env={**os.environ, "LATENTTRACK_CACHE": str(folder / "cache"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def split_file(source, folder, newest):
    """The file without its newest rows, and those as rows of their own."""
    with gzip.open(source, "rt") as file:
        header, *rows = list(csv.reader(file))
    with (folder / "past.csv").open("w") as file:
        csv.writer(file).writerows([header, *rows[:-newest]])
    return [dict(zip(header, row, strict=True)) for row in rows[-newest:]]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_fit_stream_forecast(name, tmp_path):
    file, words = RUNS[name]
    if not (SHARED / file).exists():
        pytest.skip(f"{file} is not at hand")
    rows = split_file(SHARED / file, tmp_path, 100)
    fitted = type_in(tmp_path, "fit", "past.csv", *words, "-o", "m.lt")
    assert "is worth having: " in " ".join(fitted.split())
    lines = []
    for row in rows:
        time = row.pop("date") if name == "etth1" else f"{row.pop('dteday')}T{int(row.pop('hr')):02}:00:00"
        lines.append(json.dumps({"time": time, "x": row}))
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n")
    stream = ("stream", "m.lt", "--in", "events.jsonl", "--out", "said.jsonl", "--snapshot", "m.state")
    type_in(tmp_path, *stream)
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert len(said) == len(rows)
    assert not any("error" in one for one in said)
    target = words[1]
    inside = [
        one["quantiles"]["0.05"] <= float(after[target]) <= one["quantiles"]["0.95"]
        for one, after in zip(said, rows[1:], strict=False)
    ]
    # Of 99, 90 % are promised: 89, and three standard deviations of independent steps on both sides.
    assert 80 <= sum(inside) <= 98
    fan = type_in(tmp_path, "forecast", "m.lt", "--steps", "24")
    assert len(fan.splitlines()) == 25
    assert "kind snapshot" in type_in(tmp_path, "inspect", "m.state")
