"""`latenttrack forecast MODEL`: the target at each of the steps to come, as a table or a figure."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from latenttrack.cli.runtime import cache_compiled_programs
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.answers import rounded
from latenttrack.report import canvas
from latenttrack.report.fan import fan_figure
from latenttrack.store.atomic import require_writable, write_bytes

if TYPE_CHECKING:
    from latenttrack.filtering.forecasting import Forecast

_FIGURES = {".png": canvas.png, ".svg": canvas.svg, ".pdf": canvas.pdf}


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--in",
    "recent",
    type=click.Path(path_type=Path),
    default=None,
    help="Rows since the model's own data end; by default there are none.",
)
@click.option("--steps", type=click.IntRange(1), required=True, help="How many steps to forecast.")
@click.option(
    "--samples", type=click.IntRange(1), default=200, show_default=True, help="Paths that are sampled."
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="A .csv, or a figure: .png, .svg or .pdf; by default CSV on standard output.",
)
@click.option(
    "--paths", type=click.Path(path_type=Path), default=None, help="Write the sampled paths to this .csv."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the samples.")
def forecast(
    model: Path,
    recent: Path | None,
    steps: int,
    samples: int,
    out: Path | None,
    paths: Path | None,
    seed: int,
) -> None:
    """Forecast several steps ahead, as a table or a figure.

    The model first takes in the recent rows that are newer than its own data, without being fitted again.
    Where the last of them have no target yet, their other columns are what is known of the future. Then many
    possible futures are sampled, each going on as a live stream would.
    """
    _check_output(out, (".csv", *_FIGURES))
    _check_output(paths, (".csv",))
    if out is not None and out.suffix.lower() in _FIGURES:
        canvas.new_figure(1.0)  # refuses now if figures cannot be drawn
    cache_compiled_programs()
    # jax is imported only now, so that a wrong option is answered at once.
    from latenttrack.fitted.model import load

    found = load(model).forecast(steps, recent, samples=samples, seed=seed)
    for note in found.notes:
        click.echo(f"latenttrack: {note}", err=True)
    if found.unknown:
        columns = ", ".join(found.unknown)
        click.echo(
            f"latenttrack: the future of {columns} is not known: earlier rows of the stream stand in",
            err=True,
        )
    if paths is not None:
        write_bytes(paths, _paths(found).encode())
    if out is None:
        click.echo(_table(found), nl=False)
    elif out.suffix.lower() == ".csv":
        write_bytes(out, _table(found).encode())
    else:
        figure = fan_figure(found.time, found.quantiles, *found.past, found.target)
        write_bytes(out, _FIGURES[out.suffix.lower()](figure))


def _check_output(path: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse now what could not be written after the work."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        *others, last = endings
        choice = f"{', '.join(others)} or {last}" if others else last
        raise LatentTrackError(f"{path} has an ending that is not known: give a name that ends in {choice}.")
    require_writable(path)


def _table(found: "Forecast") -> str:
    """The fan as CSV, one line for each step."""
    columns = {"mean": found.mean, "std": found.std} | {f"q{p:g}": q for p, q in found.quantiles.items()}
    lines = [["time", "step", *columns]]
    for k, time in enumerate(found.time):
        told = (_told(column[k], found.std[k]) for column in columns.values())
        lines.append([_moment(time), str(k + 1), *told])
    return _csv(lines)


def _paths(found: "Forecast") -> str:
    """The sampled paths as CSV, one column for each."""
    lines = [["time", "step", *(f"path{s + 1}" for s in range(len(found.paths)))]]
    for k, time in enumerate(found.time):
        lines.append([_moment(time), str(k + 1), *(_told(y, found.std[k]) for y in found.paths[:, k])])
    return _csv(lines)


def _told(value: float, std: float) -> str:
    return repr(rounded(float(value), float(std)))


def _csv(lines: list[list[str]]) -> str:
    return "".join(",".join(line) + "\n" for line in lines)


def _moment(time: np.generic) -> str:
    """To the second, or finer if that tells more; the number of a step as it is."""
    if not isinstance(time, np.datetime64):
        return f"{time:g}"
    whole = time == time.astype("datetime64[s]")
    return str(time.astype("datetime64[s]" if whole else "datetime64[us]")).replace("T", " ")
