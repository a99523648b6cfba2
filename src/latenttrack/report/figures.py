"""Figures from records: each function takes the records of all models on one series and returns a figure."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from latenttrack.evaluation.records import Records, epistemic_share
from latenttrack.report import canvas, curves
from latenttrack.store.atomic import make_folder, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = 3  # models in the figures that show a course in time
SMOOTHING = 72  # steps: three days of hours
BINS = 20
PIT_TOP = 2.5  # taller bars are cut off
BAND, PIT_BAND, LIGHT, DARK = 0.3, 0.2, 0.35, 0.9  # opacity of areas


def save_figures(
    records: Sequence[Records], directory: str | os.PathLike[str], models: Sequence[str] | None = None
) -> list[Path]:
    """Draw every figure and write it as a PNG file.

    Args:
        records: of one series, one entry for each model.
        directory: where the files go; made if need be.
        models: names of those in the figures that have no room for all; see `forecast_week`.

    Returns:
        The files: forecast_week.png, error_over_time.png, pit_histograms.png and uncertainty_split.png.
    """
    directory = Path(directory)
    figures = {
        "forecast_week": forecast_week(records, models),
        "error_over_time": error_over_time(records, models),
        "pit_histograms": pit_histograms(records),
        "uncertainty_split": uncertainty_split(records),
    }
    make_folder(directory)
    paths = []
    for name, figure in figures.items():
        paths.append(directory / f"{name}.png")
        write_bytes(paths[-1], canvas.png(figure))
    return paths


def forecast_week(
    records: Sequence[Records], models: Sequence[str] | None = None, steps: int = curves.WEEK
) -> "Figure":
    """Draw mean and 90 % band of the first seed's forecasts, and the labels, in the most eventful week.

    Args:
        records: of one series, one entry for each model.
        models: names of those to show; by default the best LatentTrack model and the best others, by CRPS.
        steps: length of the week.

    Returns:
        One panel for each model, one above the other on the same axes.
    """
    curves.check_records(records)
    shown, colour = curves.choose(records, models, PANELS), canvas.colours(records)
    week = curves.eventful_week(records[0], steps)
    time, y = records[0].time[week], records[0].y[week]
    figure, panels = _stacked(len(shown))
    for axes, entry in zip(panels, shown, strict=True):
        lower, upper, mean = (entry.steps[name][0, week] for name in ("lower", "upper", "mean"))
        axes.fill_between(time, lower, upper, color=colour[entry.model], alpha=BAND, linewidth=0)
        axes.plot(time, mean, color=colour[entry.model], linewidth=1.4)
        axes.plot(time, y, "o", color=canvas.INK, markersize=2.2, markeredgewidth=0)
        canvas.tidy(axes, entry.model, entry.target)
    panels[0].set_ylim(
        *_limits(y, [entry.steps[name][0, week] for entry in shown for name in ("lower", "upper")])
    )
    canvas.time_axis(panels[-1], time)
    panels[0].set_title(canvas.plain(_place(records[0], week)), loc="right", fontsize=canvas.LABEL)
    canvas.legend_below(
        figure,
        canvas.dot_key("label"),
        canvas.line_key("forecast mean"),
        canvas.area_key("5 to 95 % of the forecast", BAND),
    )
    return figure


def error_over_time(
    records: Sequence[Records], models: Sequence[str] | None = None, window: int = SMOOTHING
) -> "Figure":
    """Draw the errors made beside the errors expected: where the model is right, the two lines agree.

    Both are root mean squares over the moving window, all keys and all seeds: of forecast mean minus label,
    and of the predicted standard deviation.

    Args:
        records: of one series, one entry for each model.
        models: names of those to show; see `forecast_week`.
        window: steps of the moving average.

    Returns:
        One panel for each model, one above the other on the same axes.
    """
    curves.check_records(records)
    shown, colour = curves.choose(records, models, PANELS), canvas.colours(records)
    figure, panels = _stacked(len(shown))
    heights = []
    for axes, entry in zip(panels, shown, strict=True):
        time, made = _root(entry, entry.steps["squared_error"], window)
        _, expected = _root(entry, entry.steps["aleatoric"] + entry.steps["epistemic"], window)
        axes.plot(time, made, color=colour[entry.model], linewidth=1.6)
        axes.plot(time, expected, color=canvas.INK, linewidth=1.2, linestyle="--")
        canvas.tidy(axes, entry.model, canvas.with_unit("error", entry.target))
        heights += [made, expected]
    panels[0].set_ylim(0, _ceiling(heights))
    canvas.time_axis(panels[-1], time)
    canvas.legend_below(
        figure,
        canvas.line_key("error made (moving root mean square)"),
        canvas.line_key("predicted standard deviation", canvas.INK, dashed=True),
    )
    return figure


def pit_histograms(records: Sequence[Records], bins: int = BINS) -> "Figure":
    """Draw how often the labels fell into each part of the forecasts: flat if the forecasts are calibrated.

    A hump means too wide forecasts, a bowl too narrow ones, a slope biased ones. Bars that leave the panel
    carry their height.

    Args:
        records: of one series, one entry for each model.
        bins: number of bars.

    Returns:
        One panel for each model, at most four in a row.
    """
    curves.check_records(records)
    colour = canvas.colours(records)
    rows = -(-len(records) // 4)
    columns = -(-len(records) // rows)
    figure = canvas.new_figure(height=1.75 * rows + 0.75)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    heights = []
    for axes, entry in zip(panels, records, strict=False):
        heights.append(_pit_panel(axes, entry, colour[entry.model], bins))
    top = min(PIT_TOP, 1.1 * max(heights))
    for axes in panels:
        axes.set(xlim=(0, 1), ylim=(0, top), xticks=(0, 0.5, 1), xticklabels=("0", "0.5", "1"))
    for axes in panels[len(records) :]:
        axes.set_axis_off()
    for axes in panels[len(records) - columns : len(records)]:
        axes.tick_params(labelbottom=True)  # also those above an empty place
        axes.set_xlabel("PIT", fontsize=canvas.LABEL)
    for axes in panels[::columns]:
        axes.set_ylabel("density", fontsize=canvas.LABEL)
    canvas.legend_below(
        figure,
        canvas.line_key("calibrated", canvas.INK),
        canvas.area_key("95 % of calibrated bars", PIT_BAND, canvas.INK),
    )
    return figure


def _pit_panel(axes: "Axes", entry: Records, colour: str, bins: int) -> float:
    """Draw one histogram; returns the height that it would like to have."""
    density, half = curves.pit_density(entry, bins)
    axes.bar((np.arange(bins) + 0.5) / bins, density, width=0.9 / bins, color=colour, linewidth=0)
    axes.axhspan(max(0.0, 1 - half), 1 + half, color=canvas.INK, alpha=PIT_BAND, linewidth=0)
    axes.axhline(1, color=canvas.INK, linewidth=1)
    canvas.tidy(axes, entry.model)
    for i in np.flatnonzero(density > PIT_TOP):
        left = i < bins / 2  # its height stands on the side where there is room
        axes.annotate(
            f"{density[i]:.1f}",
            ((i + left) / bins, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2 if left else -2, -1),
            textcoords="offset points",
            ha="left" if left else "right",
            va="top",
            fontsize=canvas.TICK - 1,
        )
    return float(max(density.max(), 1 + half))


def uncertainty_split(records: Sequence[Records], window: int = SMOOTHING) -> "Figure":
    """Draw the two parts of the predictive variance: noise, and doubt about the function.

    Args:
        records: of one series, one entry for each model.
        window: steps of the moving average.

    Returns:
        On the left the course in time for the LatentTrack models, a panel each (if there are none: for the
        two best models by CRPS); on the right the epistemic share of every model.
    """
    curves.check_records(records)
    shown = [entry for entry in records if curves.is_latent_track(entry)] or curves.choose(records, None, 2)
    colour = canvas.colours(records)
    figure = canvas.new_figure(height=max(3.2, 2.0 * len(shown) + 0.6, 0.27 * len(records) + 1.2))
    grid = figure.add_gridspec(len(shown), 2, width_ratios=(2, 1))
    heights: list[np.ndarray] = []
    panels: list[Axes] = []
    for i, entry in enumerate(shown):
        axes = figure.add_subplot(
            grid[i, 0], sharex=panels[0] if i else None, sharey=panels[0] if i else None
        )
        time, epistemic = curves.smoothed(entry, entry.steps["epistemic"], window)
        _, aleatoric = curves.smoothed(entry, entry.steps["aleatoric"], window)
        total = epistemic + aleatoric
        axes.fill_between(time, 0, epistemic, color=colour[entry.model], alpha=DARK, linewidth=0)
        axes.fill_between(time, epistemic, total, color=colour[entry.model], alpha=LIGHT, linewidth=0)
        canvas.tidy(axes, entry.model, canvas.with_unit("variance", entry.target, squared=True))
        axes.tick_params(labelbottom=i == len(shown) - 1)
        heights.append(total)
        panels.append(axes)
    panels[0].set_ylim(0, _ceiling(heights))
    canvas.time_axis(panels[-1], time)
    _share_panel(figure.add_subplot(grid[:, 1]), records, colour)
    canvas.legend_below(
        figure,
        canvas.area_key("aleatoric: noise", LIGHT),
        canvas.area_key("epistemic: doubt about the function", DARK),
    )
    return figure


def _share_panel(axes: "Axes", records: Sequence[Records], colour: dict[str, str]) -> None:
    """One bar for each model, the first on top."""
    shares = {entry.model: 100 * epistemic_share(entry) for entry in records}
    lengths = {name: float(np.nan_to_num(share)) for name, share in shares.items()}
    canvas.horizontal_bars(axes, "epistemic share", lengths, colour)
    for i, (name, share) in enumerate(shares.items()):
        canvas.text_beside(axes, "n/a" if np.isnan(share) else f"{share:.1f}", lengths[name], i, gap=3)
    axes.set_xlim(0, max(10.0, 1.25 * max(lengths.values())))
    axes.set_xlabel("% of variance", fontsize=canvas.LABEL)


def _stacked(panels: int) -> "tuple[Figure, list[Axes]]":
    """Panels one above the other: the same moment stands at the same place in all of them."""
    figure = canvas.new_figure(height=1.75 * panels + 0.75)
    return figure, list(figure.subplots(panels, 1, sharex=True, sharey=True, squeeze=False)[:, 0])


def _place(records: Records, rows: np.ndarray) -> str:
    """Say where and when some rows [M] of one key are."""
    first, last = records.time[rows[0]], records.time[rows[-1]]
    if records.time.dtype.kind == "M":
        when = f"{first.astype('datetime64[D]')} to {last.astype('datetime64[D]')}"
    else:
        when = f"steps {first:g} to {last:g}"
    key = records.keys[records.key[rows[0]]]
    return f"{key}, {when}" if key else when


def _root(entry: Records, values: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    time, mean = curves.smoothed(entry, values, window)
    return time, np.sqrt(mean)


def _ceiling(courses: Sequence[np.ndarray]) -> float:
    """The top of an axis for some courses [T]; cuts off the tip of a spike, which would flatten the rest."""
    tops = [
        np.percentile(course[np.isfinite(course)], 99.5) for course in courses if np.isfinite(course).any()
    ]
    return 1.15 * float(max(tops, default=0.0)) or 1.0


def _limits(y: np.ndarray, bounds: Sequence[np.ndarray]) -> tuple[float, float]:
    """The range of an axis for labels [T] and forecast bounds: all labels, and bands unless they are wild."""
    labels = y[np.isfinite(y)]
    low, high = float(labels.min()), float(labels.max())
    room = 0.6 * (high - low) or 1.0
    values = np.concatenate([bound[np.isfinite(bound)] for bound in bounds] + [labels])
    return max(float(values.min()), low - room) - 0.05 * room, min(
        float(values.max()), high + room
    ) + 0.05 * room
