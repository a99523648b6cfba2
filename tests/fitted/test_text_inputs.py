"""A file with a column of text, from fit to a live stream and a forecast."""

import json
from dataclasses import replace

import numpy as np
import pytest

import latenttrack as lt
from latenttrack.data.describing import Selection
from latenttrack.evaluation.fitting import fit_file
from latenttrack.fitted.events import answer

N = 700
HOURS = np.datetime64("2024-01-01T00", "s") + np.arange(N) * np.timedelta64(1, "h")
MODES = np.random.default_rng(0).choice(["idle", "run", "wash"], N, p=[0.5, 0.4, 0.1])
POWER = np.select([MODES == "run", MODES == "wash"], [10.0, 20.0], 1.0) + np.random.default_rng(1).normal(
    size=N
)


def write(path, rows, *, target=True):
    lines = ["ts,mode,power" if target else "ts,mode"]
    lines += [",".join([str(HOURS[i]), MODES[i], *([f"{POWER[i]:.4f}"] if target else [])]) for i in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The power of a row from its mode, known at once."""
    folder = tmp_path_factory.mktemp("text")
    selection = Selection(write(folder / "plant.csv", range(600)), "power", horizon=0)
    report = fit_file(selection, model="rls-t")
    report.advanced().save(folder / "plant.lt")
    return report, lt.load(folder / "plant.lt"), folder


def test_the_kinds_are_inputs_and_worth_it(fitted):
    report, model, _ = fitted
    assert model.feed.categories == (("mode", ("idle", "run", "wash")),)
    assert report.series.names == ("mode=idle", "mode=run", "mode=wash")
    # The modes explain all but noise of variance 1; without them the standard deviation is 6.
    scores = report.judgement.scores
    assert scores["rls-t"].mse < 1.5
    assert scores["last-label"].mse > 20


def test_events_and_tables_say_the_same(fitted):
    """In compiled passes of 64 rows, and in what is left of the table, which is run one by one."""
    _, model, _ = fitted
    rows = slice(600, 680)
    modes = MODES[rows].astype(object)
    modes[[5, 10, 70, 75]], modes[[20, 77]] = "explode", ""
    stream = model.stream()
    said = [stream.predict({"mode": m}, time=t) for m, t in zip(modes, HOURS[rows], strict=True)]
    found = model.stream().run({"ts": HOURS[rows], "mode": modes})
    assert [one.mean for one in said] == found["mean"].tolist()
    assert [list(one.flags) for one in said] == found["flags"].tolist()
    odd = dict.fromkeys([5, 10, 70, 75], "unknown-kind:mode") | dict.fromkeys([20, 77], "missing:mode")
    assert {i: flag for i, flags in enumerate(found["flags"]) for flag in flags} == odd
    line = answer(stream, json.dumps({"time": str(HOURS[680]), "x": {"mode": "explode"}}).encode())
    assert line["flags"] == ["unknown-kind:mode"]
    assert np.isfinite(line["mean"])


def test_a_forecast_knows_the_modes_to_come(fitted):
    _, model, folder = fitted
    recent = write(folder / "recent.csv", range(600, 640))
    covariates = write(folder / "plan.csv", range(640, 650), target=False)
    found = model.forecast(10, recent, covariates, samples=20)
    assert not found.unknown
    np.testing.assert_allclose(found.mean, POWER[640:650], atol=5.0)


def test_messages_name_the_column_and_not_its_kinds(fitted):
    _, model, folder = fitted
    found = model.forecast(3, write(folder / "recent.csv", range(600, 640)), samples=2)
    assert found.unknown == ("mode",)
    feed = replace(model.feed, limits=((-2.0, 3.0),) * 3)
    said = replace(model, feed=feed).stream().predict(np.array([50.0, 60.0, 0.0]), time=HOURS[600])
    assert said.flags == ("implausible:mode",)
