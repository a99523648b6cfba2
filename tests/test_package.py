import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import latenttrack

ROOT = Path(__file__).parents[1]


def test_import_is_light():
    command = "import latenttrack, sys; print(latenttrack.LatentTrackError.__name__, *sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    ).stdout
    modules = set(output.split())
    assert "LatentTrackError" in modules
    assert not modules & {"jax", "numpy", "click", "latenttrack.data"}


def test_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert latenttrack.__version__ == project["version"], "run `make clean test` after changing the version"


@pytest.mark.parametrize("name", latenttrack.__all__)
def test_every_public_name_can_be_had_and_is_listed(name):
    assert getattr(latenttrack, name) is getattr(latenttrack, name)
    assert name in dir(latenttrack)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(latenttrack.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: statement.module for statement in block.body for alias in statement.names}
    assert seen == latenttrack._ROOM_OF


def test_unknown_name():
    with pytest.raises(AttributeError, match="'latenttrack' has no attribute 'nonsense'"):
        _ = latenttrack.nonsense
