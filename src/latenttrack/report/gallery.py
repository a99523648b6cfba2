"""The figures of the page: which ones a run has, in order, and what their captions say to look at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from latenttrack.evaluation import published
from latenttrack.evaluation.claims import STRUCTURED, UNSTRUCTURED, seed_row
from latenttrack.evaluation.records import Records
from latenttrack.report import canvas, timelines
from latenttrack.report.anomaly_figures import STEPS, around_anomaly
from latenttrack.report.comparison_figures import error_by_variance, failures, rank_grid
from latenttrack.report.curves import split_unit
from latenttrack.report.figures import PANELS, forecast_week, pit_histograms
from latenttrack.report.loading import Bench, anomaly_rows
from latenttrack.report.numbers import moment, number, percent
from latenttrack.report.time_figures import COARSE, FINE, mean_over_time, nll_over_time, variance_over_time

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plate:
    """One figure, not drawn yet.

    Attributes:
        name: of its files.
        title: a few words.
        caption: how to read it, and what there is to see in this run.
        draw: makes the figure.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[], "Figure"]


def plates(bench: Bench) -> list[Plate]:
    """List the figures that a run has data for.

    Args:
        bench: any models, any track; a figure whose models are missing is left out.
    """
    colour = canvas.colours(bench.drawn)
    shown = leaders(bench)
    names = [entry.model for entry in shown]
    found = [
        Plate(
            "forecast_week",
            "One week, step by step",
            f"Mean and 90 % interval of {_listed(names)} in the week in which the label varies most. Of the "
            "dots, nine in ten should lie inside the band, and the band should be narrow.",
            lambda: forecast_week(bench.drawn, names),
        ),
        *_courses(bench.drawn, shown, colour, "all", "all models"),
    ]
    pair = [entry for entry in bench.models if entry.model in (STRUCTURED, UNSTRUCTURED)]
    if len(pair) == 2:
        found += _courses(pair, pair, colour, "lt", "LT-structured against LT-unstructured")
    rows = anomaly_rows(bench)
    if len(rows):
        found.append(_anomaly(bench, colour, rows))
    # A network with fewer seeds than others is not ranked among them.
    ranked = [entry for entry in bench.models if "ranks" in bench.summary["models"][entry.model]]
    if len(ranked) > 1:
        found.append(_ranks(bench, ranked, colour))
    return [*found, *_seeds_and_calibration(bench, colour)]


def leaders(bench: Bench, limit: int = PANELS) -> list[Records]:
    """LT-structured and the best of the others, by trimmed NLL at the representative seed.

    Args:
        bench: may lack LT-structured; then the best are shown.
        limit: how many.
    """

    def order(entry: Records) -> tuple[bool, float]:
        row = seed_row(bench.summary["models"][entry.model], bench.summary["representative_seed"])
        return entry.model != STRUCTURED, row["nll_trimmed"]

    return sorted(bench.drawn, key=order)[:limit]


def _courses(
    records: Sequence[Records], clipped: Sequence[Records], colour: dict[str, str], prefix: str, whom: str
) -> Iterator[Plate]:
    """The three figures over time, for some models."""
    gaps, names = _gaps(records), _listed([entry.model for entry in clipped])
    coarse, fine = (timelines.make_bins(records[0].time, number).name for number in (COARSE, FINE))
    yield Plate(
        f"mean_over_time_{prefix}",
        f"Predictive mean: {whom}",
        "Top: full scale, linear near zero and logarithmic beyond; each line runs through the "
        f"{fine} lowest and highest mean, so that no spike is lost. {_farthest(records)} Below, clipped to "
        f"the range of the labels: {fine} means of {names}, and in grey the labels' {fine} range.{gaps}",
        lambda: mean_over_time(records, colour, clipped),
    )
    yield Plate(
        f"variance_over_time_{prefix}",
        f"Uncertainty and error in decibels: {whom}",
        f"{coarse.capitalize()} means; 10 dB are a factor of ten. A model whose total variance lies below "
        "its squared error is overconfident. The range is clipped to the typical; the largest single step is "
        f"written beside its place.{gaps}",
        lambda: variance_over_time(records, colour),
    )
    yield Plate(
        f"nll_over_time_{prefix}",
        f"Negative log-likelihood: {whom}",
        f"Top: {fine} maximum, logarithmic above 10. {_largest(records)} Below: {coarse} means, "
        f"clipped.{gaps}",
        lambda: nll_over_time(records, colour),
    )


def _anomaly(bench: Bench, colour: dict[str, str], rows: np.ndarray) -> Plate:
    kept = bench.summary["track"].get("sentinels") == "keep"
    told = "reach the models as they are" if kept else "are treated as missing values"
    return Plate(
        "around_anomaly",
        "Around the data anomaly",
        f"The {STEPS} steps before and after the rows with a sentinel, such as -9999 (shaded), which in this "
        f"track {told}. {_largest(bench.drawn, rows)} Full scales are linear near zero and logarithmic "
        "beyond. Look at whether aleatoric or epistemic variance answers, and how soon every line is back "
        "to normal.",
        lambda: around_anomaly(bench.drawn, colour, rows),
    )


def _ranks(bench: Bench, ranked: list[Records], colour: dict[str, str]) -> Plate:
    coarse = timelines.make_bins(ranked[0].time, COARSE).name
    entries = {entry.model: bench.summary["models"][entry.model]["ranks"] for entry in ranked}
    told = []
    for score in ("nll", "mse"):
        first = max(entries, key=lambda name: entries[name][score]["first"])
        told.append(f"{first} by {score.upper()}, at {percent(entries[first][score]['first'])}\u00a0%")
    return Plate(
        "rank_grid",
        "Who leads, over time",
        f"{coarse.capitalize()} columns; a model fills the share of a column's steps at which it was "
        "first, second or third. A model that leads all the time fills its row. Most often first are: "
        f"{'; '.join(told)} of the steps.",
        lambda: rank_grid(ranked, colour),
    )


def _seeds_and_calibration(bench: Bench, colour: dict[str, str]) -> Iterator[Plate]:
    names = [entry.model for entry in bench.drawn]
    rates = published.FAILURE_RATES if bench.published else {}
    known = {name: rate for name, rate in rates.items() if name in names}
    diamonds = " White diamonds: the paper's rates, where it prints them." if known else ""
    yield Plate(
        "failures",
        "Catastrophic failures over seeds",
        "Left: for every NLL, the share of seeds whose largest NLL lies above it; a line further to the left "
        f"is a safer model. Right: that share at 1e6, the threshold of a catastrophic failure.{diamonds}",
        lambda: failures(bench.summary, names, colour, known),
    )
    yield Plate(
        "error_by_variance",
        "Squared error against claimed variance",
        "Steps are sorted by the total variance that the model claims (its central 1 to 99 %) and put into "
        "20 equally filled bins: on the dashed line the squared errors are as large as claimed, above it the "
        "model is overconfident, below it too cautious. A flat line means that the variance says nothing "
        "about the error.",
        lambda: error_by_variance(bench.drawn, colour),
    )
    yield Plate(
        "pit_histograms",
        "PIT histograms",
        "How often the label fell into each twentieth of the forecast: flat is calibrated, a bowl "
        "overconfident, a hump too cautious, a slope biased. The grey band holds 95 % of the bars of a "
        "perfect forecast.",
        lambda: pit_histograms(bench.drawn),
    )


def _largest(records: Sequence[Records], rows: np.ndarray | None = None) -> str:
    """Say whose NLL is the largest, and when; among some rows [M] if given."""
    name, row, value = _extreme(records, "nll", rows)
    place = "The largest" if rows is None else "The largest NLL there"
    return f"{place} is {number(value)} ({name}, {moment(records[0].time[row])})."


def _farthest(records: Sequence[Records]) -> str:
    """Say which mean lies farthest from zero, and when."""
    name, row, value = _extreme(records, "mean")
    unit = split_unit(records[0].target)[1]
    told = f"{number(value)} {unit}".strip()
    return f"The farthest is {told} ({name}, {moment(records[0].time[row])})."


def _extreme(
    records: Sequence[Records], field: str, rows: np.ndarray | None = None
) -> tuple[str, int, float]:
    """Model, row and value of the finite value of a field that lies farthest from zero."""
    rows = np.arange(len(records[0].y)) if rows is None else rows
    best = (records[0].model, int(rows[0]), 0.0)
    for entry in records:
        values = entry.steps[field][0, rows]
        sizes = np.where(np.isfinite(values), np.abs(values), -1.0)
        if sizes.max() > abs(best[2]):
            place = int(sizes.argmax())
            best = (entry.model, int(rows[place]), float(values[place]))
    return best


def _gaps(records: Sequence[Records]) -> str:
    """Say what cannot be drawn."""
    counts = {entry.model: timelines.not_finite(entry) for entry in records}
    told = [f"{name} at {count} steps" for name, count in counts.items() if count]
    return f" Not drawn, because not finite: {', '.join(told)}." if told else ""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
