"""What a bench runs unless told otherwise, and what it refuses before it begins."""

import json
import sys

import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.archive import read_records
from latenttrack.evaluation.bench import HONEST, PAPER, Bench, _newest, _OneModel, _Stream, compared
from latenttrack.evaluation.evaluate import evaluate
from latenttrack.evaluation.paired import LEADING
from latenttrack.evaluation.tracks import TRACKS, find_track
from latenttrack.fitted.fit import fit
from latenttrack.fitted.model import pool
from latenttrack.models.capacity import capacity
from latenttrack.models.registry import REFERENCES, build
from latenttrack.training.presets import POOLED


class Silent:
    """Hears of the progress and says nothing."""

    def begin(self, model, epochs): ...

    def epoch(self, progress): ...

    def filtering(self): ...

    def end(self, model, seconds): ...


def test_paper_tracks_compare_what_the_paper_does():
    """Its seven networks, and the references that need no training."""
    assert PAPER == (
        "lt-structured", "lt-unstructured", "vrnn", "dssm", "mc-dropout", "bbb", "deep-ensemble",
        "last-label", "seasonal-naive", "climatology", "rls", "rls-t",
    )  # fmt: skip
    for track in TRACKS.values():
        names = compared(track)
        assert set(names) >= (set(PAPER) if track.name.startswith("paper") else set(HONEST))
        assert (names == PAPER) == (track.presets != "bounded")
    assert set(compared(find_track("paper-clean"))) == {*PAPER, *HONEST}


def test_what_one_would_use_is_compared_with_all_that_one_would_have_instead():
    assert HONEST[0] == "latent-track"
    assert {POOLED, "gru", "lt-deterministic", "lightgbm", *REFERENCES} == set(HONEST[1:])


def test_seeds_are_pooled_where_there_are_several_and_after_they_are_trained(tmp_path):
    track = find_track("airports")
    assert Bench(track, tmp_path).names == HONEST
    assert Bench(track, tmp_path, seeds=1).names == tuple(name for name in HONEST if name != POOLED)
    for models, seeds, words in (
        ((POOLED, "latent-track"), None, "name latent-track before it"),
        ((POOLED,), None, "name latent-track before it"),
        (("latent-track", POOLED), 1, "give --seeds 2 or more"),
    ):
        with pytest.raises(LatentTrackError, match=words):
            Bench(track, tmp_path / "out", models, seeds=seeds).run(Silent())
    assert not (tmp_path / "out").exists()


def test_models_that_are_named_are_run_and_no_others(tmp_path):
    track = find_track("paper-clean")
    assert Bench(track, tmp_path).names == compared(track)
    bench = Bench(track, tmp_path, ("gru", "dssm", "rls", "lightgbm"), epochs=3)
    assert bench.names == ("gru", "dssm", "rls", "lightgbm")
    assert [bench.epochs_of(name) for name in bench.names] == [0, 3, 0, 0]


def test_without_lightgbm_nothing_is_begun(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(LatentTrackError, match=r"latenttrack\[trees\].*--models"):
        Bench(find_track("airports"), tmp_path / "out").run(Silent())
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_pooled_seeds_are_the_mixture_of_those_that_were_trained(tmp_path):
    """The networks in `latent-track.lt`, mixed: nothing is trained, and other networks are another run."""
    track = find_track("airports")
    bench = Bench(track, tmp_path, (LEADING, POOLED), seeds=2, rows=200)
    stream = _Stream(_newest(track.load(), 200), track.fraction)
    with pytest.raises(LatentTrackError, match=r"latent-track\.lt is gone, .* delete latent-track\.json"):
        _OneModel(bench, POOLED, bench.preset(POOLED), stream)
    train, test, pipeline = stream.prepare(stream.complete(bench.preset(LEADING)))
    small = {"hidden_size": 6, "encoder_size": 4, "predictor": [3], "features": 2, "latent_size": 2, "K": 3}
    networks = fit(LEADING, train, seeds=2, training={"epochs": 1}, settings=small, pipeline=pipeline)
    networks.save(tmp_path / "latent-track.lt")
    pooled = _OneModel(bench, POOLED, bench.preset(POOLED), stream)
    pooled.run(Silent())
    found = read_records(tmp_path / f"{POOLED}.parquet")
    assert (found.model, found.seeds) == (POOLED, 1)
    expected = evaluate(pool(networks), test, past=train)
    np.testing.assert_allclose(found.steps["nll"], expected.steps["nll"], rtol=1e-5, atol=1e-5)
    one = evaluate(networks, test, past=train)
    assert not np.allclose(found.steps["nll"][0], one.steps["nll"][0], atol=1e-3, equal_nan=True)
    facts = json.loads((tmp_path / f"{POOLED}.json").read_bytes())
    alone = capacity(lambda k: build(LEADING, networks.task, k, **networks.settings), networks.task.size)
    assert facts["parameters"]["total"] == 2 * alone.total
    fit(LEADING, train, seeds=2, seed=1, training={"epochs": 1}, settings=small, pipeline=pipeline).save(
        tmp_path / "latent-track.lt"
    )
    with pytest.raises(LatentTrackError, match="belongs to a run with other data, seeds or settings"):
        _OneModel(bench, POOLED, bench.preset(POOLED), stream).run(Silent())
