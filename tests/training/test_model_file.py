"""`fit`, `save`, `load`: what a user does with a model, and what a broken file does to them."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import latenttrack as lt
from latenttrack.data.synthetic import drift
from latenttrack.models.registry import MODELS, REFERENCES
from latenttrack.store.tensors import read_tensors, write_tensors

QUICK = {"epochs": 1, "sequences": 4, "window": 32, "validation": 0.0}
SMALL = {
    "lt-structured": {"hidden_size": 6, "latent_size": 2, "K": 8},
    "lt-unstructured": {"hidden_size": 6, "head": "student-t", "predictor": [4, 4], "anchor": "rls"},
    "vrnn": {"hidden_size": 6, "K": 8},
    "dssm": {"hidden_size": 6, "K": 8, "summariser": "lstm"},
    "mc-dropout": {"hidden": [8, 8], "K": 8},
    "bbb": {"hidden": [8], "K": 8},
    "deep-ensemble": {"members": 3, "hidden": [8, 8]},
}


@pytest.fixture(scope="module")
def parts():
    return lt.prepare(drift(n=500).series)


@pytest.fixture(scope="module")
def fitted(parts):
    train, _, pipeline = parts
    return lt.fit(
        "lt-unstructured", train, pipeline=pipeline, training=QUICK, settings=SMALL["lt-unstructured"]
    )


@pytest.mark.parametrize("name", MODELS)
def test_loaded_model_is_the_saved_one(name, parts, tmp_path):
    train, test, pipeline = parts
    model = lt.fit(name, train, seeds=2, pipeline=pipeline, training=QUICK, settings=SMALL.get(name))
    model.save(tmp_path / "m.lt")
    loaded = lt.load(tmp_path / "m.lt")
    assert (loaded.name, loaded.task, loaded.pipeline) == (model.name, model.task, pipeline)
    assert loaded.record == json.loads(json.dumps(model.record))
    assert loaded.parameters == model.parameters
    assert (model.parameters == 0) == (name in REFERENCES)
    before = lt.evaluate(model, test.select(np.arange(30)), past=train)
    after = lt.evaluate(loaded, test.select(np.arange(30)), past=train)
    for field, values in before.steps.items():
        np.testing.assert_array_equal(values, after.steps[field])
    assert before.seeds == 2


def test_anchor_scale_is_measured(fitted, parts):
    """On the training part: the root mean square of what the reference misses, in standardised labels."""
    train = parts[0]
    reference = lt.evaluate(lt.fit("rls", train), train)
    expected = np.sqrt(np.nanmean(reference.steps["squared_error"])) / train.y_scale
    assert fitted.settings["anchor_scale"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": "lt-quantum"}, "no model 'lt-quantum'"),
        ({"settings": {"hidden_size": 7}}, "does not fit"),
        ({"settings": {"hiden_size": 6}}, "did you mean 'hidden_size'"),
        ({"settings": {"summariser": "transformer"}}, "no summariser 'transformer'"),
        ({"task": {}}, "cannot build"),
        ({"pipeline": {"stages": []}}, "pipeline is damaged"),
    ],
)
def test_well_formed_nonsense_is_refused(fitted, tmp_path, change, says):
    fitted.save(tmp_path / "m.lt")
    tensors, header = read_tensors(tmp_path / "m.lt", "model")
    write_tensors(tmp_path / "odd.lt", tensors, header | change, "model")
    with pytest.raises(lt.LatentTrackError, match=says):
        lt.load(tmp_path / "odd.lt")


def test_the_command_line_shows_a_model_file(fitted, tmp_path):
    fitted.save(tmp_path / "m.lt")
    shown = subprocess.run(
        [sys.executable, "-m", "latenttrack", "inspect", str(tmp_path / "m.lt"), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["header"]["model"] == "lt-unstructured"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: lt.fit("lt-strctured", s), "did you mean 'lt-structured'"),
        (lambda s: lt.fit("rls", s, settings={"forgeting": 0.9}), "did you mean 'forgetting'"),
        (lambda s: lt.fit("vrnn", s, training={"epoch": 3}), "did you mean 'epochs'"),
        (lambda s: lt.fit("vrnn", s, training={"objective": "elob"}), "objective 'elob' is not known"),
        (lambda s: lt.fit("vrnn", s, training={"window": 0}), "window must be at least 1"),
        (lambda s: lt.fit("vrnn", s, training={"schedule": "exact", "window": 50}), "multiple of stride"),
        (lambda s: lt.fit("rls", s, settings={"anchor": "last-label"}), "takes no anchor"),
        (lambda s: lt.fit("vrnn", s, settings={"anchor": "bbb"}), "'bbb' cannot be an anchor"),
        (lambda s: lt.fit("rls", s.select(np.arange(20))), "at least 64 are needed"),
        (lambda s: lt.fit("rls", replace(s, y=np.ones(len(s)))), "is constant"),
        (lambda s: lt.fit("rls", replace(s, y=np.full(len(s), np.nan))), "all labels"),
        (lambda s: lt.evaluate(lt.fit("rls", s), replace(s, names=("a", "b"))), "fitted on x0, x1"),
    ],
)
def test_mistakes_get_one_sentence(parts, call, says):
    with pytest.raises(lt.LatentTrackError, match=says) as caught:
        call(parts[0])
    assert "\n" not in str(caught.value)
