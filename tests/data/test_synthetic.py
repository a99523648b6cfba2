import numpy as np
import pytest
from scipy import stats

from latenttrack.data import STREAMS
from latenttrack.data.synthetic import drift, faults, heavy_tails, switch
from latenttrack.errors import LatentTrackError


def entropy(stream):
    """Of the true distribution at each step, in closed form."""
    if np.isinf(stream.truth_df):
        return 0.5 * np.log(2 * np.pi * np.e * stream.truth_scale**2)
    return stats.t.entropy(stream.truth_df) + np.log(stream.truth_scale)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", STREAMS)
def test_truth_scores_its_entropy(name, seed):
    stream = STREAMS[name](n=3000, seed=seed)
    excess = stream.truth_nll() - entropy(stream)
    assert abs(excess.mean()) < 4 * excess.std() / np.sqrt(len(excess))


@pytest.mark.parametrize("name", STREAMS)
def test_seed_decides_everything(name):
    one, same, other = STREAMS[name](n=500), STREAMS[name](n=500, seed=0), STREAMS[name](n=500, seed=1)
    np.testing.assert_array_equal(one.series.x, same.series.x)
    np.testing.assert_array_equal(one.series.y, same.series.y)
    assert not np.array_equal(one.series.y, other.series.y)
    assert (len(one.series), one.series.delay, one.series.has_clock) == (500, 1, False)
    assert STREAMS[name](n=50, dim=2).series.x.shape == (50, 2)


@pytest.mark.parametrize("name", STREAMS)
def test_no_fixed_model_comes_near_the_truth(name):
    stream = STREAMS[name]()
    clean = drift().series if name == "faults" else stream.series
    weights = np.linalg.lstsq(clean.x, clean.y)[0]  # fitted on everything: the best fixed weights there are
    static = np.mean((clean.y - clean.x @ weights) ** 2)
    oracle = np.mean((clean.y - stream.truth_loc) ** 2)
    assert oracle < 0.25 * static


@pytest.mark.parametrize("name", ["drift", "switch", "heavy-tails"])
def test_a_short_memory_learns_it_online(name):
    series, forget = STREAMS[name](n=4000, dim=4).series, 0.95
    xx, xy, errors = 1e-3 * np.eye(4), np.zeros(4), []
    for x, y in zip(series.x, series.y, strict=True):
        errors.append(y - x @ np.linalg.solve(xx, xy))
        xx, xy = forget * xx + np.outer(x, x), forget * xy + y * x
    assert np.mean(np.square(errors[100:])) < 0.5 * np.var(series.y)


def test_weights_turn_over_several_times():
    stream = drift(dim=1)
    weight = stream.truth_loc / stream.series.x[:, 0]
    assert np.sum(np.diff(np.sign(weight[:2800])) != 0) >= 5


def test_scales():
    assert np.ptp(drift().truth_scale) > 0.2
    assert np.ptp(switch().truth_scale) == 0
    assert heavy_tails().truth_df == 4


def test_faults_spoil_x_only():
    clean, broken = drift(), faults()
    np.testing.assert_array_equal(broken.series.y, clean.series.y)
    np.testing.assert_array_equal(broken.truth_loc, clean.truth_loc)
    x = broken.series.x
    assert np.isnan(x).any(axis=0).all()
    assert (x == -9999).any(axis=0).all()
    assert (np.diff(x, axis=0) == 0).any(axis=0).all()
    assert 0.05 < np.mean(x != clean.series.x) < 0.2


@pytest.mark.parametrize(
    ("make", "arguments"),
    [(drift, {"n": 0}), (drift, {"dim": 0}), (faults, {"seed": -1}), (switch, {"regimes": 1})],
)
def test_impossible_streams_are_refused(make, arguments):
    with pytest.raises(LatentTrackError, match=f"{next(iter(arguments))} is"):
        make(**arguments)
