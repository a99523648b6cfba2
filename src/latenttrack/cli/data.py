"""`latenttrack data`: public datasets, fetched and shown."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table as ShownTable

from latenttrack.data.download import ReportBytes
from latenttrack.data.jena import HOUR, MEASUREMENTS, SENTINEL, fetch_jena, load_jena
from latenttrack.data.matching import choose
from latenttrack.data.tables import Table


@dataclass(frozen=True)
class _Dataset:
    """How a dataset is fetched and loaded; the names and meanings of its columns, and its usual step."""

    fetch: Callable[[Path | None, ReportBytes], Path]
    load: Callable[[Path | None], Table]
    meanings: dict[str, str]
    step: np.timedelta64


_DATASETS = {"jena": _Dataset(fetch_jena, load_jena, MEASUREMENTS, HOUR)}

_name = click.argument("name")
_data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder of the datasets; by default $LATENTTRACK_DATA, or a folder in the user's cache.",
)


@click.group()
def data() -> None:
    """Fetch a public dataset, or show what it holds."""


@data.command()
@_name
@_data_dir
def fetch(name: str, data_dir: Path | None) -> None:
    """Download the dataset NAME (jena), check it, and say where it is.

    A dataset that is there already is only checked.
    """
    dataset = choose("dataset", name, _DATASETS)
    console = Console(stderr=True)
    with Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(name, total=None)
        path = dataset.fetch(data_dir, lambda done, total: progress.update(task, completed=done, total=total))
    click.echo(path)


@data.command()
@_name
@_data_dir
def show(name: str, data_dir: Path | None) -> None:
    """Show the rows, gaps and columns of the dataset NAME (jena)."""
    dataset = choose("dataset", name, _DATASETS)
    table = dataset.load(data_dir)
    time = table.columns["time"]
    console = Console(highlight=False, markup=False)
    console.print(f"{name}: {len(table):,} rows from {_minute(time[0])} to {_minute(time[-1])}")
    # A path is to be copied: it is never broken into lines.
    console.print(f"file: {table.source}", soft_wrap=True)
    console.print(_gaps(time, dataset.step))
    console.print(_columns(table, dataset.meanings))


def _gaps(time: np.ndarray, step: np.timedelta64) -> str:
    """One sentence on the rows that follow later than one step; time [N] is strictly increasing."""
    steps = np.diff(time)
    gaps = int(np.sum(steps > step))
    if gaps == 0:
        return "gaps: none"
    longest = int(np.argmax(steps))
    hours = steps[longest] / np.timedelta64(1, "h")
    return f"gaps: {gaps}, the longest {hours:.1f} h after {_minute(time[longest])}"


def _columns(table: Table, meanings: dict[str, str]) -> ShownTable:
    shown = ShownTable(box=None, header_style="bold", pad_edge=False)
    shown.add_column("column")
    shown.add_column("what", no_wrap=True)
    for title in ("smallest", "median", "largest", f"{SENTINEL:g}", "missing"):
        shown.add_column(title, justify="right")
    for name, meaning in meanings.items():
        values = table.columns[name]
        known = values[~np.isnan(values) & (values != SENTINEL)]
        spread = [f"{f(known):.2f}" if len(known) else "" for f in (np.min, np.median, np.max)]
        counts = [np.sum(values == SENTINEL), np.sum(np.isnan(values))]
        shown.add_row(name, meaning, *spread, *(str(count) for count in counts))
    return shown


def _minute(time: np.datetime64) -> str:
    return str(time.astype("datetime64[m]")).replace("T", " ")
