"""What the training part decides, and what may not have a say in it."""

import dataclasses

import numpy as np
import pytest

import latenttrack as lt
from latenttrack.data.series import Series
from latenttrack.models.task import Task
from latenttrack.training.tuning import FORGETTING, settle


def _linear(weights, seed=0, **fields):
    """y_t = w_t . x_t + noise of sd 0.3, for weights [N, F]."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=weights.shape)
    y = (weights * x).sum(axis=1) + 0.3 * rng.normal(size=len(x))
    return Series(x=x, y=y, time=np.arange(len(x), dtype=float), names=("a", "b"), **fields)


def _drifting(**fields):
    t = np.arange(1200)
    return _linear(np.stack([np.sin(t / 60), np.cos(t / 60)], axis=1), **fields)


def _settled(name, series, validation=0.0, **settings):
    return settle(name, settings, Task.of(series), series, validation)


@pytest.mark.parametrize("name", ["rls", "rls-t"])
def test_the_memory_suits_the_stream(name):
    """Weights that turn once in 380 steps call for a short memory, steady ones for the longest."""
    assert _settled(name, _drifting())["forgetting"] <= 0.95
    assert _settled(name, _linear(np.ones((1200, 2))))["forgetting"] == max(FORGETTING)


def test_a_single_event_does_not_shorten_the_memory():
    """Weights that jump for the length of one block: a short memory is better there, and nowhere else."""
    weights = np.ones((1200, 2))
    weights[600:640] = -3.0
    assert _settled("rls", _linear(weights))["forgetting"] == max(FORGETTING)


def test_what_is_given_stays():
    assert _settled("rls", _drifting(), forgetting=0.99) == {"forgetting": 0.99}
    given = {"anchor": "rls", "anchor_settings": {"forgetting": 0.99}, "anchor_scale": 2.0}
    assert _settled("dssm", _drifting(), **given) == given
    assert _settled("dssm", _drifting(), hidden_size=3) == {"hidden_size": 3}


@pytest.mark.parametrize("anchor", ["rls", "last-label"])
def test_an_anchor_is_settled_as_well(anchor):
    chosen = _settled("dssm", _drifting(), anchor=anchor)
    assert chosen["anchor_scale"] > 0.3  # nothing predicts the noise
    if anchor == "rls":
        assert chosen["anchor_settings"]["forgetting"] <= 0.95
    else:
        assert "anchor_settings" not in chosen


@pytest.mark.parametrize(("name", "settings"), [("rls", {}), ("dssm", {"anchor": "rls"})])
def test_labels_that_are_not_known_have_no_say(name, settings):
    """With delay 5 the last four labels come after the training part has ended."""
    series = _drifting(delay=5)
    y = series.y.copy()
    y[-4:] += 1e3
    assert _settled(name, series, **settings) == _settled(name, dataclasses.replace(series, y=y), **settings)
    y[-5] += 1e3
    other = _settled("dssm", dataclasses.replace(series, y=y), anchor="rls")
    assert other != _settled("dssm", series, anchor="rls")


def test_the_validation_part_has_no_say_in_an_anchor():
    series = _drifting()
    y = series.y.copy()
    y[1000:] += 1e3
    changed = dataclasses.replace(series, y=y)
    assert _settled("dssm", series, 0.2, anchor="rls") == _settled("dssm", changed, 0.2, anchor="rls")


def test_the_model_file_keeps_what_was_chosen(tmp_path):
    model = lt.fit("rls", _drifting())
    model.save(tmp_path / "m.lt")
    loaded = lt.load(tmp_path / "m.lt")
    assert loaded.settings == model.settings
    assert loaded.stack[0].forgetting == model.settings["forgetting"] <= 0.95
