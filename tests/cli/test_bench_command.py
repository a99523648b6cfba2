"""`latenttrack bench` as a user runs it: killed and resumed, called wrongly, and read by machines."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console

from latenttrack.cli.bench import _means
from latenttrack.evaluation.archive import read_records

SMALL = ("airports", "--seeds", "2", "--epochs", "3", "--rows", "300")
MODELS = ("--models", "lt-structured,deep-ensemble,rls")
SCORES = {
    *(f"{score}_{over}" for score in ("nll", "mse") for over in ("mean", "trimmed", "median", "max")),
    "nll_trimmed_median", "mse_trimmed_median", "crps_mean", "coverage_90", "pit_ks", "epistemic_share",
}  # fmt: skip


def start(*arguments, cwd):
    return subprocess.Popen(
        [sys.executable, "-m", "latenttrack", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments, cwd):
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small bench, run without a break."""
    folder = tmp_path_factory.mktemp("bench")
    code, out, err = run("bench", *SMALL, *MODELS, "-o", "whole", cwd=folder)
    assert code == 0, err
    return folder / "whole", out


def without_time(summary):
    """What must not depend on interruptions: everything but seconds and the command line."""
    for entry in summary["models"].values():
        del entry["seconds"]
    return {name: value for name, value in summary.items() if name not in ("seconds", "command")}


def read(folder):
    return json.loads((folder / "summary.json").read_bytes())


@pytest.mark.slow
def test_summary_has_every_number(finished):
    folder, out = finished
    summary = read(folder)
    assert list(summary["models"]) == ["lt-structured", "deep-ensemble", "rls"]
    for name, entry in summary["models"].items():
        assert len(entry["seeds"]) == (1 if name == "rls" else 2)
        assert all(set(row) == SCORES for row in entry["seeds"])
        assert entry["reference"] == (name == "rls")
        assert 0 <= entry["failure_rate"] <= 1
        assert set(entry["seconds"]) == {"train", "evaluate"}
        assert entry["parameters"]["inference"] <= entry["parameters"]["total"]
        records = read_records(folder / f"{name}.parquet")
        assert records.seeds == len(entry["seeds"])
    networks = [
        summary["models"][name]["ranks"]["nll"]["first"] for name in ("lt-structured", "deep-ensemble")
    ]
    assert sum(networks) == pytest.approx(1.0)
    assert summary["track"]["test_steps"] == 270
    assert {"python", "jax", "latenttrack"} <= set(summary["versions"])
    assert "lt-structured" in out
    assert not list(folder.glob("*.checkpoint"))


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_to_the_same_result(finished, tmp_path):
    """SIGKILL after the first epoch is on disk, when the first model is trained, and in the last."""
    whole, _ = finished
    arguments = ("bench", *SMALL, *MODELS, "-o", "broken")
    folder = tmp_path / "broken"
    for sign in ("lt-structured.checkpoint", "lt-structured.lt", "deep-ensemble.checkpoint"):
        process = start(*arguments, cwd=tmp_path)
        limit = time.monotonic() + 300
        while process.poll() is None and not (folder / sign).exists() and time.monotonic() < limit:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (folder / "summary.json").exists()
    code, _, err = run(*arguments, cwd=tmp_path)
    assert code == 0, err
    assert without_time(read(folder)) == without_time(read(whole))
    for name in ("lt-structured", "deep-ensemble", "rls"):
        assert (folder / f"{name}.parquet").read_bytes() == (whole / f"{name}.parquet").read_bytes()


@pytest.mark.slow
def test_a_finished_bench_is_not_run_again_and_not_mixed_with_another(finished):
    folder, _ = finished
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    code, _, err = run("bench", *SMALL, *MODELS, "-o", str(folder), cwd=folder)
    assert (code, err.count("was done before")) == (0, 3)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")} == before
    other = ("airports", "--seeds", "3", "--epochs", "3", "--rows", "300")
    code, _, err = run("bench", *other, *MODELS, "-o", str(folder), cwd=folder)
    assert code == 2
    assert "another folder" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_page_of_a_bench(finished):
    folder, _ = finished
    code, out, err = run("report", str(folder), cwd=folder)
    assert code == 0, err
    assert out.strip().endswith("report.html")
    assert (folder / "report.html").stat().st_size < 15e6


@pytest.mark.slow
def test_trees_stand_among_the_references(tmp_path):
    """Trained once, whatever the number of seeds; scored step by step like every other model."""
    code, out, err = run("bench", *SMALL, "--models", "lightgbm,last-label", "-o", "trees", cwd=tmp_path)
    assert code == 0, err
    entry = read(tmp_path / "trees")["models"]["lightgbm"]
    assert (len(entry["seeds"]), entry["reference"], entry["training"]) == (1, True, None)
    assert set(entry["seeds"][0]) == SCORES
    assert entry["settings"] == {"folds": 5, "transform": None}
    assert entry["parameters"]["total"] > 0
    steps = [read_records(tmp_path / "trees" / f"{name}.parquet") for name in ("lightgbm", "last-label")]
    for field in ("time", "key"):
        np.testing.assert_array_equal(*(getattr(records, field) for records in steps))
    # A label that was standardised has been rounded twice on its way back.
    np.testing.assert_allclose(*(records.y for records in steps), rtol=1e-12, atol=1e-12)
    assert "lightgbm" in out


def made_up(**paired):
    """A summary with two models, whose difference is as given."""
    row = {"nll_mean": 1.5, "crps_mean": 0.3, "mse_mean": 0.4, "coverage_90": 0.9, "pit_ks": 0.01}
    worse = {**row, "nll_mean": 2.0}
    other = {"seeds": [row, worse], **({"paired": {"nll": paired}} if paired else {})}
    return {"models": {"gru": other, "latent-track": {"seeds": [row]}}}


def shown(summary):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(_means(summary))
    return [line.split() for line in console.export_text().splitlines()]


@pytest.mark.parametrize(
    ("difference", "error", "said"),
    [
        (0.03512, 0.0041, ["+.035", "±.004"]),
        (-10.5, 0.25, ["-10.500", "±.250"]),
        (0.0001, None, ["+.000"]),
        (None, None, ["inf"]),
    ],
)
def test_means_over_seeds_and_the_difference_to_latent_track(difference, error, said):
    head, gru, lead, *caption = shown(made_up(difference=difference, standard_error=error))
    assert head == ["model", "NLL", "CRPS", "MSE", "90%", "cov", "PIT-KS", "vs", "latent-track"]
    assert gru == ["gru", "1.750", "0.300", "0.400", "0.900", "0.010", *said]
    assert lead == ["latent-track", "1.500", "0.300", "0.400", "0.900", "0.010"]
    assert "means over seeds" in " ".join(caption[0])


def test_without_latent_track_there_is_no_such_column():
    summary = made_up()
    summary["models"]["gru"]["seeds"][1]["nll_mean"] = None
    head, gru, *_ = shown(summary)
    assert "latent-track" not in head
    assert gru[1] == "inf"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bench", "papper"), "paper"),
        (("bench",), "paper-clean"),
        (("bench", "airports", "--models", "lt-struct"), "lt-structured"),
        (("bench", "airports", "--seeds", "0"), "--seeds"),
        (("bench", "paper", "--data-dir", "."), "latenttrack data fetch jena"),
        (("bench", "bike-next-hour", "--models", "rls", "--data-dir", "."), "https://archive.ics.uci.edu"),
    ],
)
def test_mistakes_are_named(tmp_path, arguments, said):
    process = subprocess.run(
        [sys.executable, "-m", "latenttrack", *arguments],
        cwd=tmp_path,
        env=os.environ | {"LATENTTRACK_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 2
    assert said in process.stderr
    assert "Traceback" not in process.stderr
    assert not list(tmp_path.glob("runs/**/*.lt"))


def test_tracks_are_listed(tmp_path):
    code, out, _ = run("bench", "--list", cwd=tmp_path)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][:2] == ["paper", "paper-clean"]


def test_the_ledger_for_machines(tmp_path):
    code, out, _ = run("models", "--json", cwd=tmp_path)
    assert code == 0
    assert json.loads(out)["bbb"]["total"] == 20_060
    code, out, _ = run("models", cwd=tmp_path)
    assert code == 0
    assert "19,112" in out
