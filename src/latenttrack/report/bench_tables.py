"""The tables of the page as data: the paper's layout, its numbers beside ours, one seed beside all.

A model has up to three lines: the representative seed, mean ± standard deviation over seeds, the paper. The
best number of a column is marked among the models, for each of the three by itself, on the numbers as shown.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from latenttrack.evaluation import published
from latenttrack.report.curves import split_unit
from latenttrack.report.loading import Bench
from latenttrack.report.numbers import ABSENT, clock, duration, integer, measure, number, percent

Show = Callable[[float], str]


@dataclass
class Cell:
    """A number as shown; `value` is None where there is nothing to compare."""

    text: str = ""
    value: float | None = None
    best: bool = False


@dataclass
class Line:
    """One line of a model's row: what it is of, and a cell for each column."""

    kind: str  # "seed", "seeds" or "paper"
    label: str
    cells: list[Cell]


@dataclass
class Row:
    """A model."""

    model: str
    lines: list[Line]


@dataclass
class Table:
    """Columns, models, and references apart from them."""

    title: str
    columns: list[str]
    models: list[Row] = field(default_factory=list)
    references: list[Row] = field(default_factory=list)


def score_tables(bench: Bench) -> list[Table]:
    """The paper's table: one for NLL, one for MSE."""
    tables = []
    for score, title in (("nll", "Negative log-likelihood (nats)"), ("mse", f"Squared error{_unit(bench)}")):
        table = Table(
            title, ["mean", "trimmed mean", "median", "trimmed median", "first, %", "first or second, %"]
        )
        _fill(table, bench, partial(_score_lines, bench, score))
        _mark(table, [min, min, min, min, max, max])
        tables.append(table)
    return tables


def _score_lines(bench: Bench, score: str, name: str, entry: Mapping[str, Any]) -> list[Line]:
    scores = [f"{score}_{statistic}" for statistic in ("mean", "trimmed", "median", "trimmed_median")]
    lines = []
    for kind, label, ranks in _kinds(bench, entry):
        cells = [_score_cell(entry, name, bench, kind) for name in scores]
        shares = (entry.get(ranks) or {}).get(score, {})
        cells += [_cell(shares.get(share), percent) for share in ("first", "first_or_second")]
        lines.append(Line(kind, label, cells))
    if bench.published and name in published.TABLE:
        row = published.TABLE[name]
        cells = [_cell(row[name], number) for name in scores]
        cells += [_cell(row[f"{score}_{share}"], percent) for share in ("first", "first_or_second")]
        lines.append(Line("paper", "paper", cells))
    return lines


def measure_table(bench: Bench) -> Table:
    """What the paper's table leaves out: CRPS, calibration, failures, size and time."""
    columns = [
        "CRPS", "90 % coverage, %", "PIT-KS", "epistemic share, %", "failing seeds, %",
        "parameters, total", "parameters, inference", "training", "evaluation",
    ]  # fmt: skip
    table = Table("Calibration, robustness, size and time", columns)
    _fill(table, bench, partial(_measure_lines, bench))
    _mark(table, [min, _closest_to_90, min, None, min, None, None, None, None])
    return table


def _measure_lines(bench: Bench, name: str, entry: Mapping[str, Any]) -> list[Line]:
    lines = []
    kinds = _kinds(bench, entry)
    for i, (kind, label, _) in enumerate(kinds):
        cells = [
            _score_cell(entry, "crps_mean", bench, kind, measure),
            _score_cell(entry, "coverage_90", bench, kind, percent),
            _score_cell(entry, "pit_ks", bench, kind, lambda value: number(value, 3)),
            _score_cell(entry, "epistemic_share", bench, kind, percent),
            # A rate is of all seeds: it stands in the last of our lines.
            _cell(entry["failure_rate"], lambda v: percent(v, 0)) if i == len(kinds) - 1 else Cell(),
        ]
        if i == 0:
            parameters, seconds = entry.get("parameters") or {}, entry.get("seconds") or {}
            cells += [Cell(integer(parameters.get(part))) for part in ("total", "inference")]
            cells += [Cell(_seconds(seconds.get(part))) for part in ("train", "evaluate")]
        lines.append(Line(kind, label, cells + [Cell() for _ in range(9 - len(cells))]))
    if bench.published and name in published.PARAMETERS:
        failing = published.FAILURE_RATES.get(name)
        cells = [Cell() for _ in range(4)]
        cells += [Cell() if failing is None else _cell(failing, lambda v: percent(v, 0))]
        cells += [Cell(integer(count)) for count in published.PARAMETERS[name]]
        lines.append(Line("paper", "paper", [*cells, Cell(), Cell()]))
    return lines


def peak_table(bench: Bench) -> Table:
    """Where each model's largest NLL sits, and in how many seeds that is a sentinel row."""
    sentinels = bool(bench.summary.get("anomalies"))
    columns = ["largest NLL", "at", *(["seeds with it at a sentinel row"] if sentinels else [])]
    table = Table("Where the largest NLL sits", columns)

    def lines(name: str, entry: Mapping[str, Any]) -> list[Line]:
        kind, label, _ = _kinds(bench, entry)[0]
        peak = entry.get("largest_nll") or {}
        when = clock(str(peak.get("time", ABSENT)))
        cells = [_score_cell(entry, "nll_max", bench, kind), Cell(when)]
        if sentinels:
            cells.append(Cell(f"{peak.get('seeds_at_sentinels', ABSENT)} of {len(entry['seeds'])}"))
        return [Line(kind, label, cells)]

    _fill(table, bench, lines)
    return table


def _fill(table: Table, bench: Bench, lines: Callable[[str, Mapping[str, Any]], list[Line]]) -> None:
    for rows, records in ((table.models, bench.models), (table.references, bench.references)):
        rows += [Row(r.model, lines(r.model, bench.summary["models"][r.model])) for r in records]


def _kinds(bench: Bench, entry: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Our lines of a model: kind, label, and where its ranks stand."""
    seeds = len(entry["seeds"])
    if seeds == 1:
        return [("seed", "one run", "ranks")]
    seed = bench.summary["representative_seed"] % seeds
    return [("seed", f"seed {seed}", "ranks"), ("seeds", f"{seeds} seeds", "ranks_over_seeds")]


def _score_cell(entry: Mapping[str, Any], score: str, bench: Bench, kind: str, show: Show = number) -> Cell:
    """A score at the representative seed, or its mean and spread over seeds."""
    # A likelihood or an error that is not finite is infinitely bad; other measures then do not exist.
    missing = math.inf if score.startswith(("nll", "mse", "crps")) else math.nan
    values = np.array([missing if row[score] is None else row[score] for row in entry["seeds"]], float)
    if kind == "seed":
        return _cell(values[bench.summary["representative_seed"] % len(values)], show)
    if not np.isfinite(values).all():
        return Cell(show(float(values.mean())))
    return Cell(f"{show(float(values.mean()))} ± {show(float(values.std(ddof=1)))}", float(values.mean()))


def _cell(value: Any, show: Show) -> Cell:
    if value is None:
        return Cell(ABSENT)
    return Cell(show(float(value)), float(value) if math.isfinite(value) else None)


def _mark(table: Table, better: Sequence[Callable[..., float] | None]) -> None:
    """Mark the best of each column among the models, for each kind of line."""
    for kind in ("seed", "seeds", "paper"):
        lines = [line for row in table.models for line in row.lines if line.kind == kind]
        for column, choose in enumerate(better):
            cells = [line.cells[column] for line in lines if line.cells[column].value is not None]
            if choose is None or len({_leading(cell.text) for cell in cells}) < 2:
                continue  # nothing to compare, or all the same
            best = choose(cell.value for cell in cells)
            winner = next(cell.text for cell in cells if cell.value == best)
            for cell in cells:
                cell.best = _leading(cell.text) == _leading(winner)


def _leading(text: str) -> str:
    """The number before a spread."""
    return text.split(" ±")[0]


def _closest_to_90(values: Any) -> float:
    return min(values, key=lambda value: abs(value - 0.9))


def _seconds(value: Any) -> str:
    return duration(float(value)) if isinstance(value, int | float) and value > 0 else ABSENT


def _unit(bench: Bench) -> str:
    unit = split_unit(bench.drawn[0].target)[1]
    return f" ({unit}²)" if unit else ""
