import json

import numpy as np
import pytest
from click.testing import CliRunner

from latenttrack.cli.inspect import inspect
from latenttrack.errors import LatentTrackError
from latenttrack.store import write_tensors


def run(*arguments):
    return CliRunner().invoke(inspect, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "m.lt"
    header = {
        "preset": "paper",
        "config": {"latent": 8, "hidden": [32, 32]},
        "names": [f"x{i}" for i in range(30)],
    }
    tensors = {"kernel": np.zeros((3, 4), np.float32), "step": np.array(5), "none": np.zeros((0, 2), bool)}
    write_tensors(path, tensors, header, "model")
    return path


def test_shows_the_whole_file(file):
    text = run(file).stdout
    for line in ("kind model", "schema 1", "preset paper", "latent 8", "hidden [32, 32]", "and 10 more"):
        assert line in text
    rows = [line.split() for line in text.splitlines()]
    assert ["kernel", "(3,", "4)", "float32"] in rows
    assert ["step", "()", "int64"] in rows
    assert ["none", "(0,", "2)", "bool"] in rows
    assert "tensors: 3, parameters: 13" in text


def test_json_is_for_machines(file):
    summary = json.loads(run(file, "--json").stdout)
    assert summary["kind"] == "model"
    assert summary["header"]["names"][29] == "x29"
    assert summary["tensors"]["kernel"] == {"shape": [3, 4], "dtype": "float32"}
    assert summary["parameters"] == 13


def test_file_without_tensors_or_header(tmp_path):
    write_tensors(tmp_path / "empty.lt", {}, {}, "snapshot")
    text = run(tmp_path / "empty.lt").stdout
    assert "kind snapshot" in text
    assert "header" not in text
    assert "tensors: 0, parameters: 0" in text


def test_long_tensor_names_are_shown_whole(tmp_path):
    name = "layer." * 30
    write_tensors(tmp_path / "long.lt", {name: np.zeros(2)}, {}, "model")
    shown = "".join(
        line.split()[0] for line in run(tmp_path / "long.lt").stdout.splitlines() if "layer" in line
    )
    assert shown == name


def test_contents_cannot_steer_the_terminal(tmp_path):
    evil = "\x1b[2J\x9b31m\u202e[bold]x[/bold][link=a]"
    write_tensors(
        tmp_path / "evil.lt", {evil: np.zeros(1)}, {evil: evil, "nested": {"a": [evil, [evil]]}}, evil
    )
    for arguments in ([], ["--json"]):
        output = run(tmp_path / "evil.lt", *arguments).stdout
        assert not set(output) & {"\x1b", "\x9b", "\u202e"}
        assert "[bold]x[/bold]" in output


def test_nesting_and_length_are_bounded(tmp_path):
    header = {"deep": json.loads("[" * 60 + "]" * 60), "wide": {str(i): {"a": i} for i in range(1000)}}
    write_tensors(tmp_path / "big.lt", {}, header, "model")
    text = run(tmp_path / "big.lt").stdout
    assert "and 980 more (see --json)" in text
    assert len(text.splitlines()) < 150


def test_damaged_file_is_refused(file):
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(LatentTrackError, match="cut short"):
        run(file)
