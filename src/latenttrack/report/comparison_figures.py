"""Models against each other: who leads when, how often seeds fail, whether the claimed variance is right."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latenttrack.evaluation.records import Records
from latenttrack.evaluation.statistics import CATASTROPHE, calibration_bins, ccdf, ranks
from latenttrack.report import canvas, timelines
from latenttrack.report.curves import split_unit
from latenttrack.report.time_figures import COARSE, model_keys

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLACES = ("1st", "2nd", "3rd")
BINS = 20
SMALLEST = 0.1  # where a logarithmic axis of NLL begins at the earliest


def rank_grid(records: Sequence[Records], colour: Mapping[str, str]) -> "Figure":
    """Draw who was first, second and third over time, by NLL and by squared error.

    Args:
        records: of the models that compete, one seed.
        colour: of every model.

    Returns:
        One row for each place. A column is a week; each model fills the share of that week's steps at which
        it took the place.
    """
    bins = timelines.make_bins(records[0].time, COARSE)
    rows = min(len(PLACES), len(records))
    figure = canvas.new_figure(height=1.8 * rows + 1.0)
    panels = figure.subplots(2 * rows, 1, sharex=True)
    labelled = ~np.isnan(records[0].y)
    for half, (title, field) in enumerate((("NLL", "nll"), ("squared error", "squared_error"))):
        places = ranks({entry.model: entry.steps[field][0] for entry in records})
        for place, axes in enumerate(panels[rows * half : rows * (half + 1)], start=1):
            taken = {name: (where == place) & labelled for name, where in places.items()}
            _shares(axes, taken, colour, bins)
            axes.set_ylabel(PLACES[place - 1], rotation=0, ha="right", va="center", fontsize=canvas.LABEL)
            if place == 1:
                axes.set_title(title, loc="left", fontsize=canvas.TITLE, fontweight="bold", color=canvas.INK)
    canvas.time_axis(panels[-1], bins.time)
    keys = [canvas.area_key(entry.model, 1.0, colour[entry.model]) for entry in records]
    canvas.legend_below(figure, *keys)
    return figure


def _shares(
    axes: "Axes", taken: Mapping[str, np.ndarray], colour: Mapping[str, str], bins: timelines.Bins
) -> None:
    """Stack the share of each bin's steps [N] at which each model took a place."""
    counts = np.stack([np.bincount(bins.step[mask], minlength=len(bins.time)) for mask in taken.values()])
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    areas = axes.stackplot(bins.time, shares, colors=[colour[name] for name in taken], step="mid")
    for area, name in zip(areas, taken, strict=True):
        area.set(edgecolor=colour[name], linewidth=0.4)  # closes the light seams between neighbours
    axes.set(ylim=(0, 1), yticks=())
    axes.spines[:].set_visible(False)
    axes.tick_params(labelsize=canvas.TICK, color=canvas.GREY)


def failures(
    summary: Mapping[str, Any],
    names: Sequence[str],
    colour: Mapping[str, str],
    published: Mapping[str, float],
) -> "Figure":
    """Draw the distribution of each seed's largest NLL, and how many seeds exceed the threshold.

    Args:
        summary: the content of `summary.json`.
        names: models to show.
        colour: of every model.
        published: the paper's failure rates, where it has any.

    Returns:
        On the left the share of seeds whose largest NLL exceeds x; on the right that share at 1e6, with names
        that serve as the legend of both.
    """
    figure = canvas.new_figure(height=3.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    largest = {
        name: np.array(
            [np.nan if row["nll_max"] is None else row["nll_max"] for row in entry["seeds"]], float
        )
        for name, entry in summary["models"].items()
        if name in names
    }
    _ccdf_panel(left, largest, names, colour)
    rates = {name: float(summary["models"][name]["failure_rate"]) for name in names}
    _rate_panel(right, rates, colour, published)
    return figure


def _ccdf_panel(
    axes: "Axes", largest: Mapping[str, np.ndarray], names: Sequence[str], colour: Mapping[str, str]
) -> None:
    finite = np.concatenate([values[np.isfinite(values)] for values in largest.values()] + [[CATASTROPHE]])
    start = max(SMALLEST, float(finite.min()) / 2)
    end = max(float(finite.max()), CATASTROPHE) * 4
    for name in reversed(names):
        curve = ccdf(largest[name])
        x = np.clip(curve.x, start, end)  # an NLL that is not finite exceeds whatever the axis holds
        axes.step(
            [start, *x, end],
            100 * np.array([1.0, *curve.y, curve.y[-1] if np.isfinite(curve.x[-1]) else 0.0]),
            where="post",
            color=colour[name],
            linewidth=1.6,
        )
    axes.axvline(CATASTROPHE, color=canvas.INK, linewidth=1.0, linestyle="--")
    axes.annotate(
        "failure",
        (CATASTROPHE, 0.03),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=canvas.TICK,
    )
    canvas.tidy(axes, "largest NLL of each seed", "% of seeds above")
    axes.set(xscale="log", xlim=(start, end), ylim=(-2, 102))
    axes.set_xlabel("largest NLL (nats)", fontsize=canvas.LABEL)


def _rate_panel(
    axes: "Axes", rates: Mapping[str, float], colour: Mapping[str, str], published: Mapping[str, float]
) -> None:
    """One bar for each model; a mark where the paper has its number."""
    lengths = {name: 100 * rate for name, rate in rates.items()}
    canvas.horizontal_bars(axes, "seeds that fail", lengths, colour)
    for i, (name, rate) in enumerate(rates.items()):
        text = f"{100 * rate:.0f} %"
        if name in published:
            axes.plot(
                100 * published[name], i, marker="D", color="white", markeredgecolor=canvas.INK, markersize=5
            )
            text += f"  (paper {100 * published[name]:.0f} %)"
        canvas.text_beside(axes, text, 100 * max(rate, published.get(name, 0.0)), i, gap=6)
    largest = 100 * max([0.1, *rates.values(), *published.values()])
    axes.set_xlim(0, 1.5 * largest)  # room for the text beside the bars
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= largest])
    axes.set_xlabel("% of seeds", fontsize=canvas.LABEL)


def error_by_variance(records: Sequence[Records], colour: Mapping[str, str]) -> "Figure":
    """Draw the mean squared error at steps of about the same predicted variance.

    Args:
        records: of the models to show, one seed.
        colour: of every model.

    Returns:
        One line for each model, equally filled bins of the central [1, 99] % of its variances; on the
        diagonal the claimed variance is right.
    """
    figure = canvas.new_figure(height=4.6)
    axes = figure.subplots()
    known = []
    for entry in reversed(records):
        variance, error = timelines.total_variance(entry), entry.steps["squared_error"][0]
        if not (np.isfinite(variance) & np.isfinite(error)).any():
            continue  # a model that broke down everywhere
        curve = calibration_bins(variance, error, BINS)
        fine = (curve.x > 0) & (curve.y > 0)
        axes.plot(
            curve.x[fine], curve.y[fine], "o-", color=colour[entry.model], markersize=3.5, linewidth=1.3
        )
        known += [curve.x[fine], curve.y[fine]]
    if known:
        values = np.concatenate(known)
        span = np.array([values.min() / 1.3, values.max() * 1.3])
        axes.plot(span, span, color=canvas.INK, linewidth=1.0, linestyle="--")
    unit = split_unit(records[0].target)[1]
    suffix = f" ({unit}²)" if unit else ""
    canvas.tidy(axes, "error by claimed variance", f"mean squared error{suffix}")
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel(canvas.plain(f"total predicted variance{suffix}"), fontsize=canvas.LABEL)
    canvas.legend_below(
        figure, *model_keys(records, colour), canvas.line_key("calibrated", canvas.INK, dashed=True)
    )
    return figure
