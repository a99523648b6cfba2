"""Paired comparison by week: by hand, on noise whose standard error is known, and through a bench folder."""

import json

import numpy as np
import pytest
from scipy import stats

from latenttrack.data.embedded import airports
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.archive import write_records
from latenttrack.evaluation.paired import BLOCKS, SCORES, compare, paired, weeks
from latenttrack.evaluation.records import FIELDS, Records
from latenttrack.evaluation.statistics import seed_scores
from latenttrack.evaluation.summary import summarise_bench
from latenttrack.evaluation.tracks import find_track
from latenttrack.training.presets import POOLED

MONDAY = np.datetime64("2024-01-01T00", "ns")
HOUR = np.timedelta64(1, "h")


def records(model, nll, *, time=None, y=None, key=None):
    """Records whose scores are all `nll` [seeds, N]."""
    nll = np.atleast_2d(np.asarray(nll, float))
    n = nll.shape[1]
    return Records(
        model=model,
        time=MONDAY + np.arange(n) * HOUR if time is None else time,
        key=np.zeros(n, np.int32) if key is None else key,
        keys=("a", "b"),
        target="y",
        y=np.zeros(n) if y is None else y,
        steps=dict.fromkeys(FIELDS, nll),
    )


def test_by_hand():
    """Weeks of 2, 1 and 1 steps: D = 9 / 4; deviations of the sums -3.5, 0.75 and 2.75."""
    found = paired(np.array([3.0, -2.0, 3.0, 5.0]), np.array([7, 7, 8, 9]))
    assert found.difference == pytest.approx(9 / 4)
    assert found.standard_error == pytest.approx(np.sqrt(3 / 2 * (3.5**2 + 0.75**2 + 2.75**2)) / 4)
    assert found.z == pytest.approx(found.difference / found.standard_error)
    assert (found.weeks_won, found.weeks) == (1.0, 3)


def test_weeks_of_equal_length_give_the_usual_standard_error_of_their_means():
    difference = np.random.default_rng(0).normal(size=(30, 168))
    found = paired(difference.ravel(), np.repeat(np.arange(30), 168))
    assert found.standard_error == pytest.approx(stats.sem(difference.mean(axis=1)))
    assert found.weeks_won == np.mean(difference.mean(axis=1) > 0)


def test_independent_steps_give_the_standard_error_of_a_mean():
    """sd / sqrt(n); an estimate from G weeks scatters by about 1 / sqrt(2 G) of it."""
    count = 400
    difference = np.random.default_rng(1).normal(0.1, 2.0, count * 24)
    found = paired(difference, np.repeat(np.arange(count), 24))
    expected = 2.0 / np.sqrt(len(difference))
    assert found.standard_error == pytest.approx(expected, rel=4 / np.sqrt(2 * count))


def test_steps_that_resemble_each_other_within_a_week_give_a_larger_one():
    """A week's common part of variance 1 beside noise of variance 1: (1 + 1 / m) / G, not 2 / (G m)."""
    count, m = 400, 24
    rng = np.random.default_rng(2)
    difference = rng.normal(size=(count, 1)) + rng.normal(size=(count, m))
    found = paired(difference.ravel(), np.repeat(np.arange(count), m))
    expected = np.sqrt((1 + 1 / m) / count)
    assert found.standard_error == pytest.approx(expected, rel=4 / np.sqrt(2 * count))
    assert found.standard_error > 3 * np.sqrt(2 / (count * m))


def test_its_z_is_a_standard_normal_where_models_are_equal():
    """Weeks of unequal length, autocorrelated steps: |z| > 1.96 in about 5 % of the cases."""
    rng = np.random.default_rng(3)
    z = []
    for _ in range(400):
        steps = rng.integers(20, 168, size=60)
        week = np.repeat(np.arange(60), steps)
        z.append(paired(rng.normal(size=60)[week] + rng.normal(size=len(week)), week).z)
    rate = np.mean(np.abs(z) > 1.96)
    assert abs(rate - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 400)


def test_one_week_has_no_standard_error():
    found = paired(np.array([1.0, 2.0]), np.array([4, 4]))
    assert found.difference == 1.5
    assert np.isnan(found.standard_error)
    assert np.isnan(found.z)


def test_the_same_model_twice():
    found = paired(np.zeros(6), np.repeat(np.arange(3), 2))
    assert found[:2] == (0.0, 0.0)
    assert np.isnan(found.z)
    assert found.weeks_won == 0


def test_weeks_begin_on_monday():
    time = MONDAY + np.array([-1, 0, 7 * 24 - 1, 7 * 24]) * HOUR
    assert np.diff(weeks(time)).tolist() == [1, 0, 1]
    before_1970 = np.datetime64("1969-12-28T23", "ns") + np.arange(2) * HOUR  # Sunday, then Monday
    assert np.diff(weeks(before_1970)).tolist() == [1]


def test_without_a_clock_blocks_of_a_fiftieth():
    index = weeks(np.tile(np.arange(1000.0, 1500.0), 2))
    assert np.bincount(index).tolist() == [20] * BLOCKS
    np.testing.assert_array_equal(index[:500], index[500:])
    assert len(np.unique(weeks(np.arange(7.0)))) == 7


def test_keys_share_their_weeks():
    n = 2 * 168
    time = np.tile(MONDAY + np.arange(n) * HOUR, 2)
    key = np.repeat(np.arange(2, dtype=np.int32), n)
    ones = np.ones(2 * n)
    found = compare(
        records("a", 0 * ones, time=time, key=key),
        records("b", np.where(key == 0, 1.0, 3.0), time=time, key=key),
    )
    assert found["crps"].weeks == 2
    assert found["crps"].difference == pytest.approx(2.0)
    assert found["crps"].standard_error == pytest.approx(0.0)


def test_seeds_are_averaged_and_steps_without_a_label_left_out():
    n = 3 * 168
    y = np.zeros(n)
    y[:168] = np.nan
    lead = np.stack([np.full(n, 1.0), np.full(n, 3.0)])
    lead[:, :168] = np.nan
    other = np.full(n, 2.5)
    other[-168:] = 1.0
    found = compare(records("a", lead, y=y), records("b", other, y=y))
    assert set(found) == set(SCORES)
    assert found["nll"].difference == pytest.approx((0.5 - 1.0) / 2)
    assert (found["nll"].weeks_won, found["nll"].weeks) == (0.5, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_score_is_infinitely_bad(bad):
    n = 4 * 168
    broken = np.zeros(n)
    broken[5] = bad
    good, worse = records("good", np.full(n, 1.0)), records("broken", broken)
    found = compare(good, worse)["nll"]
    assert found.difference == np.inf
    assert found.weeks_won == 0.25
    assert np.isnan(found.standard_error)
    assert compare(worse, good)["nll"].difference == -np.inf
    assert np.isnan(compare(worse, worse)["nll"].difference)


def test_mistakes_are_named():
    with pytest.raises(LatentTrackError, match="'a' and 'b' are of different steps"):
        compare(records("a", np.ones(5)), records("b", np.ones(6)))
    empty = records("a", np.ones(5), y=np.full(5, np.nan))
    with pytest.raises(LatentTrackError, match="no step has a label"):
        compare(empty, empty)


def bench(folder, models):
    """A summary of made-up scores on the embedded stream: each model's are its number plus noise."""
    track = find_track("airports")
    series = airports()
    _, test = series.split(track.fraction)
    rng = np.random.default_rng(4)
    for name, level in models.items():
        steps = {field: level + rng.normal(size=(2, len(test))) for field in FIELDS}
        steps["pit"] = rng.random((2, len(test)))
        made = Records(name, test.time, test.key, test.keys, test.target, test.y, steps)
        write_records(folder / f"{name}.parquet", made)
        facts = {"reference": False, "seeds": seed_scores(made), "seconds": {"train": 1.0}}
        (folder / f"{name}.json").write_text(json.dumps(facts))
    return summarise_bench(folder, track, series, list(models), "latenttrack bench airports")


def test_a_summary_compares_every_model_with_the_leading_one(tmp_path):
    bench(tmp_path, {"gru": 1.3, "latent-track": 1.0, "rls-t": 0.9})
    found = json.loads((tmp_path / "summary.json").read_bytes())["models"]
    assert "paired" not in found["latent-track"]
    for name, expected in (("gru", 0.3), ("rls-t", -0.1)):
        told = found[name]["paired"]
        assert (told["against"], told["by"]) == ("latent-track", "week")
        for score in SCORES:
            one = told[score]
            assert set(one) == {"difference", "standard_error", "z", "weeks_won", "weeks"}
            assert abs(one["difference"] - expected) < 5 * one["standard_error"]
        means = [np.mean([row["nll_mean"] for row in found[m]["seeds"]]) for m in (name, "latent-track")]
        assert told["nll"]["difference"] == pytest.approx(means[0] - means[1])


def test_a_summary_compares_every_other_model_with_the_pooled_seeds_too(tmp_path):
    levels = {"latent-track": 1.0, POOLED: 0.8, "gru": 1.3}
    found = bench(tmp_path, levels)["models"]
    assert found[POOLED]["paired"]["nll"]["difference"] < 0
    assert not any("paired_pooled" in found[name] for name in ("latent-track", POOLED))
    told = found["gru"]["paired_pooled"]
    assert told["against"] == POOLED
    means = [np.mean([row["nll_mean"] for row in found[name]["seeds"]]) for name in ("gru", POOLED)]
    assert told["nll"]["difference"] == pytest.approx(means[0] - means[1])


def test_infinite_differences_are_null_in_a_summary(tmp_path):
    bench(tmp_path, {"latent-track": 1.0, "gru": np.inf})
    told = json.loads((tmp_path / "summary.json").read_bytes())["models"]["gru"]["paired"]["nll"]
    assert (told["difference"], told["standard_error"], told["z"]) == (None, None, None)
    assert told["weeks_won"] == 1.0


def test_without_the_leading_model_nothing_is_compared(tmp_path):
    found = bench(tmp_path, {"gru": 1.3, "lt-deterministic": 1.0})
    assert not any("paired" in entry for entry in found["models"].values())
