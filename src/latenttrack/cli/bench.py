"""`latenttrack bench`: a whole experiment in one command."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from latenttrack.cli.runtime import cache_compiled_programs
from latenttrack.cli.telling import tell_file
from latenttrack.data.describing import Selection, understand
from latenttrack.data.suspects import parse_sentinel
from latenttrack.errors import LatentTrackError
from latenttrack.report.numbers import measure

if TYPE_CHECKING:
    from latenttrack.evaluation.tracks import Track
    from latenttrack.training.fit import Progress as EpochDone

# Filtering and scoring count as so many epochs in the bar.
_FILTERING = 3


@click.command()
@click.argument("track", required=False)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=None,
    help="Seeds of each network; by default 25 of the paper's models and 3 of the others.",
)
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
@click.option("--target", default=None, help="For a FILE: the column to predict.")
@click.option("--time", default=None, help="For a FILE: the column of times; by default the only one.")
@click.option(
    "--horizon", type=click.IntRange(0), default=1, show_default=True, help="For a FILE: steps ahead."
)
@click.option(
    "--delay",
    type=click.IntRange(1),
    default=None,
    help="For a FILE: steps until a label is known; by default it is known when it is measured.",
)
@click.option(
    "--sentinel",
    multiple=True,
    metavar="NUMBER",
    help="For a FILE: a number that means missing; COLUMN=NUMBER in one column alone. May be repeated.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), default=None, help="By default runs/TRACK.")
@click.option("--list", "listed", is_flag=True, help="List the tracks.")
def bench(
    track: str | None,
    seeds: int | None,
    models: str | None,
    epochs: int | None,
    rows: int | None,
    data_dir: Path | None,
    target: str | None,
    time: str | None,
    horizon: int,
    delay: int | None,
    sentinel: tuple[str, ...],
    out: Path | None,
    listed: bool,
) -> None:
    """Train and compare models on a track or a file; resumable.

    TRACK is one of those that --list shows, or a FILE of your own (CSV, Parquet, JSON lines) with --target:
    the newest 30 % of it are predicted. The output folder gets the trained models, a Parquet file of each
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
    found = _own_file(track, target, time, horizon, delay, sentinel) or find_track(track)
    cache_compiled_programs()
    # jax is imported only now, so that a wrong option is answered at once.
    from latenttrack.evaluation.bench import Bench

    names = None if models is None else tuple(dict.fromkeys(n.strip() for n in models.split(",")))
    chosen = Bench(found, out or Path("runs") / found.name, names, seeds, epochs, rows, data_dir)
    console = Console(highlight=False)
    if found.file is None:
        console.print(f"[bold]{found.name}[/]: {found.summary}.")
    else:
        tell_file(console, understand(found.file).description)
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
    console.print(_means(summary) if "latent-track" in summary["models"] else _table(summary))
    console.print(
        f"wrote {chosen.folder}/summary.json; `latenttrack report {chosen.folder}` makes a page of it"
    )


def _own_file(
    path: str,
    target: str | None,
    time: str | None,
    horizon: int,
    delay: int | None,
    sentinel: Sequence[str],
) -> "Track | None":
    """A track on the user's file; None if `path` is none."""
    from latenttrack.evaluation.tracks import file_track

    if target is None and not Path(path).is_file():
        return None
    if not Path(path).is_file():
        raise LatentTrackError(f"there is no file {path}: --target goes with a file of your own.")
    if target is None:
        raise LatentTrackError(f"bench {path} needs --target: the column to predict.")
    missing = tuple(map(parse_sentinel, sentinel))
    return file_track(Selection(Path(path), target, time, horizon=horizon, delay=delay, sentinels=missing))


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

    def epoch(self, progress: "EpochDone") -> None:
        done, total = progress.epoch, progress.epochs
        what = f"epoch {done} of {total}" if done < total else "trained"
        if progress.stage != "training":
            what = f"{progress.stage}, {done} of {total}"
        # A model that chooses its epochs by itself moves the words, not the bar.
        seen = self._done + min(done, self._epochs[self._model])
        self._progress.update(self._task, completed=seen, description=f"{self._model}, {what}")

    def filtering(self) -> None:
        done = self._done + self._epochs[self._model]
        self._progress.update(self._task, completed=done, description=f"{self._model}, filtering")

    def end(self, model: str, seconds: float | None) -> None:
        self._done += self._epochs[model] + _FILTERING
        self._progress.update(self._task, completed=self._done)
        what = "was done before" if seconds is None else f"{seconds:.0f} s"
        self._progress.console.print(f"[dim]{model:<16} {what}[/]", highlight=False)


def _table(summary: dict[str, Any]) -> Table:
    """The paper's tracks: medians over seeds, for seeds fail there; the page has the rest."""
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
            values.append(_shown_as(key)(median(known)) if known else "inf")
        shown.add_row(name, *values, f"{100 * entry['failure_rate']:.0f} %")
    return shown


def _means(summary: dict[str, Any]) -> Table:
    """Every other track: means over seeds, and the difference to LatentTrack, week by week."""
    entries = summary["models"]
    paired = any("paired" in entry for entry in entries.values())
    caption = "means over seeds" + "; NLL minus latent-track's ± standard error by week" * paired
    shown = Table(box=None, header_style="bold", pad_edge=False, caption=caption)
    shown.add_column("model", no_wrap=True)
    columns = {"NLL": "nll_mean", "CRPS": "crps_mean", "MSE": "mse_mean"}
    columns |= {"90% cov": "coverage_90", "PIT-KS": "pit_ks"}
    for title in (*columns, *["vs latent-track"] * paired):
        shown.add_column(title, justify="right", no_wrap=True)
    for name, entry in entries.items():
        values = [_mean([row[key] for row in entry["seeds"]], _shown_as(key)) for key in columns.values()]
        shown.add_row(name, *values, *[_difference(entry.get("paired"))] * paired)
    return shown


def _shown_as(score: str) -> Callable[[float], str]:
    """How a score is written: CRPS and MSE are in the units of the target, which may be tiny or huge."""
    return measure if score.startswith(("crps", "mse")) else "{:.3f}".format


def _mean(values: list[float | None], shown_as: Callable[[float], str]) -> str:
    """The mean over seeds; without a finite score in one of them there is none."""
    known = [value for value in values if value is not None]
    return shown_as(sum(known) / len(known)) if len(known) == len(values) else "inf"


def _difference(paired: dict[str, Any] | None) -> str:
    """Such as "+.035 ±.004"."""
    if paired is None:
        return ""
    one = paired["nll"]
    if one["difference"] is None:
        return "inf"
    error = "" if one["standard_error"] is None else f" ±{one['standard_error']:.3f}"
    return re.sub(r"(?<!\d)0\.", ".", f"{one['difference']:+.3f}{error}")
