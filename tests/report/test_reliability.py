"""The calibration figure: a pair of panels for each track, whatever their number and their models."""

import numpy as np
import pytest

from latenttrack.evaluation.calibration import BINS, LEVELS, Calibration
from latenttrack.report.canvas import PALETTE, png
from latenttrack.report.reliability import WIDEST, calibration_grid

PERFECT = Calibration(np.ones(BINS), np.array(LEVELS), 2000)
BROKEN = Calibration(np.repeat([20.0, 0.0], [1, BINS - 1]), np.zeros(len(LEVELS)), 2000)


@pytest.mark.parametrize("tracks", [1, 2, 3])
def test_a_pair_of_panels_for_each_track(tracks):
    figure = calibration_grid({f"track {i}": {"a": PERFECT, "b": BROKEN} for i in range(tracks)})
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == 2 * tracks
    assert [axes.get_title(loc="left") for axes in shown[::2]] == [f"track {i}" for i in range(tracks)]
    assert png(figure).startswith(b"\x89PNG")


def test_what_is_wild_does_not_hide_the_rest():
    density, coverage = calibration_grid({"t": {"a": PERFECT, "b": BROKEN}}).axes
    assert density.get_ylim() == (0, 2)
    assert coverage.get_ylim()[1] == pytest.approx(1.1 * WIDEST)


def test_a_model_has_its_colour_in_every_panel():
    """Also where another is missing."""
    figure = calibration_grid({"t": {"a": PERFECT, "b": BROKEN}, "u": {"b": BROKEN}})
    curves = [
        line for axes in figure.axes[1::2] for line in axes.lines if len(line.get_xdata()) == len(LEVELS)
    ]
    assert [line.get_color() for line in curves] == [PALETTE[1], PALETTE[0], PALETTE[1]]
