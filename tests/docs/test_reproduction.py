"""docs/reproduction.md is what its generator makes of the summaries beside it."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator():
    path = ROOT / "benchmarks" / "reproduction.py"
    spec = importlib.util.spec_from_file_location("reproduction", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_its_summaries(generator):
    assert generator.PAGE.read_text(encoding="utf-8") == generator.page()


def test_the_summaries_are_of_the_runs_it_names(generator):
    for track, seeds in generator.BENCHES.items():
        summary = json.loads((generator.SUMMARIES / f"{track}.json").read_bytes())
        assert (summary["track"]["name"], summary["seeds"]) == (track, seeds)
        assert summary["track"]["train_steps"] == 49_027


def test_must_show(generator):
    """What the run was to show: LatentTrack near the paper's scores, spikes at sentinels, none when clean."""
    paper, clean = (
        json.loads((generator.SUMMARIES / f"{name}.json").read_bytes()) for name in ("paper", "paper-clean")
    )
    lt = paper["models"]["lt-structured"]
    assert generator.over(lt, "nll_trimmed") <= 2.65
    assert generator.over(lt, "mse_trimmed") <= 8.0
    for name in generator.networks(paper):
        assert paper["models"][name]["largest_nll"]["seeds_at_sentinels"] > paper["seeds"] / 2
        assert paper["models"][name]["largest_nll"]["time"] in paper["anomalies"]
        assert clean["models"][name]["failure_rate"] == 0.0
