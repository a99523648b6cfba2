"""Calibration of some models on several tracks, in one figure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from latenttrack.evaluation.calibration import BINS, LEVELS, Calibration
from latenttrack.report import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = 1.75  # inches high
LEAST = 0.25  # a density's axis shows at least so much above and below 1
WIDEST = 15.0  # percentage points; what lies farther off is cut off
BAND = 0.12  # opacity


def calibration_grid(tracks: Mapping[str, Mapping[str, Calibration]]) -> "Figure":
    """Draw PIT histograms and the coverage of central intervals.

    Args:
        tracks: name -> model -> calibration; the first model of a track is drawn in front, filled.

    Returns:
        A pair of panels for each track, two tracks in a row: on the left the density of the PIT, flat for
        calibrated forecasts; on the right how many percentage points more (above 0) or fewer labels than
        promised lie inside the central interval of each level.
    """
    names = list(dict.fromkeys(name for models in tracks.values() for name in models))
    colour = dict(zip(names, [*canvas.PALETTE, *[canvas.GREY] * len(names)], strict=False))
    rows = -(-len(tracks) // 2)
    figure = canvas.new_figure(height=PANEL * rows + 0.75)
    panels = figure.subplots(rows, 4 if len(tracks) > 1 else 2, squeeze=False).reshape(-1, 2)
    for (left, right), (track, models) in zip(panels, tracks.items(), strict=False):
        _density(left, track, models, colour)
        _coverage(right, models, colour)
    for axes in panels[len(tracks) :].ravel():
        axes.set_axis_off()
    canvas.legend_below(
        figure,
        *(canvas.line_key(name, colour[name]) for name in names),
        canvas.area_key("95 % of calibrated forecasts", BAND, canvas.INK),
    )
    return figure


def _density(axes: "Axes", track: str, models: Mapping[str, Calibration], colour: Mapping[str, str]) -> None:
    edges = np.linspace(0, 1, BINS + 1)
    half = 1.96 * np.sqrt((BINS - 1) / max(1, next(iter(models.values())).steps))
    axes.axhspan(1 - half, 1 + half, color=canvas.INK, alpha=BAND, linewidth=0)
    axes.axhline(1, color=canvas.INK, linewidth=0.8)
    worst = 0.0
    for i, (name, one) in reversed(list(enumerate(models.items()))):
        if i == 0:
            axes.stairs(one.histogram, edges, baseline=1, fill=True, color=colour[name], alpha=0.3)
        axes.stairs(one.histogram, edges, baseline=None, color=colour[name], linewidth=_width(i))
        worst = max(worst, float(np.abs(one.histogram - 1).max()))
    bound = min(1.0, max(LEAST, 1.1 * worst))
    canvas.tidy(axes, track, "density")
    axes.set(xlim=(0, 1), ylim=(1 - bound, 1 + bound), xticks=(0, 0.5, 1), xticklabels=("0", "0.5", "1"))
    axes.set_xlabel("PIT", fontsize=canvas.TICK)


def _coverage(axes: "Axes", models: Mapping[str, Calibration], colour: Mapping[str, str]) -> None:
    levels = np.array(LEVELS)
    steps = max(1, next(iter(models.values())).steps)
    # The binomial's standard deviation; 0 at both ends, where there is no doubt.
    nominal = np.linspace(0, 1, 101)
    half = 196 * np.sqrt(nominal * (1 - nominal) / steps)
    axes.fill_between(100 * nominal, -half, half, color=canvas.INK, alpha=BAND, linewidth=0)
    axes.axhline(0, color=canvas.INK, linewidth=0.8)
    worst = 2.0
    for i, (name, one) in reversed(list(enumerate(models.items()))):
        excess = 100 * (one.coverage - levels)
        worst = max(worst, float(np.abs(excess).max()))
        axes.plot(
            100 * levels,
            excess,
            marker="o",
            markersize=2.5,
            color=colour[name],
            linewidth=_width(i),
        )
    bound = 1.1 * min(worst, WIDEST)
    canvas.tidy(axes, "", "% covered, minus promised")
    axes.set(xlim=(0, 100), ylim=(-bound, bound), xticks=(0, 50, 90))
    axes.set_xlabel("central interval, %", fontsize=canvas.TICK)


def _width(place: int) -> float:
    """Of a line: the first model stands out."""
    return 1.0 if place else 1.8
