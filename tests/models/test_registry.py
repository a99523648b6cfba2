"""Models by name: what is refused, and how large they are."""

import inspect

import equinox as eqx
import jax
import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.models.base import parameter_count, partition
from latenttrack.models.checks import check_settings, check_shown
from latenttrack.models.registry import MODELS, REFERENCES, build
from latenttrack.models.stack import build_stack, stack_shape
from latenttrack.models.task import Task

JENA = Task(tuple(f"x{i}" for i in range(13)))  # the paper's experiment has 13 inputs


def _parameters(name, **settings):
    """Trained numbers of one seed, from shapes alone."""
    stack = stack_shape(lambda key: build(name, JENA, key, **settings), 1)
    return sum(leaf.size for leaf in jax.tree.leaves(stack.params))


@pytest.mark.parametrize(
    ("name", "count"), [("mc-dropout", 19_112), ("deep-ensemble", 19_100), ("bbb", 20_060)]
)
def test_static_models_have_exactly_the_papers_size(name, count):
    assert _parameters(name) == count


@pytest.mark.parametrize("name", ["lt-structured", "lt-unstructured", "vrnn", "dssm"])
def test_stateful_models_have_about_the_papers_size(name):
    """20k within 10 %, as in the paper's ledger."""
    assert abs(_parameters(name) / 20_000 - 1) < 0.10


def test_own_inputs_are_those_of_label_and_clock():
    own = ("known_label", "known_label_diff24", "known_label_missing", "season_mean", "season_mean_diff1")
    clock = ("day_sin1", "season_cos4", "time_diff1")
    others = ("wind", "wind_diff1", "season", "timetable_diff1", "day", "known_labels")
    assert Task((*others, *own, *clock)).own == (*own, *clock)


@pytest.mark.parametrize("name", REFERENCES)
def test_references_have_no_parameters(name):
    assert parameter_count(build(name, JENA, jax.random.key(0))) == 0


def test_fixed_draws_are_not_trained():
    tracker = build("mc-dropout", Task(("a",)), jax.random.key(0), hidden=(3,), K=4)
    params, rest = partition(tracker)
    assert params.draws.points.value is None
    assert rest.draws.points.value.shape[0] == 4
    key = jax.random.key(0)
    np.testing.assert_array_equal(eqx.combine(params, rest).draws(key), tracker.draws(key))


def test_seeds_of_a_stack_are_the_trackers_of_their_keys(same_bits):
    keys = jax.random.split(jax.random.key(3), 2)
    make = lambda key: build("mc-dropout", Task(("a", "b")), key, hidden=(3,), K=4)  # noqa: E731
    stack = build_stack(make, keys)
    assert len(stack) == 2
    for i in (0, 1, -1):
        same_bits(eqx.filter(stack[i], eqx.is_array), eqx.filter(make(keys[i]), eqx.is_array))
    with pytest.raises(IndexError):
        stack[2]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: build("lt-structurd", JENA, jax.random.key(0)),
            ["lt-structurd", "did you mean 'lt-structured'"],
        ),
        (lambda: build("dssm", JENA, jax.random.key(0), hiden_size=3), ["hiden_size", "hidden_size"]),
        (lambda: build("last-label", JENA, jax.random.key(0), K=3), ["last-label", "'K'", "none"]),
        (lambda: build("rls", JENA, jax.random.key(0), anchor="last-label"), ["rls", "anchor"]),
        (lambda: build("dssm", JENA, jax.random.key(0), anchor="vrnn"), ["vrnn", "last-label"]),
        (lambda: build("lt-structured", JENA, jax.random.key(0), structured=False), ["structured"]),
        (lambda: build("gru", JENA, jax.random.key(0), shown=["x0"]), ["gru", "informant"]),
        (lambda: build("gru", JENA, jax.random.key(0), informant="rls", shown=["x99"]), ["shown", "x99"]),
        (lambda: build("gru", JENA, jax.random.key(0), second_shown=["x0"]), ["gru", "informant"]),
        (
            lambda: build("gru", JENA, jax.random.key(0), informant="rls", shown=["x0"], second_shown=["x1"]),
            ["second_shown", "x1"],
        ),
        (lambda: check_shown("gru", "shown", [["x0"]], "rls", JENA.names), ["shown"]),
        (lambda: check_shown("gru", "shown", "x0", "rls", JENA.names), ["shown"]),
        (lambda: build("gru", JENA, jax.random.key(0), informant="rls", shown=["x1"] * 2), ["each once"]),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(LatentTrackError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lt-structured", {"summariser": "gruu"}),
        ("dssm", {"head": "gausian"}),
        ("vrnn", {"activation": "tan"}),
        ("bbb", {"draws": "halton"}),
    ],
)
def test_unknown_choices_are_refused_by_name(name, settings):
    """A choice that does not exist is the user's mistake, not a KeyError."""
    with pytest.raises(LatentTrackError, match=next(iter(settings.values()))):
        build(name, Task(("a",)), jax.random.key(0), **settings)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("lt-structured", {"hidden_size": 0}, "'hidden_size' is 0: give a whole number of at least 1"),
        ("lt-unstructured", {"features": -2}, "'features' is -2"),
        ("vrnn", {"latent_size": "8"}, "'latent_size' is '8'"),
        ("dssm", {"K": 0}, "'K' is 0"),
        ("dssm", {"train_K": 1.0}, "'train_K' is 1.0"),
        ("lt-structured", {"predictor": 8}, "'predictor' is 8: give a tuple of layer widths"),
        ("lt-structured", {"predictor": (8, 0)}, "'predictor'"),
        ("lt-structured", {"skip": 1}, "'skip' is 1: give True or False"),
        ("lt-structured", {"summary_dropout": 1.0}, "'summary_dropout' is 1.0: .* from 0 to below 1"),
        ("lt-structured", {"prior_log_sd": float("nan")}, "'prior_log_sd' is nan"),
        ("mc-dropout", {"rate": 1.5}, "'rate' is 1.5"),
        ("mc-dropout", {"hidden": ()}, "'hidden' is ().* at least one"),
        ("bbb", {"initial_sd": 0.0}, "'initial_sd' is 0.0: give a positive number"),
        ("bbb", {"head": 3}, "'head' is 3: give a name"),
        ("deep-ensemble", {"members": True}, "'members' is True"),
        ("seasonal-naive", {"period": 0}, "'period' is 0: .* or None"),
        ("rls", {"forgetting": 1.01}, "'forgetting' is 1.01"),
        ("dssm", {"anchor": "last-label", "anchor_scale": 0.0}, "'anchor_scale' is 0.0"),
        ("dssm", {"anchor": "rls", "anchor_settings": {"forgetting": 0}}, "rls setting 'forgetting' is 0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_impossible_values_get_one_sentence(name, settings, says):
    with pytest.raises(LatentTrackError, match=says.replace("()", r"\(\)")):
        build(name, Task(("a",)), jax.random.key(0), **settings)


def test_every_setting_has_a_rule():
    """A builder's default is a value that the check of its settings accepts."""
    for name, builder in MODELS.items():
        parameters = inspect.signature(builder).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.name not in ("task", "key", "structured")}
        check_settings(name, builder, defaults)
