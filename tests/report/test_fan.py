import numpy as np
import pytest

from latenttrack.report import canvas
from latenttrack.report.fan import fan_figure

HOURS = np.datetime64("2026-01-01", "ns") + np.arange(100) * np.timedelta64(3600, "s")


def fan(steps):
    return {p: (p - 0.5) * np.sqrt(np.arange(1.0, steps + 1)) for p in (0.05, 0.25, 0.5, 0.75, 0.95)}


def test_a_fan_opens_from_the_newest_value():
    figure = fan_figure(HOURS[60:], fan(40), HOURS[:60], np.zeros(60), "power (MW)")
    axes = figure.axes[0]
    median, past = axes.lines
    assert (len(median.get_xdata()), len(past.get_xdata())) == (41, 60)
    assert axes.get_ylabel() == "MW"
    assert axes.get_title(loc="left") == "power, 40 steps ahead"
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["measured", "median", "90 % interval", "50 % interval"]


def test_of_a_long_past_a_part_is_shown():
    figure = fan_figure(HOURS[90:], fan(10), HOURS[:90], np.zeros(90), "power")
    assert len(figure.axes[0].lines[1].get_xdata()) == 24


@pytest.mark.parametrize("past", [np.zeros(0), np.array([1.0, np.nan])], ids=["none", "missing"])
def test_without_a_newest_value_it_stands_alone(past):
    time = np.arange(len(past), dtype=float)
    figure = fan_figure(np.arange(5.0, 8.0), fan(3), time, past, "y")
    assert len(figure.axes[0].lines[0].get_xdata()) == 3
    assert canvas.pdf(figure).startswith(b"%PDF")
