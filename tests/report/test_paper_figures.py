"""The paper's figures: what they are made of, on cases worked out by hand."""

import dataclasses

import numpy as np
import pytest

from latenttrack.report import canvas, timelines
from latenttrack.report.anomaly_figures import around_anomaly
from latenttrack.report.comparison_figures import error_by_variance, failures, rank_grid
from latenttrack.report.numbers import clock, duration, integer, measure, moment, number, percent
from latenttrack.report.time_figures import mean_over_time, nll_over_time, variance_over_time


def hours(n):
    return np.datetime64("2015-01-01T00:40", "ns") + np.arange(n) * np.timedelta64(1, "h")


def test_bins_of_a_clock_have_names():
    time = hours(21_000)
    weekly, daily = timelines.make_bins(time, 200), timelines.make_bins(time, 1000)
    assert (weekly.name, len(weekly.time)) == ("weekly", 125)
    assert (daily.name, len(daily.time)) == ("daily", 875)
    np.testing.assert_array_equal(np.bincount(daily.step), np.full(875, 24))
    assert daily.time[0] == np.datetime64("2015-01-01T12:40", "ns")


def test_bins_of_step_numbers():
    bins = timelines.make_bins(np.arange(10.0), 4)
    assert bins.name == "3-step"
    np.testing.assert_array_equal(bins.step, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    np.testing.assert_array_equal(bins.time, [1, 4, 7, 10])


def test_means_and_extremes_leave_out_what_is_not_finite():
    bins = timelines.make_bins(np.arange(6.0), 3)
    values = np.array([1.0, 3.0, np.inf, -4.0, np.nan, np.nan])
    np.testing.assert_array_equal(timelines.bin_means(values, bins), [2, -4, np.nan])
    low, high = timelines.bin_extremes(values, bins)
    np.testing.assert_array_equal(low, [1, -4, np.nan])
    np.testing.assert_array_equal(high, [3, -4, np.nan])


def test_decibels():
    np.testing.assert_allclose(timelines.decibel(np.array([1.0, 100.0, 0.1])), [0, 20, -10])
    assert np.isnan(timelines.decibel(np.array([0.0]))).all()


def test_a_spike_does_not_decide_the_range():
    course = np.append(np.linspace(0, 1, 200), 1e6)
    low, high = timelines.typical_range([course])
    assert -0.2 < low < 0
    assert 1 < high < 1.2
    assert timelines.typical_range([np.full(3, np.nan)]) == (0.0, 1.0)


def test_the_window_is_around_the_worst_anomaly_of_one_stream():
    scores, key = np.zeros(100), np.repeat([0, 1], 50)
    scores[60] = 9.0
    window = timelines.window_around(np.array([10, 11, 60, 61]), scores, key, 15)
    np.testing.assert_array_equal(window, np.arange(50, 77))


@pytest.fixture(scope="module")
def pair(fake, steps):
    """Two models: the first has the lower NLL at all steps but the last 99."""
    first, second = fake("lt-structured", **steps, seeds=1), fake("lt-unstructured", **steps, seeds=1, seed=1)
    n = len(first.y)
    nll = np.where(np.arange(n) < n - 99, 1.0, 3.0)[None]
    first = dataclasses.replace(first, steps=first.steps | {"nll": nll})
    return [first, dataclasses.replace(second, steps=second.steps | {"nll": np.full((1, n), 2.0)})]


def test_rank_grid_shows_who_leads(pair):
    figure = rank_grid(pair, canvas.colours(pair))
    assert [axes.get_ylabel() for axes in figure.axes] == ["1st", "2nd"] * 2
    top = figure.axes[0].collections[0].get_paths()[0].vertices  # area of the first model, first place
    np.testing.assert_array_equal(np.unique(top[:, 1]), [0, 1])
    assert top[top[:, 1] == 1][:, 0].max() == pytest.approx(501, abs=2)


def test_failures_are_a_slice_of_the_ccdf(pair):
    seeds = [{"nll_max": value} for value in (10.0, 1e3, 1e7, None)]
    entry = {"seeds": seeds, "failure_rate": 0.5}
    summary = {"models": {"lt-structured": entry, "lt-unstructured": entry | {"failure_rate": 0.0}}}
    names = list(summary["models"])
    left, right = failures(summary, names, canvas.colours(pair), {"lt-structured": 0.12}).axes
    line = left.lines[-2]  # the first model lies on top, below the threshold's mark
    assert line.get_color() == canvas.PALETTE[0]
    x, y = np.array(line.get_xdata()), np.array(line.get_ydata())
    assert y[x < 1e6][-1] == pytest.approx(50)  # above the largest value below 1e6, half of the seeds
    texts = [text.get_text() for text in right.texts]
    assert texts == ["50 %  (paper 12 %)", "0 %"]


def test_calibrated_errors_lie_on_the_diagonal(fake, steps):
    records = fake(**steps, seeds=1, width=1.0)
    lines = error_by_variance([records], canvas.colours([records])).axes[0].lines
    x, y = (np.log(values) for values in lines[0].get_data())
    # 30 squared normal errors in a bin: their mean has a standard error of sqrt(2 / 30) = 26 %.
    assert abs(np.mean(y - x)) < 4 * 0.26 / np.sqrt(len(x))


def test_courses_have_units_and_clips(all_models):
    shown = [dataclasses.replace(entry) for entry in all_models[:7]]
    colour = canvas.colours(shown)
    wild = {name: values.copy() for name, values in shown[1].steps.items()}
    wild["mean"][0, 300], wild["squared_error"][0, 300], wild["nll"][0, 300] = 1e5, 1e10, 1e7
    shown[1] = dataclasses.replace(shown[1], steps=wild)
    figure = mean_over_time(shown, colour, shown[:2])
    full, *clipped = figure.axes
    assert full.get_yscale() == "symlog"
    assert full.dataLim.y1 == 1e5
    assert all(axes.get_ylim()[1] < 100 for axes in clipped)
    assert {axes.get_ylabel() for axes in figure.axes} == {"°C"}
    panels = variance_over_time(shown, colour).axes
    assert [axes.get_ylabel() for axes in panels] == ["dB re 1 °C²"] * 4
    assert [text.get_text() for text in panels[3].texts] == ["one step: 100 dB (lt-unstructured)"]
    full, clipped = nll_over_time(shown, colour).axes
    assert full.dataLim.y1 == 1e7
    assert clipped.get_ylim()[1] < 30


def test_a_calm_course_has_a_linear_scale(fake, steps):
    records = [fake(**steps, seeds=1)]
    assert mean_over_time(records, canvas.colours(records), records).axes[0].get_yscale() == "linear"


def test_anomaly_panels_show_the_window_and_shade_the_rows(all_models):
    rows = np.array([300, 301])
    figure = around_anomaly(all_models[:7], canvas.colours(all_models), rows)
    assert len(figure.axes) == 8
    label = figure.axes[0]
    np.testing.assert_array_equal(label.lines[0].get_ydata(), all_models[0].y[276:326])
    for axes in figure.axes[1:]:
        assert len(axes.lines) == 7
        assert len(axes.patches) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.444, "2.44"),
        (10095.7, "10,096"),
        (1.22e10, "1.22e10"),
        (np.inf, "∞"),
        (np.nan, "–"),
        (-0.5, "-0.50"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (2.0996e-12, "2.10e-12"),
        (-0.00012345, "-0.000123"),
        (0.05, "0.0500"),
        (0.2, "0.200"),
        (2.099, "2.099"),
        (1.22e10, "1.22e10"),
        (np.nan, "–"),
    ],
)
def test_scores_in_units_of_the_target_keep_the_digits_that_tell(value, text):
    assert measure(value) == text


def test_other_ways_to_write():
    assert percent(0.588) == "58.8"
    assert percent(np.nan) == "–"
    assert [duration(s) for s in (45.1, 1500.0, 9000.0)] == ["45 s", "25 min", "2.5 h"]
    assert moment(np.datetime64("2015-07-13T09:40", "ns")) == "2015-07-13 09:40"
    assert moment(np.float64(7)) == "step 7"
    assert clock("2015-07-13T09:40:00.000000000") == clock("2015-07-13T09:40") == "2015-07-13 09:40"
    assert clock("12.0") == "12.0"
    assert integer(19112) == "19,112"
    assert integer(None) == "–"
