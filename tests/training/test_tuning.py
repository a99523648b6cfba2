"""What the training part decides, and what may not have a say in it."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import latenttrack as lt
from latenttrack.data.series import Series
from latenttrack.models.task import Task
from latenttrack.models.transformed import Curve, fit_transform
from latenttrack.training import tuning
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


def _daily(seed=0, damping=0.5, **fields):
    """Seasons of 12 steps, each `damping` times the last one in size, give or take."""
    rng = np.random.default_rng(seed)
    size = [1.0]
    for _ in range(99):
        size.append(damping * size[-1] + rng.normal())
    shape = np.sin(2 * np.pi * np.arange(12) / 12)
    y = np.outer(size, shape).ravel()
    x = rng.normal(size=(len(y), 2))
    time = np.arange(len(y), dtype=float)
    return Series(**{"x": x, "y": y, "time": time, "names": ("a", "b"), "period": 12, **fields})


@pytest.mark.parametrize("delay", [1, 5])
@pytest.mark.parametrize("damping", [0.3, 0.8])
def test_the_weight_of_a_seasonal_difference_suits_the_stream(damping, delay):
    """Seasons follow each other as size' = damping size + noise, so that the weight is the damping.

    But for the steps where one season passes into the next, and the standard error of 100 seasons.
    """
    series = _daily(damping=damping, delay=delay)
    found = {
        "model": _settled("seasonal-difference", series)["weight"],
        "anchor": _settled("dssm", series, anchor="seasonal-difference")["anchor_settings"]["weight"],
        "net": _settled("dssm", series, safety_net=("seasonal-difference",))["safety_net_settings"][
            "seasonal-difference"
        ]["weight"],
    }
    assert len(set(found.values())) == 1
    assert found["model"] == pytest.approx(damping, abs=0.25)


def test_the_weight_is_the_least_squares_solution():
    """By hand, with holes and a period of its own: y - last on what came a season ago."""
    series = _daily(period=None, delay=2)
    y = series.y.copy()
    y[[100, 101, 300]] = np.nan
    series = dataclasses.replace(series, y=y)
    e, c = [], []
    for t in range(2, len(y) - 1):  # the label of the last step is not known in time
        s = max(s for s in range(t - 1) if not np.isnan(y[s]))
        change = y[t - 12] - y[s - 12] if s >= 12 else np.nan
        if not np.isnan(y[t]) and not np.isnan(change):
            e.append(y[t] - y[s])
            c.append(change)
    expected = np.dot(e, c) / np.dot(c, c)
    assert 0 < expected < 1
    found = _settled("seasonal-difference", series, period=12)
    assert found == {"period": 12, "weight": pytest.approx(expected, rel=1e-4)}


def test_the_weight_stays_between_nothing_and_all():
    assert _settled("seasonal-difference", _daily(period=None))["weight"] == 0.0
    t = np.arange(1200)
    growing = dataclasses.replace(_daily(), y=np.sin(2 * np.pi * t / 12) * np.exp(t / 40))
    turning = dataclasses.replace(_daily(), y=np.sin(np.pi * t / 12))
    assert _settled("seasonal-difference", growing)["weight"] == 1.0
    assert _settled("seasonal-difference", turning)["weight"] == 0.0


def test_a_safety_net_is_settled_as_well():
    series = _drifting(period=12)
    chosen = _settled("dssm", series, safety_net=["rls-t", "last-label", "rls"])
    assert chosen["safety_net_settings"].keys() == {"rls-t", "rls"}
    assert chosen["safety_net_settings"]["rls-t"]["forgetting"] <= 0.95
    given = {"safety_net": ("rls", "rls-t"), "safety_net_settings": {"rls": {"forgetting": 0.99}}}
    chosen = _settled("dssm", series, **given)["safety_net_settings"]
    assert chosen["rls"] == {"forgetting": 0.99}
    assert chosen["rls-t"]["forgetting"] <= 0.95
    assert "safety_net_settings" not in _settled("dssm", series, safety_net=("last-label",))


def test_one_search_serves_every_role(monkeypatch):
    """Anchor, informant and net are the same least squares on the same inputs."""
    calls = []

    def counted(name, task, window):
        calls.append(name)
        return 0.98

    monkeypatch.setattr(tuning, "best_forgetting", counted)
    chosen = _settled("dssm", _drifting(), 0.2, anchor="rls", informant="rls-t", safety_net=("rls", "rls-t"))
    assert len(calls) == 1
    roles = (chosen["anchor_settings"], chosen["informant_settings"], *chosen["safety_net_settings"].values())
    assert roles == ({"forgetting": 0.98},) * 4


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


@pytest.mark.parametrize(
    "settings",
    [
        {"anchor": "rls"},
        {"anchor": "seasonal-difference"},
        {"informant": "rls"},
        {"safety_net": ("rls-t", "seasonal-difference")},
    ],
)
def test_the_validation_part_has_no_say_in_what_a_network_works_with(settings):
    series = _drifting(period=12)
    y = series.y.copy()
    y[1000:] += 1e3 * np.sin(np.arange(200))
    changed = dataclasses.replace(series, y=y)
    assert _settled("dssm", series, 0.2, **settings) == _settled("dssm", changed, 0.2, **settings)
    assert _settled("dssm", series, **settings) != _settled("dssm", changed, **settings)


def test_under_a_transform_everything_is_measured_on_bent_labels():
    """References inside a transform hear its labels, so that theirs is the scale of the anchor's errors."""
    series = _daily(delay=2)
    shifted = dataclasses.replace(series, y=np.exp(series.y))
    curve = fit_transform("log", shifted.y, 0.0, 1.0)
    bent = dataclasses.replace(series, y=np.asarray(Curve(**curve).to_inner(jnp.asarray(shifted.y))))
    roles = {"anchor": "seasonal-difference", "safety_net": ("rls",)}
    expected = _settled("dssm", bent, 0.2, **roles)
    found = _settled("dssm", shifted, 0.2, transform=curve, **roles)
    assert found.pop("transform") == curve
    assert found == {
        **expected,
        "anchor_settings": {"weight": pytest.approx(expected["anchor_settings"]["weight"], rel=1e-3)},
        "anchor_scale": pytest.approx(expected["anchor_scale"], rel=1e-3),
    }


def test_the_model_file_keeps_what_was_chosen(tmp_path):
    model = lt.fit("rls", _drifting())
    model.save(tmp_path / "m.lt")
    loaded = lt.load(tmp_path / "m.lt")
    assert loaded.settings == model.settings
    assert loaded.stack[0].forgetting == model.settings["forgetting"] <= 0.95
