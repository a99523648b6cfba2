"""`latenttrack demo` as a user calls it, with models that take no training."""

import os
import subprocess
import sys

import pytest

from latenttrack.cli import demo as cli_demo
from latenttrack.errors import LatentTrackError

FIGURES = {"forecast_week.png", "error_over_time.png", "pit_histograms.png", "uncertainty_split.png"}


def demo(*arguments, folder):
    # As on a new machine: nothing compiled yet, and compiled as for a user, not as quickly as for a test.
    fresh = {"LATENTTRACK_CACHE": str(folder.parent / "cache"), "XLA_FLAGS": ""}
    return subprocess.run(
        [sys.executable, "-m", "latenttrack", "demo", *arguments],
        cwd=folder,
        env=os.environ | fresh,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "truth"), [("drift", True), ("airports", False)])
def test_one_table_and_four_figures(tmp_path, stream, truth):
    done = demo("--stream", stream, "--models", "last-label, rls,rls", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first_words = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert [word for word in first_words if word in ("last-label", "rls", "truth")] == [
        "last-label",
        "rls",  # asked for twice, shown once
        *(["truth"] if truth else []),
    ]
    assert {path.name for path in (tmp_path / "runs" / "demo").iterdir()} == FIGURES
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--models", "rls,lt-strctured"), "no model 'lt-strctured' (did you mean 'lt-structured'"),
        (("--stream", "drfit"), "did you mean 'drift'"),
        (("--stream", "drift", "--out", "taken/here"), "cannot make the folder 'taken/here'"),
    ],
    ids=["model", "stream", "folder"],
)
def test_mistakes_get_one_sentence_and_leave_nothing_behind(tmp_path, arguments, says):
    (tmp_path / "taken").write_text("a file, not a folder")
    done = demo(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_without_matplotlib_nothing_is_trained(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(cli_demo, "prepare", lambda *args, **kwargs: pytest.fail("the work has begun"))
    with pytest.raises(LatentTrackError, match=r'matplotlib.*pip install "latenttrack\[plots\]"'):
        cli_demo.demo.main(["-o", str(tmp_path / "out")], standalone_mode=False)
    assert not (tmp_path / "out").exists()
