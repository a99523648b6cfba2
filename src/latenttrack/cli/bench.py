"""`latenttrack bench`: a whole experiment in one command."""

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from latenttrack.cli.runtime import cache_compiled_programs
from latenttrack.errors import LatentTrackError

# Filtering and scoring count as so many epochs in the bar.
_FILTERING = 3


@click.command()
@click.argument("track", required=False)
@click.option("--seeds", type=click.IntRange(1), default=25, show_default=True, help="Seeds of each network.")
@click.option("--models", default=None, help="Comma-separated names; by default the track's.")
@click.option(
    "--epochs", type=click.IntRange(1), default=None, help="Instead of the presets'; for a quick look."
)
@click.option(
    "--rows",
    type=click.IntRange(50),
    default=None,
    help="For a quick look: only the newest of each stream.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder of the datasets; by default $LATENTTRACK_DATA, or a folder in the user's cache.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), default=None, help="By default runs/TRACK.")
@click.option("--list", "listed", is_flag=True, help="List the tracks.")
def bench(
    track: str | None,
    seeds: int,
    models: str | None,
    epochs: int | None,
    rows: int | None,
    data_dir: Path | None,
    out: Path | None,
    listed: bool,
) -> None:
    """Train and evaluate models on a track, many seeds; resumable.

    TRACK is one of those that --list shows. The output folder gets the trained models, a Parquet file of each
    model's forecasts and scores, and summary.json. Interrupted at any moment and started again with the same
    options, it goes on where it was, with the same result. `latenttrack report` makes a page of it.
    """
    from latenttrack.evaluation.tracks import TRACKS, find_track

    if listed:
        for each in TRACKS.values():
            click.echo(f"{each.name:<22} {each.summary}")
        return
    if track is None:
        raise LatentTrackError(
            f"bench needs a track: {', '.join(TRACKS)}; for example `latenttrack bench paper`"
        )
    found = find_track(track)
    cache_compiled_programs()
    # jax is imported only now, so that a wrong option is answered at once.
    from latenttrack.evaluation.bench import Bench

    names = None if models is None else tuple(dict.fromkeys(n.strip() for n in models.split(",")))
    chosen = Bench(found, out or Path("runs") / track, names, seeds, epochs, rows, data_dir)
    console = Console(highlight=False)
    console.print(f"[bold]{track}[/]: {found.summary}.")
    with Progress(
        TextColumn("[bold]{task.description:<32}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        listener = _Shown(progress, {name: chosen.epochs_of(name) for name in chosen.names})
        summary = chosen.run(listener, command=" ".join(["latenttrack", *sys.argv[1:]]))
    console.print(_table(summary))
    console.print(
        f"wrote {chosen.folder}/summary.json; `latenttrack report {chosen.folder}` makes a page of it"
    )


class _Shown:
    """Progress on the terminal: which model, which epoch, how long still; one line stays for each model."""

    def __init__(self, progress: Progress, epochs: dict[str, int]):
        self._progress = progress
        self._epochs = epochs
        self._done = 0
        self._model = ""
        self._task = progress.add_task("", total=sum(epochs.values()) + _FILTERING * len(epochs))

    def begin(self, model: str, epochs: int) -> None:
        self._model = model
        what = f"epoch 1 of {epochs}" if epochs else "no epochs"
        self._progress.update(self._task, description=f"{model}, {what}")

    def epoch(self, done: int) -> None:
        total = self._epochs[self._model]
        what = f"epoch {done + 1} of {total}" if done < total else "trained"
        self._progress.update(self._task, completed=self._done + done, description=f"{self._model}, {what}")

    def filtering(self) -> None:
        done = self._done + self._epochs[self._model]
        self._progress.update(self._task, completed=done, description=f"{self._model}, filtering")

    def end(self, model: str, seconds: float | None) -> None:
        self._done += self._epochs[model] + _FILTERING
        self._progress.update(self._task, completed=self._done)
        what = "was done before" if seconds is None else f"{seconds:.0f} s"
        self._progress.console.print(f"[dim]{model:<16} {what}[/]", highlight=False)


def _table(summary: dict[str, Any]) -> Table:
    """Medians over seeds; the page has the rest."""
    from statistics import median

    shown = Table(
        box=None, header_style="bold", pad_edge=False, caption="medians over seeds; NLL and MSE trimmed"
    )
    shown.add_column("model", no_wrap=True)
    columns = {"NLL": "nll_trimmed", "MSE": "mse_trimmed", "CRPS": "crps_mean", "90% cov": "coverage_90"}
    for title in (*columns, "failed seeds"):
        shown.add_column(title, justify="right")
    for name, entry in summary["models"].items():
        values = []
        for key in columns.values():
            known = [row[key] for row in entry["seeds"] if row[key] is not None]
            values.append(f"{median(known):.3f}" if known else "inf")
        shown.add_row(name, *values, f"{100 * entry['failure_rate']:.0f} %")
    return shown
