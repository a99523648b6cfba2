import dataclasses

import numpy as np
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import epistemic_share
from latenttrack.report.curves import (
    check_records,
    choose,
    eventful_week,
    over_time,
    pit_density,
    rolling_mean,
    split_unit,
)


def test_eventful_week_lies_in_the_key_and_days_that_vary_most(fake, clock):
    records = fake(**clock)
    week = eventful_week(records)
    assert len(week) == 168
    assert set(records.key[week]) == {1}
    assert np.array_equal(np.diff(week), np.ones(167))
    expected = np.datetime64("2013-10-08") - np.timedelta64(4, "D"), np.datetime64("2013-10-15")
    assert expected[0] <= records.time[week[0]] <= expected[1]


def test_one_false_reading_does_not_make_a_week_eventful(fake, steps):
    y = np.zeros(600)
    y[300:468] = np.linspace(0, 10, 168)
    y[20] = 1000.0
    records = dataclasses.replace(fake(**steps), y=y)
    assert 250 < eventful_week(records)[0] < 350


def test_short_or_constant_series_still_have_a_week(fake, steps):
    short = {**steps, **{name: steps[name][:50] for name in ("time", "key", "y")}}
    assert np.array_equal(eventful_week(fake(**short)), np.arange(50))
    y = np.full(600, np.nan)
    y[599] = 1.0
    assert 599 in eventful_week(dataclasses.replace(fake(**steps), y=y))


def test_over_time_averages_seeds_and_keys(fake, steps):
    records = dataclasses.replace(
        fake(**steps),
        time=np.array([0.0, 1.0, 2.0, 1.0, 2.0]),
        key=np.array([0, 0, 0, 1, 1]),
        keys=("a", "b"),
    )
    values = np.array([[1.0, 2.0, np.nan, 4.0, np.inf], [3.0, 2.0, np.nan, 8.0, np.nan]])
    times, means = over_time(records, values)
    assert times.tolist() == [0.0, 1.0, 2.0]
    np.testing.assert_array_equal(means, [2.0, 4.0, np.nan])


def test_rolling_mean_of_a_constant_with_gaps_is_that_constant():
    values = np.full(200, 3.0)
    values[[0, 50, 51, 199]] = np.nan
    np.testing.assert_allclose(rolling_mean(values, 5), 3.0)
    values[80:120] = np.nan
    assert np.isnan(rolling_mean(values, 5)[90:110]).all()


def test_rolling_mean_by_hand():
    values = np.zeros(30)
    values[10] = 3.0
    expected = np.zeros(30)
    expected[9:12] = 1.0
    np.testing.assert_allclose(rolling_mean(values, 72), expected)  # 30 steps allow a window of 3


def test_pit_density_of_calibrated_forecasts_lies_in_the_band(fake, steps):
    inside = []
    for seed in range(20):
        density, half = pit_density(fake(**steps, seeds=1, seed=seed), 20)
        assert density.mean() == pytest.approx(1)
        inside += list(np.abs(density - 1) <= half)
    share, error = 0.95, np.sqrt(0.95 * 0.05 / len(inside))
    assert abs(np.mean(inside) - share) < 4 * error + 0.01  # 0.01: counts are discrete


def test_pit_band_depends_on_labels_not_on_seeds(fake, clock, steps):
    assert pit_density(fake(**steps, seeds=1), 20)[1] == pit_density(fake(**steps, seeds=5), 20)[1]
    labels = (~np.isnan(clock["y"])).sum()
    assert pit_density(fake(**clock), 10)[1] == pytest.approx(
        1.96 * np.sqrt(0.1 * 0.9 * labels) / (0.1 * labels)
    )


def test_share_is_what_was_put_in(fake, clock):
    records = fake(**clock, seeds=3, epistemic=0.4)
    epistemic, aleatoric = (records.steps[name].astype(float) for name in ("epistemic", "aleatoric"))
    assert epistemic_share(records) == pytest.approx((epistemic / (epistemic + aleatoric)).mean(), rel=1e-5)


def test_share_leaves_out_what_is_not_finite(fake, steps):
    records = fake(**steps, epistemic=0.4)
    expected = epistemic_share(records)
    records.steps["aleatoric"][0, 3] = np.inf
    assert epistemic_share(records) == pytest.approx(expected, rel=0.05)
    records.steps["aleatoric"][:] = np.nan
    assert np.isnan(epistemic_share(records))


def test_choice_is_the_best_latent_track_then_the_best_others(fake, steps):
    wide = {"lt-a": 9.0, "lt-b": 6.0, "c": 3.0, "d": 1.0, "e": 8.0}  # the wider, the worse
    records = [fake(name, **steps, width=width) for name, width in wide.items()]
    assert [entry.model for entry in choose(records, None, 3)] == ["lt-b", "d", "c"]
    assert [entry.model for entry in choose(records[2:], None, 2)] == ["d", "c"]
    assert [entry.model for entry in choose(records, ["e", "lt-a"], 3)] == ["e", "lt-a"]


def test_a_model_that_broke_down_is_chosen_last(fake, steps):
    records = [fake("broken", **steps), fake("fine", **steps, width=5.0)]
    records[0].steps["crps"][0, 10] = np.nan
    assert choose(records, None, 1)[0].model == "fine"


def test_unknown_model_is_named(fake, steps):
    with pytest.raises(LatentTrackError, match=r"no records of model 'vrn'; choose from: vrnn, rls$"):
        choose([fake("vrnn", **steps), fake("rls", **steps)], ["vrn"], 3)


def test_records_must_be_of_the_same_steps_and_labelled(fake, steps, clock):
    with pytest.raises(LatentTrackError, match="records is empty"):
        check_records([])
    with pytest.raises(LatentTrackError, match=r"'a' and 'b' are of different steps"):
        check_records([fake("a", **steps), fake("b", **clock)])
    unlabelled = dataclasses.replace(fake(**steps), y=np.full(600, np.nan))
    with pytest.raises(LatentTrackError, match="no step has a label of 'y'"):
        check_records([unlabelled])


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("temperature (°C)", ("temperature", "°C")),
        ("load [MW]", ("load", "MW")),
        ("y", ("y", "")),
        ("T (2 m) (°C)", ("T (2 m)", "°C")),
        ("(°C)", ("(°C)", "")),
        ("f(x) of y", ("f(x) of y", "")),
    ],
)
def test_unit_of_the_target(target, parts):
    assert split_unit(target) == parts
