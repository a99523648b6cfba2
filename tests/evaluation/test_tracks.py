"""Tracks and presets: what is run on what."""

from pathlib import Path

import numpy as np
import pytest

from latenttrack.data import prepare
from latenttrack.data.describing import Selection
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.tracks import TRACKS, file_track, find_track
from latenttrack.models.registry import MODELS, REFERENCES
from latenttrack.training.presets import FAMILIES, PAPERS, TREES, preset

DATA = Path(__file__).parents[3] / "shared" / "data"
HONEST = [name for name in TRACKS if name.endswith(("next-hour", "six-hours"))]
needs_jena = pytest.mark.skipif(not DATA.is_dir(), reason=f"the Jena file is read from {DATA}")


def test_every_track_names_a_family_that_knows_every_model():
    for track in TRACKS.values():
        for name in (*MODELS, TREES):
            assert preset(track.presets, name).model == name


def test_unknown_names_are_refused():
    with pytest.raises(LatentTrackError, match="paper-clean"):
        find_track("paper-clear")
    with pytest.raises(LatentTrackError, match="lt-structured"):
        preset("paper", "lt-struct")
    with pytest.raises(LatentTrackError, match="bounded"):
        preset("bound", "dssm")
    with pytest.raises(LatentTrackError, match="did you mean 'lightgbm'"):
        preset("paper", "lightgmb")


def test_the_papers_settings():
    lt, bbb = preset("paper", "lt-structured"), preset("paper", "bbb")
    assert (lt.training.window, lt.training.recency, lt.training.beta_warmup) == (256, 0.9, 575)
    assert (lt.training.learning_rate, lt.training.clip, lt.training.epochs) == (1e-4, 1.0, 6)
    assert lt.settings == {"activation": "relu", "draws": "independent", "K": 100}
    assert (bbb.training.schedule, bbb.training.stride, bbb.training.beta_warmup) == ("exact", 32, 4600)
    # What a static model leaves out of the window of 256 is below the rounding of what it keeps.
    left_out = 0.9**bbb.training.window / (1 - 0.9)
    assert left_out < np.finfo(np.float32).eps * (1 / (1 - 0.9))


def test_only_the_paper_family_uses_relu():
    for name in PAPERS:
        assert preset("paper", name).settings["activation"] == "relu"
        assert preset("bounded", name).settings["activation"] == "tanh"
        assert not preset("bounded", name).suited
    assert set(FAMILIES) == {"paper", "bounded", "raw-target", "raw"}


def test_what_is_not_the_papers_is_chosen_from_the_data():
    """On the paper's own tracks references keep the paper's inputs."""
    for name in set(MODELS) - set(PAPERS):
        assert (preset("bounded", name).suited, preset("bounded", name).seeds) == (True, 3)
        assert preset("paper", name).suited == (name not in REFERENCES)
    assert preset("raw", "latent-track").suited


@pytest.mark.parametrize("clock", [True, False])
def test_a_file_of_ones_own_is_a_track(tmp_path, clock):
    hours = np.datetime64("2024-01-01T00:00", "m") + 60 * np.delete(np.arange(80), [20, 21])
    rows = [f"{time if clock else i},{i % 7},{i}" for i, time in enumerate(hours)]
    path = tmp_path / "plant.csv"
    path.write_text("\n".join(["when,load,power", *rows]))
    track = file_track(Selection(path, "power", horizon=2))
    series = track.load()
    assert (track.name, series.delay, series.target) == ("plant", 2, "power")
    # Gaps become rows of missing values where there is a clock.
    assert len(series) == (80 if clock else 78)


@needs_jena
def test_the_paper_track_is_the_papers_stream():
    """Thirteen inputs, the sentinels in the test part only and untouched."""
    track = find_track("paper")
    series = track.load(DATA)
    train, test, _ = prepare(series, track.fraction, **preset("paper", "dssm").features)
    assert (len(train), len(test), len(train.names)) == (49_027, 21_011, 13)
    past, future = series.split(track.fraction)
    assert not (past.x == track.sentinel).any()
    assert (future.x == track.sentinel).any(axis=1).sum() == 3
    assert np.abs(test.x).max() > 1000


@needs_jena
def test_the_clean_track_has_no_sentinels():
    track = find_track("paper-clean")
    _, test, _ = prepare(track.load(DATA), track.fraction, **preset(track.presets, "dssm").features)
    assert np.abs(test.x).max() < 20
    assert test.x.shape[1] == 13


def test_every_dataset_has_both_honest_protocols():
    """Predicted so many hours ahead, and known as much later."""
    found = {(t.dataset, t.horizon, t.delay) for t in map(find_track, HONEST)}
    assert found == {(data, hours, hours) for data in ("jena", "etth1", "bike") for hours in (1, 6)}


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the public files are read from {DATA}")
@pytest.mark.parametrize("name", HONEST)
def test_a_label_is_a_later_input(name):
    """The label of step t is the target of `horizon` hours later, known there and not before."""
    track = find_track(name)
    series = track.load(DATA)
    column = series.names.index({"jena": "T", "etth1": "OT", "bike": "cnt"}[track.dataset])
    assert (series.delay, series.period) == (track.horizon, 24)
    np.testing.assert_array_equal(series.y[: -track.horizon], series.x[track.horizon :, column])
    assert np.isnan(series.y[-track.horizon :]).all()
    assert not (series.x == -9999).any()
    if track.dataset != "jena":
        assert (np.diff(series.time) == np.timedelta64(1, "h")).all()


@needs_jena
def test_without_the_temperature():
    series = find_track("paper-no-temperature").load(DATA)
    assert series.names == ("p", "Tdew", "rh", "VPdef", "rho", "wv")
