"""`latenttrack fit` as a user types it: files that are fine, files that are not, runs that are stopped."""

import json
import os
import signal
import subprocess
import sys
import time

import click
import numpy as np
import pytest
from click.testing import CliRunner

from latenttrack.cli.main import cli
from latenttrack.data.describing import Selection
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation import fitting
from latenttrack.evaluation.evaluate import evaluate
from latenttrack.evaluation.fitting import fit_file
from latenttrack.fitted.events import answer
from latenttrack.fitted.model import load
from latenttrack.models.registry import REFERENCES
from latenttrack.training import automatic
from latenttrack.training.defaults import default_training

ROWS = 400


def plant(path, rows=ROWS, **changes):
    """Hourly power with a daily pattern, which follows the wind; one gap of three hours; some columns."""
    rng = np.random.default_rng(0)
    t = np.arange(rows)
    wind = rng.normal(size=rows)
    columns = {
        "ts": np.datetime64("2024-01-01T00:00", "m") + 60 * t,
        "number": t,
        "wind": wind.round(3),
        "pressure": np.where(t % 90 == 5, -9999.0, (1013 + rng.normal(size=rows)).round(2)),
        "site": np.full(rows, "north"),
        "power": (10 + 3 * np.sin(2 * np.pi * t / 24) + wind + 0.3 * rng.normal(size=rows)).round(3),
    } | changes
    columns = {name: column for name, column in columns.items() if column is not None}
    kept = [i for i in t if not 99 < i < 103]
    lines = [",".join(columns), *(",".join(str(c[i]) for c in columns.values()) for i in kept)]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(cli, ["fit", *map(str, arguments)], standalone_mode=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of a reference: what was said, the folder, and what `fit_file` gave."""
    folder, kept = tmp_path_factory.mktemp("fit"), []
    path = plant(folder / "plant.csv")

    def keep(*arguments, **options):
        kept.append(fit_file(*arguments, **options))
        return kept[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "fit_file", keep)
        out = folder / "plant.lt"
        result = run(path, "--target", "power", "--model", "rls-t", "--horizon", 2, "-o", out)
    assert result.exception is None
    return result.stdout, folder, kept[0]


def test_what_is_said(finished):
    said = " ".join(finished[0].split())
    for words in (
        "rows 397, 2024-01-01 00:00 to 2024-01-17 15:00",
        "time ts: every hour, 1 gap (the longest 3 hours); 3 missing rows put in",
        "predicted power, 2 steps (2 hours) ahead; a label is known when it is measured",
        "inputs wind, pressure, power",
        "dropped number: repeats the time site: text, such as 'north'",
        "suspicious -9999 in pressure 5 times: if it means missing, add --sentinel -9999",
        "learned from the first 337 rows",  # the three that are put in are not in the file
        "held out the newest 60, 2024-01-15 04:00 to 2024-01-17 15:00",
        "and need not be fitted again.",
    ):
        assert words in said
    lines = [line.split()[0] for line in finished[0].splitlines() if line.strip()]
    start = lines.index("NLL")
    assert lines[start + 1] == "rls-t"
    assert set(lines[start + 1 : start + 7]) == set(REFERENCES)


def test_what_is_written(finished):
    _, folder, report = finished
    model = load(folder / "plant.lt")
    assert (model.name, model.task.delay, model.record["file"]["target"]) == ("rls-t", 2, "power")
    assert model.record["file"]["source"] == "plant.csv"
    assert model.record["judged"]["labels"] == report.judgement.labels == 58
    assert {path.name for path in folder.iterdir()} == {"plant.csv", "plant.lt"}


def test_the_gate_of_a_model_that_chooses_nothing_knows_what_is_plausible(finished):
    stream = load(finished[1] / "plant.lt").stream()
    row = {"wind": 0.3, "pressure": 1013.0, "power": 10.0}
    assert stream.predict(row).flags == ()
    assert stream.predict(row | {"wind": 900.0}).flags == ("implausible:wind",)


def test_a_target_far_from_zero_is_predicted_as_well(tmp_path):
    """A counter of 1e9: scores, forecasts and what a stream says are those of the same file without it."""
    power = plant(tmp_path / "a.csv").read_text().splitlines()
    values = np.array([float(line.rsplit(",", 1)[1]) for line in power[1:]])
    lines = [f"{line.rsplit(',', 1)[0]},{v + 1e9:.3f}" for line, v in zip(power[1:], values, strict=True)]
    (tmp_path / "b.csv").write_text("\n".join([power[0], *lines]))
    near, far = (
        fit_file(Selection(tmp_path / name, "power", "ts"), model="rls-t") for name in ("a.csv", "b.csv")
    )
    scores = [report.judgement.scores["rls-t"] for report in (near, far)]
    np.testing.assert_allclose(scores[1].nll, scores[0].nll, atol=1e-3)
    np.testing.assert_allclose(scores[1].crps, scores[0].crps, rtol=1e-3)
    steps = [report.records["rls-t"].steps for report in (near, far)]
    np.testing.assert_allclose(steps[1]["upper"] - 1e9, steps[0]["upper"], atol=1e-3)
    fans = [report.advanced().forecast(3) for report in (near, far)]
    np.testing.assert_allclose(fans[1].quantiles[0.05] - 1e9, fans[0].quantiles[0.05], atol=1e-3)
    far.advanced().save(tmp_path / "b.lt")
    result = CliRunner().invoke(
        cli, ["forecast", str(tmp_path / "b.lt"), "--steps", "3"], standalone_mode=False
    )
    told = [float(line.split(",")[2]) for line in result.stdout.splitlines()[1:]]
    np.testing.assert_allclose(told, fans[1].mean, atol=1e-3, rtol=0)
    row = {"wind": 0.3, "pressure": 1013.0, "power": 1e9 + 10.0}
    said = answer(far.advanced().stream(), json.dumps({"x": row}).encode())
    assert said["quantiles"]["0.05"] < said["mean"] - said["std"] < said["mean"] < said["quantiles"]["0.95"]


def test_the_report_has_everything_that_a_caller_needs(finished):
    report = finished[2]
    assert len(report.series) == ROWS == len(report.parts.past) + len(report.parts.future)
    assert (report.parts.past.names, len(report.parts.train)) == (report.series.names, 340)
    assert next(iter(report.records)) == report.model.name
    again = evaluate(report.model, report.parts.future, past=report.parts.past)
    np.testing.assert_array_equal(again.steps["nll"], report.records["rls-t"].steps["nll"])


@pytest.mark.slow
def test_streams_without_clock_season_and_inputs(tmp_path):
    """References that need a season are left out where there is none."""
    walk = np.random.default_rng(1).normal(size=200).cumsum()
    path = plant(tmp_path / "walk.csv", 200, ts=None, wind=None, pressure=None, number=None, power=walk)
    result = run(path, "--target", "power", "--model", "rls", "--features", "power", "-o", "x.lt")
    assert result.exception is None
    assert "seasonal" not in result.stdout
    assert load("x.lt").name == "rls"


STILL = np.ones(ROWS)


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({}, ("--target", "powr"), "did you mean 'power'"),
        ({}, ("--target", "power", "--time", "tz"), "did you mean 'ts'"),
        ({}, ("--target", "power", "--features", "wind,presure"), "did you mean 'pressure'"),
        ({}, ("--target", "power", "--model", "latent-trak"), "did you mean 'latent-track'"),
        ({}, ("--target", "power", "--sentinel", "x"), "no number"),
        ({}, ("--target", "site"), "not numeric: it holds 'north'"),
        ({}, ("--target", "power", "--horizon", "400"), "shorter --horizon"),
        ({}, ("--target", "power", "--horizon", "399"), "the stream has 400, which leaves 1 label"),
        ({}, ("--target", "power", "--horizon", "390"), "so give more rows"),
        ({}, ("--target", "power", "--horizon", "55"), "larger --holdout"),
        ({}, ("--target", "power", "-o", "nowhere/plant.lt"), "not an existing directory"),
        ({}, ("--target", "power", "-o", "."), "it is a directory"),
        ({}, ("--target", "power", "-o", "plant.csv"), "the file to learn from"),
        ({}, ("--target", "power", "-o", "notes.txt"), "no model file"),
        ({"rows": 110}, ("--target", "power", "--holdout", "0.5"), "are needed, so give more rows"),
        ({"power": STILL * np.nan}, ("--target", "power"), "all labels of 'power' are missing"),
        ({"power": STILL}, ("--target", "power"), "constant (always 1)"),
        ({"ts": np.full(ROWS, "2024-01-01T00:00")}, ("--target", "power"), "occurs twice"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(tmp_path, monkeypatch, changes, options, said):
    monkeypatch.setattr(fitting, "_train", lambda *_: pytest.fail("it has been trained"))
    (tmp_path / "notes.txt").write_text("not a model")
    result = run(plant(tmp_path / "plant.csv", **changes), *options)
    assert isinstance(result.exception, LatentTrackError)
    assert said in str(result.exception)
    assert (tmp_path / "notes.txt").read_text() == "not a model"
    assert not list(tmp_path.glob("*.lt*"))


def test_a_missing_file_is_one_sentence(tmp_path):
    process = start("plant.csv", "--target", "power", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "latenttrack: there is no file plant.csv: check the path.\n"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    result = run(plant(tmp_path / "plant.csv"), "--target", "power", "-o", "closed/plant.lt")
    assert "permission denied" in str(result.exception)


def test_an_interrupt_says_that_it_can_be_resumed(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "fit_file", interrupted)
    result = run(plant(tmp_path / "plant.csv"), "--target", "power")
    assert isinstance(result.exception, click.Abort)
    assert str(result.exception) == "interrupted; the same command goes on where it was"


def test_leftovers_of_other_options_are_not_mixed_in(tmp_path, monkeypatch):
    path, left = plant(tmp_path / "plant.csv"), tmp_path / "plant.lt.checkpoint.trials"
    left.write_text("{}")
    monkeypatch.setattr(fitting, "Parts", None)  # as far as that, and no further
    options = (path, "--target", "power")
    assert "--restart" in str(run(*options).exception)
    assert left.exists()
    assert isinstance(run(*options, "--restart").exception, AttributeError)
    assert not list(tmp_path.glob("*.lt*"))


class Stops:
    """A listener that interrupts once a number of epochs of training is done."""

    def __init__(self, epochs):
        self.epochs, self.trials, self.judged = epochs, 0, []

    def understood(self, description):
        assert description.rows == ROWS - 3

    def epoch(self, progress):
        self.trials += progress.stage != "training"
        if progress.stage == "training" and progress.epoch == self.epochs:
            raise KeyboardInterrupt

    def judging(self, model):
        self.judged.append(model)


@pytest.fixture
def quick(monkeypatch):
    """A few updates and two references are enough to see what is done."""
    monkeypatch.setattr(fitting, "REFERENCES", ("last-label", "rls"))
    monkeypatch.setattr(automatic, "_EPOCHS", 1)
    monkeypatch.setattr(automatic, "_LEAST_UPDATES", 4)


@pytest.mark.slow
def test_a_network_interrupted_and_resumed(tmp_path, quick):
    """Seeds are pooled, the file is that of the model that was judged, and a break changes nothing."""
    selection = Selection(plant(tmp_path / "plant.csv"), "power")
    options = {"model": "gru", "seeds": 2, "budget": 4, "checkpoint": tmp_path / "plant.lt.checkpoint"}
    with pytest.raises(KeyboardInterrupt):
        fit_file(selection, **options, listener=Stops(epochs=1))
    assert {path.name for path in tmp_path.glob("plant.lt*")} == {
        f"plant.lt.checkpoint{ending}" for ending in ("", ".trials", ".plan")
    }
    with pytest.raises(LatentTrackError, match="--restart"):
        fit_file(selection, **{**options, "seeds": 3})
    listener = Stops(epochs=None)
    report = fit_file(selection, **options, listener=listener)
    whole = fit_file(selection, **{**options, "checkpoint": None})
    np.testing.assert_array_equal(*(r.records["gru"].steps["nll"] for r in (report, whole)))
    assert listener.judged == ["gru", "last-label", "rls"]
    assert (len(report.model.stack), report.model.settings["pool"]) == (1, 2)
    assert sum(report.judgement.weights.values()) == pytest.approx(1.0, abs=1e-4)
    assert "on the network" in report.judgement.leaning()
    report.model.save(tmp_path / "plant.lt")
    again = evaluate(load(tmp_path / "plant.lt"), report.parts.future, past=report.parts.past)
    np.testing.assert_allclose(again.steps["mean"], report.records["gru"].steps["mean"], rtol=1e-5)


@pytest.mark.slow
def test_a_network_that_chooses_nothing_takes_what_suits_the_data(tmp_path, monkeypatch, quick):
    monkeypatch.setattr(
        "latenttrack.fitted.fit.default_training",
        lambda name, changes: default_training(name, {**changes, "epochs": 1}),
    )
    options = ("--target", "power", "--model", "bbb", "--seeds", 2, "--sentinel", "pressure=-9999")
    result = run(plant(tmp_path / "plant.csv"), *options)
    assert result.exception is None
    model = load("plant.lt")
    assert (model.settings["anchor"], model.settings["pool"]) == ("last-label", 2)
    assert "known_label" in model.task.names
    assert "chosen" in result.stdout
    assert "safety net" not in result.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_is_one_sentence_and_the_trials_are_kept(tmp_path):
    plant(tmp_path / "plant.csv")
    notes = tmp_path / "plant.lt.checkpoint.trials"
    arguments = ("plant.csv", "--target", "power", "--model", "gru", "--seeds", "1")
    with start(*arguments, cwd=tmp_path) as process:
        try:
            limit = time.monotonic() + 300
            while process.poll() is None and not notes.exists() and time.monotonic() < limit:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.rstrip().endswith("latenttrack: interrupted; the same command goes on where it was")
    assert "every hour" in out
    assert notes.exists()


def start(*arguments, cwd):
    return subprocess.Popen(
        [sys.executable, "-m", "latenttrack", "fit", *arguments],
        cwd=cwd,
        env=os.environ | {"LATENTTRACK_CACHE": str(cwd / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
