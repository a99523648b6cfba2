"""The capacity ledger: exact for the static models, within the paper's tolerances for the others."""

import functools

import equinox as eqx
import jax
import pytest

from latenttrack.evaluation.ledger import ledger
from latenttrack.models.base import parameter_count
from latenttrack.models.capacity import capacity
from latenttrack.models.registry import MODELS, REFERENCES, SUMMARIES, build
from latenttrack.models.task import Task


@pytest.fixture(scope="module")
def rows():
    return ledger()


def test_every_model_is_listed(rows):
    assert list(rows) == list(MODELS) == list(SUMMARIES)


@pytest.mark.parametrize(
    ("name", "count"), [("mc-dropout", 19_112), ("deep-ensemble", 19_100), ("bbb", 20_060)]
)
def test_static_counts_are_the_papers(rows, name, count):
    assert rows[name]["total"] == rows[name]["inference"] == count
    assert (rows[name]["paper_total"], rows[name]["paper_inference"]) == (count, count)


@pytest.mark.parametrize("name", ["lt-structured", "lt-unstructured", "vrnn", "dssm"])
def test_stateful_counts_are_in_the_papers_tolerance(rows, name):
    assert abs(rows[name]["inference"] - 20_000) <= 1_000
    assert abs(rows[name]["total"] - 20_000) <= 2_000
    assert rows[name]["inference"] <= rows[name]["total"]


def test_what_serves_training_alone(rows):
    """The posterior head 64 -> 16 of the unstructured LatentTrack; the structured one has none to spare."""
    assert rows["lt-unstructured"]["total"] - rows["lt-unstructured"]["inference"] == 64 * 16 + 16
    assert rows["lt-structured"]["total"] == rows["lt-structured"]["inference"]


def test_references_learn_no_numbers(rows):
    assert all(rows[name]["total"] == 0 for name in REFERENCES)


def test_capacity_counts_what_is_drawn():
    task = Task(("a", "b", "day_sin1"), period=4)
    make = functools.partial(build, "dssm", task)
    assert capacity(make, task.size).total == parameter_count(eqx.filter_jit(make)(jax.random.key(0)))
