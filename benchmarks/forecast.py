"""Do forecasts of several steps cover what they say? Fans from many origins, on data that were not fitted.

A model is fitted to the first part of a file (or loaded: `--model`). A stream then hears the rest row by row;
at evenly spaced origins it forecasts H steps, and each value that came is compared with its fan.
"""

import argparse
from pathlib import Path

import numpy as np

import latenttrack as lt
from latenttrack.data.cache import data_directories
from latenttrack.data.describing import Selection
from latenttrack.data.recent import Rows, read_rows
from latenttrack.data.tables import Table
from latenttrack.evaluation.fitting import fit_file
from latenttrack.fitted.forecast import take_in

AT = (1, 2, 6, 12, 24, 48)  # steps that are shown
LEVELS = ((0.05, 0.95), (0.25, 0.75))


def main() -> None:
    options = parse()
    table = lt.read_table(options.file)
    cut = int(options.share * len(table))
    model = lt.load(options.model) if options.model else fitted(options, select(table, slice(None, cut)))
    fans, truth, before = roll_origins(model, select(table, slice(cut, None)), options)
    show(fans, truth, before)


def fitted(options: argparse.Namespace, old: Table) -> lt.Model:
    features = None if options.features is None else tuple(options.features.split(","))
    selection = Selection(old, options.target, features=features, horizon=options.horizon)
    return fit_file(selection, budget=options.budget, seeds=options.seeds).advanced()


def roll_origins(
    model: lt.Model, new: Table, options: argparse.Namespace
) -> tuple[list[lt.Forecast], np.ndarray, np.ndarray]:
    """The fans, what came [origins, H], and the last value before each [origins]."""
    stream = model.stream()
    clock = model.record.get("file", {}).get("time", ())
    rows = read_rows(new, stream.feed, clock=clock)
    origins = np.linspace(0, len(rows) - options.steps - 1, options.origins).astype(int)
    fans, heard = [], 0
    for origin in origins.tolist():
        take_in(stream, part(rows, heard, origin + 1))
        heard = origin + 1
        known = covariates(new, heard, options) if options.covariates else None
        fans.append(stream.forecast(options.steps, covariates=known, samples=options.samples))
        print(f"{len(fans)} of {len(origins)} origins", end="\r", flush=True)
    truth = np.array([rows.y[origin + 1 : origin + 1 + options.steps] for origin in origins])
    return fans, truth, rows.y[origins]


def part(rows: Rows, begin: int, end: int) -> Rows:
    numbers = np.arange(len(rows))
    return rows.select((numbers >= begin) & (numbers < end))


def select(table: Table, rows: slice) -> Table:
    return Table({name: column[rows] for name, column in table.columns.items()}, table.source)


def covariates(new: Table, begin: int, options: argparse.Namespace) -> Table:
    """All columns but the target, as they turned out: a perfect forecast of the covariates."""
    future = select(new, slice(begin, begin + options.steps))
    return Table({n: c for n, c in future.columns.items() if n != options.target}, new.source)


def show(fans: list[lt.Forecast], truth: np.ndarray, before: np.ndarray) -> None:
    steps = truth.shape[1]
    print(
        f"{len(fans)} origins; a share of 90 % has a standard error of {90 / len(fans) ** 0.5 / 3:.1f} points"
    )
    print(f"{'step':>4}  {'in 90 %':>8}  {'in 50 %':>8}  {'width 90 %':>10}  {'MAE':>6}  {'MAE of last':>11}")
    for k in [k for k in AT if k <= steps]:
        came = truth[:, k - 1]
        ends = [np.array([[fan.quantiles[p][k - 1] for p in pair] for fan in fans]).T for pair in LEVELS]
        inside = [np.mean((low <= came) & (came <= high)) for low, high in ends]
        width = np.mean(ends[0][1] - ends[0][0])
        error = np.mean([abs(fan.quantiles[0.5][k - 1] - y) for fan, y in zip(fans, came, strict=True)])
        naive = np.mean(np.abs(before - came))
        print(f"{k:>4}  {inside[0]:>8.1%}  {inside[1]:>8.1%}  {width:>10.3g}  {error:>6.3g}  {naive:>11.3g}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=data_directories()[0] / "etth1.csv.gz")
    parser.add_argument("--target", default="OT")
    parser.add_argument("--features", default=None, help="comma-separated; by default all")
    parser.add_argument("--horizon", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.8, help="of the rows that are fitted on")
    parser.add_argument("--budget", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--model", type=Path, default=None, help="fitted to that part already")
    parser.add_argument("--origins", type=int, default=100)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--covariates", action="store_true", help="the other columns are known ahead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
