"""The hours around the sentinel rows, step by step: what the raw -9999 does to every model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from latenttrack.evaluation.records import Records
from latenttrack.report import canvas, timelines
from latenttrack.report.time_figures import LEVELS, level_label, model_keys, nll_range, symlog

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 24  # shown before and after


def around_anomaly(records: Sequence[Records], colour: Mapping[str, str], rows: np.ndarray) -> "Figure":
    """Draw labels, means, uncertainty, error and NLL around an anomaly.

    Args:
        records: of the models to show, one seed.
        colour: of every model.
        rows: [M] anomalous rows.

    Returns:
        Eight panels; the anomalous steps are shaded.
    """
    worst = np.max([entry.steps["nll"][0] for entry in records], axis=0)
    window = timelines.window_around(rows, worst, records[0].key, STEPS)
    time, y, target = records[0].time[window], records[0].y[window], records[0].target
    figure = canvas.new_figure(height=8.2)
    panels = figure.subplots(4, 2, sharex=True)
    label, mean = panels[0]
    label.plot(time, y, "o-", color=canvas.INK, markersize=2.4, linewidth=1.0)
    canvas.tidy(label, "label", target)
    _draw(mean, records, colour, window, "mean")
    canvas.tidy(mean, "predictive mean, full scale", target)
    symlog(mean, float(np.nanmax(np.abs(y))))
    for axes, (title, pick) in zip([*panels[1], *panels[2]], LEVELS.items(), strict=True):
        levels = [timelines.decibel(pick(entry)[window]) for entry in reversed(records)]
        for entry, level in zip(reversed(records), levels, strict=True):
            _line(axes, time, level, colour[entry.model])
        canvas.tidy(axes, title, level_label(target))
        # An error that happens to be almost zero lies deep below the panel.
        axes.set_ylim(bottom=timelines.typical_range(levels, share=0.9)[0])
    full, clipped = panels[3]
    for axes in (full, clipped):
        _draw(axes, records, colour, window, "nll")
    canvas.tidy(full, "NLL, full scale", "NLL (nats)")
    symlog(full, 10.0)
    canvas.tidy(clipped, "NLL, clipped", "NLL (nats)")
    calm = np.setdiff1d(window, rows)
    clipped.set_ylim(*nll_range([entry.steps["nll"][0, calm] for entry in records]))
    first, last = _span(records[0].time, window, rows)
    for axes in panels.ravel():
        axes.axvspan(first, last, color=canvas.PALE, zorder=0, linewidth=0)
    for axes in panels[-1]:
        canvas.time_axis(axes, time)
    canvas.legend_below(
        figure, *model_keys(records, colour), canvas.area_key("sentinel rows", 1.0, canvas.PALE)
    )
    return figure


def _draw(
    axes: "Axes", records: Sequence[Records], colour: Mapping[str, str], window: np.ndarray, field: str
) -> None:
    for entry in reversed(records):  # the first model on top
        _line(axes, entry.time[window], entry.steps[field][0, window], colour[entry.model])


def _line(axes: "Axes", time: np.ndarray, values: np.ndarray, colour: str) -> None:
    finite = np.where(np.isfinite(values), values, np.nan)
    axes.plot(time, finite, "o-", color=colour, markersize=1.8, linewidth=1.0)


def _span(time: np.ndarray, window: np.ndarray, rows: np.ndarray) -> tuple[np.generic, np.generic]:
    """From half a step before the first anomalous row of a window to half a step after the last."""
    inside = np.intersect1d(rows, window)
    half = (time[window[-1]] - time[window[0]]) / max(1, 2 * (len(window) - 1))
    return time[inside[0]] - half, time[inside[-1]] + half
