"""The paper's courses over time, at one seed: predictive mean, uncertainty and error in decibels, NLL.

Every function takes the records of the models that it draws and the colours of all; so the same functions
compare seven models, or two.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from latenttrack.evaluation.records import Records
from latenttrack.report import canvas, timelines
from latenttrack.report.curves import split_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COARSE, FINE = 200, 1000  # bins of means, of which many lines lie over each other, and of extremes
NATS = 12.0  # a clipped NLL axis ends so far above the best model's median


def mean_over_time(
    records: Sequence[Records], colour: Mapping[str, str], clipped: Sequence[Records]
) -> "Figure":
    """Draw the predictive mean: all models on the full scale, some of them clipped to the labels' range.

    Args:
        records: the models of the first panel.
        colour: of every model.
        clipped: the models with a panel of their own below.

    Returns:
        Full scale: lowest and highest mean of each bin. Clipped: means over bins, and the labels' range.
    """
    bins = timelines.make_bins(records[0].time, FINE)
    y, target = records[0].y, records[0].target
    low, high = timelines.label_range(y)
    figure, panels = _stacked([1.6, *[1.2] * len(clipped)])
    extremes = {entry.model: timelines.bin_extremes(entry.steps["mean"][0], bins) for entry in records}
    for name in sorted(extremes, key=lambda name: -_reach(*extremes[name])):
        # From the lowest to the highest of a day and on: a spike of one step keeps its height.
        course = np.stack(extremes[name], axis=1).ravel()
        panels[0].plot(np.repeat(bins.time, 2), course, color=colour[name], linewidth=0.9)
    canvas.tidy(panels[0], "all, full scale", split_unit(target)[1] or target)
    symlog(panels[0], max(abs(low), abs(high)))
    lowest, highest = timelines.bin_extremes(y, bins)
    for axes, entry in zip(panels[1:], clipped, strict=True):
        axes.fill_between(bins.time, lowest, highest, color=canvas.INK, alpha=0.18, linewidth=0)
        axes.plot(
            bins.time,
            timelines.bin_means(entry.steps["mean"][0], bins),
            color=colour[entry.model],
            linewidth=1.0,
        )
        canvas.tidy(axes, f"{entry.model}, clipped", split_unit(target)[1] or target)
        axes.set_ylim(low, high)
    canvas.time_axis(panels[-1], bins.time)
    canvas.legend_below(
        figure,
        *model_keys(records, colour),
        canvas.area_key(f"labels, {bins.name} range", 0.18, canvas.INK),
    )
    return figure


def variance_over_time(records: Sequence[Records], colour: Mapping[str, str]) -> "Figure":
    """Draw aleatoric, epistemic and total variance and the squared error, in decibels.

    Args:
        records: of the models to show.
        colour: of every model.

    Returns:
        Four panels, means over each bin. A peak that leaves the panel has its height written beside it.
    """
    bins = timelines.make_bins(records[0].time, COARSE)
    figure, panels = _stacked([1.35] * 4)
    for axes, (title, pick) in zip(panels, LEVELS.items(), strict=True):
        courses = []
        for entry in reversed(records):  # the first model on top
            courses.append(timelines.decibel(timelines.bin_means(pick(entry), bins)))
            axes.plot(bins.time, courses[-1], color=colour[entry.model], linewidth=1.2)
        canvas.tidy(axes, title, level_label(records[0].target))
        low, high = timelines.typical_range(courses)
        axes.set_ylim(low, high + 0.1 * (high - low))
        _name_peak(axes, {entry.model: timelines.decibel(pick(entry)) for entry in records}, records[0].time)
    canvas.time_axis(panels[-1], bins.time)
    canvas.legend_below(figure, *model_keys(records, colour))
    return figure


def nll_over_time(records: Sequence[Records], colour: Mapping[str, str]) -> "Figure":
    """Draw the NLL on the full scale (largest of each fine bin) and clipped (means over each bin).

    Args:
        records: of the models to show.
        colour: of every model.
    """
    days, bins = (timelines.make_bins(records[0].time, number) for number in (FINE, COARSE))
    figure, (full, clipped) = _stacked([2.2, 2.6])
    peaks = {entry.model: timelines.bin_extremes(entry.steps["nll"][0], days)[1] for entry in records}
    for name in sorted(peaks, key=lambda name: -_reach(peaks[name])):
        full.plot(days.time, peaks[name], color=colour[name], linewidth=0.9)
    canvas.tidy(full, f"{days.name} maximum, full scale", "NLL (nats)")
    symlog(full, 10.0)
    courses = []
    for entry in reversed(records):
        courses.append(timelines.bin_means(entry.steps["nll"][0], bins))
        clipped.plot(bins.time, courses[-1], color=colour[entry.model], linewidth=1.2)
    canvas.tidy(clipped, f"{bins.name} mean, clipped", "NLL (nats)")
    clipped.set_ylim(*nll_range(courses))
    canvas.time_axis(clipped, bins.time)
    canvas.legend_below(figure, *model_keys(records, colour))
    return figure


def nll_range(courses: list[np.ndarray]) -> tuple[float, float]:
    """The clipped range of an NLL axis for some courses [B]: hopeless models may leave it."""
    low, high = timelines.typical_range(courses, share=0.96)
    medians = [float(np.median(c[np.isfinite(c)])) for c in courses if np.isfinite(c).any()]
    return low, min(high, min(medians, default=0.0) + NATS)


def model_keys(records: Sequence[Records], colour: Mapping[str, str]) -> list:
    """Legend entries for models."""
    return [canvas.line_key(entry.model, colour[entry.model]) for entry in records]


def level_label(target: str) -> str:
    """The label of an axis in decibels: what 0 dB is."""
    unit = split_unit(target)[1]
    return f"dB re 1 {unit}²" if unit else "dB"


def _aleatoric(records: Records) -> np.ndarray:
    return records.steps["aleatoric"][0]


def _epistemic(records: Records) -> np.ndarray:
    return records.steps["epistemic"][0]


def _squared_error(records: Records) -> np.ndarray:
    return records.steps["squared_error"][0]


LEVELS = {
    "aleatoric variance": _aleatoric,
    "epistemic variance": _epistemic,
    "total variance": timelines.total_variance,
    "squared error": _squared_error,
}


def _stacked(heights: Sequence[float]) -> "tuple[Figure, list[Axes]]":
    """Panels of given heights in inches, one above the other on one time axis."""
    figure = canvas.new_figure(height=sum(heights) + 0.9)
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    panels: list[Axes] = []
    for i in range(len(heights)):
        panels.append(figure.add_subplot(grid[i, 0], sharex=panels[0] if panels else None))
        panels[-1].tick_params(labelbottom=i == len(heights) - 1)
    return figure, panels


def symlog(axes: "Axes", threshold: float) -> None:
    """Linear up to a threshold, logarithmic beyond: a spike of 1e6 and a course around 2 in one panel.

    Where nothing lies beyond, the axis stays linear.
    """
    from matplotlib.ticker import SymmetricalLogLocator

    threshold = 10.0 ** np.ceil(np.log10(max(threshold, 1.0)))
    if max(abs(axes.dataLim.y0), abs(axes.dataLim.y1)) <= threshold:
        return
    axes.set_yscale("symlog", linthresh=threshold, linscale=1.0)
    locator = SymmetricalLogLocator(base=10, linthresh=threshold)
    locator.set_params(numticks=7)
    axes.yaxis.set_major_locator(locator)
    axes.margins(y=0.1)


def _reach(*courses: np.ndarray) -> float:
    """How far courses [B] lie from zero at most."""
    known = [np.abs(course[np.isfinite(course)]).max() for course in courses if np.isfinite(course).any()]
    return float(max(known, default=0.0))


def _name_peak(axes: "Axes", levels: Mapping[str, np.ndarray], time: np.ndarray) -> None:
    """Write the height of the highest single step [N] beside it, if it lies outside of the panel."""
    peaks = {name: float(np.nanmax(level)) for name, level in levels.items() if np.isfinite(level).any()}
    if not peaks:
        return
    name = max(peaks, key=lambda name: peaks[name])
    if peaks[name] <= axes.get_ylim()[1] + 3:
        return
    row = int(np.nanargmax(levels[name]))
    left = row < len(time) / 2
    axes.annotate(
        canvas.plain(f"one step: {peaks[name]:.0f} dB ({name})"),
        (time[row], 1),
        xycoords=("data", "axes fraction"),
        xytext=(6 if left else -6, -2),
        textcoords="offset points",
        ha="left" if left else "right",
        va="top",
        fontsize=canvas.TICK - 1,
        color=canvas.INK,
    )
