"""`fit`, `save`, `load`: what a user does with a model, and what a broken file does to them."""

import json
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest

import latenttrack as lt
from latenttrack.data.synthetic import drift
from latenttrack.models.registry import MODELS, REFERENCES, build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task
from latenttrack.store.tensors import read_tensors, write_tensors
from latenttrack.training.tuning import settle

QUICK = {"epochs": 1, "sequences": 4, "window": 32, "validation": 0.0}
SMALL = {
    "lt-structured": {"hidden_size": 6, "latent_size": 2, "K": 8},
    "lt-unstructured": {"hidden_size": 6, "head": "student-t", "predictor": [4, 4], "anchor": "rls"},
    "vrnn": {"hidden_size": 6, "K": 8},
    "dssm": {"hidden_size": 6, "K": 8, "summariser": "lstm"},
    "mc-dropout": {"hidden": [8, 8], "K": 8},
    "bbb": {"hidden": [8], "K": 8},
    "deep-ensemble": {"members": 3, "hidden": [8, 8]},
    "lt-deterministic": {"hidden_size": 6, "latent_size": 2, "skip": True},
    "gru": {"hidden_size": 6, "predictor": [8, 4], "anchor": "last-label", "hidden_dropout": 0.1},
}


@pytest.fixture(scope="module")
def parts():
    return lt.prepare(drift(n=500).series)


@pytest.fixture(scope="module")
def fitted(parts):
    """As `fit` gives it, but untrained: a file is the same before training, and compiling takes long."""
    return untrained("lt-unstructured", parts, 1)


def untrained(name, parts, seeds):
    train, _, pipeline = parts
    task = Task.of(train)
    settings = settle(name, SMALL.get(name, {}), task, train, 0.0)
    keys = jax.random.split(jax.random.key(0), seeds)
    return lt.Model(
        name, settings, task, build_stack(lambda key: build(name, task, key, **settings), keys), pipeline
    )


@pytest.mark.parametrize(
    "name", [name if name in REFERENCES else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_loaded_model_is_the_saved_one(name, parts, tmp_path):
    train, test, pipeline = parts
    if name in (*REFERENCES, "lt-unstructured"):
        model = lt.fit(name, train, seeds=2, pipeline=pipeline, training=QUICK, settings=SMALL.get(name))
    else:
        model = untrained(name, parts, 2)
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
    reference = lt.evaluate(lt.fit("rls", train, settings=fitted.settings["anchor_settings"]), train)
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


@pytest.mark.parametrize("field", ["model", "settings", "task", "seeds", "pipeline", "record"])
def test_a_file_without_one_of_its_fields_is_refused(fitted, tmp_path, field):
    fitted.save(tmp_path / "m.lt")
    tensors, header = read_tensors(tmp_path / "m.lt", "model")
    del header[field]
    write_tensors(tmp_path / "odd.lt", tensors, header, "model")
    with pytest.raises(lt.LatentTrackError, match=f"cannot build.*{field}"):
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
        (lambda s: lt.fit("vrnn", s, training={"objective": "elob"}), "no objective 'elob'.*mean 'elbo'"),
        (lambda s: lt.fit("vrnn", s, training={"schedule": "exat"}), "no schedule 'exat'.*mean 'exact'"),
        (lambda s: lt.fit("bbb", s, training={"objective": "elbo"}), "'elbo'.*bbb.*give 'static-elbo'"),
        (lambda s: lt.fit("mc-dropout", s, training=lt.Training()), "'elbo'.*mc-dropout.*give 'nll'"),
        (lambda s: lt.fit("dssm", s, training={"objective": "static-elbo"}), "'static-elbo'.*dssm"),
        (lambda s: lt.fit("vrnn", s, training={"window": 0}), "window must be at least 1"),
        (lambda s: lt.fit("vrnn", s, training={"schedule": "exact", "stride": 0}), "stride must be at least"),
        (lambda s: lt.fit("vrnn", s, training={"learning_rate": -1.0}), "learning_rate must be positive"),
        (lambda s: lt.fit("vrnn", s, training={"beta_warmup": -1}), "beta_warmup must not be negative"),
        (lambda s: lt.fit("rls", s, seeds=0), "at least one seed"),
        (lambda s: lt.fit("rls", s, seeds=[0, -1]), "no negative numbers"),
        (lambda s: lt.fit("vrnn", s, training={"schedule": "exact", "window": 50}), "multiple of stride"),
        (lambda s: lt.fit("rls", s, settings={"anchor": "last-label"}), "takes no anchor"),
        (lambda s: lt.fit("vrnn", s, settings={"anchor": "bbb"}), "no anchor 'bbb'"),
        (lambda s: lt.fit("rls", s.select(np.arange(20))), "at least 64 are needed"),
        (lambda s: lt.fit("rls", replace(s, y=np.ones(len(s)))), "is constant"),
        (lambda s: lt.fit("rls", replace(s, y=np.full(len(s), np.nan))), "all labels"),
        (lambda s: lt.evaluate(lt.fit("rls", s), replace(s, names=("a", "b"))), "fitted on x0, x1"),
        (
            lambda s: lt.evaluate(lt.fit("rls", s), replace(s, delay=3)),
            "delay of 3, but rls was fitted with 1",
        ),
    ],
)
def test_mistakes_get_one_sentence(parts, call, says):
    with pytest.raises(lt.LatentTrackError, match=says) as caught:
        call(parts[0])
    assert "\n" not in str(caught.value)
