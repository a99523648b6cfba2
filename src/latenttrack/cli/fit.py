"""`latenttrack fit`: a model of the user's own file, and what it is worth."""

import time as clock
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from latenttrack.cli.runtime import cache_compiled_programs
from latenttrack.cli.telling import aligned, tell_file
from latenttrack.data.describing import Description, Selection
from latenttrack.data.suspects import parse_sentinel
from latenttrack.errors import LatentTrackError
from latenttrack.report.numbers import duration, measure, moment, number
from latenttrack.store import read_any
from latenttrack.store.atomic import require_writable

if TYPE_CHECKING:
    from latenttrack.evaluation.fitting import FitReport
    from latenttrack.evaluation.judging import Judgement
    from latenttrack.training.fit import Progress as EpochDone

# Trials at most, for the bar: it jumps ahead where there are fewer.
_TRIALS = 11


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", required=True, help="The column to predict.")
@click.option("--time", default=None, help="The column of times; by default the only one.")
@click.option(
    "--key", default=None, help="The column that says which stream a row is of; by default one stream."
)
@click.option("--horizon", type=click.IntRange(0), default=1, show_default=True, help="Steps ahead.")
@click.option(
    "--delay",
    type=click.IntRange(1),
    default=None,
    help="Steps until a label is known; by default it is known when it is measured.",
)
@click.option(
    "--features", default=None, help="Comma-separated inputs; by default all that are worth having."
)
@click.option(
    "--sentinel",
    multiple=True,
    metavar="NUMBER",
    help="A number that means missing, such as -9999; COLUMN=NUMBER in one column alone. May be repeated.",
)
@click.option(
    "--model", default="latent-track", show_default=True, help="As `latenttrack models` lists them."
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Networks that are trained from different starts and mixed into one model.",
)
@click.option(
    "--holdout",
    type=click.FloatRange(0.01, 0.5),
    default=0.15,
    show_default=True,
    help="Newest share of the rows, on which the model is judged.",
)
@click.option(
    "--budget",
    type=click.IntRange(0),
    default=8000,
    show_default=True,
    help="Updates to spend on trials; 0 for none, which is quick.",
)
@click.option("--restart", is_flag=True, help="Forget an interrupted run.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="The model file; by default FILE's name with .lt.",
)
def fit(
    file: Path,
    target: str,
    time: str | None,
    key: str | None,
    horizon: int,
    delay: int | None,
    features: str | None,
    sentinel: tuple[str, ...],
    model: str,
    seeds: int,
    holdout: float,
    budget: int,
    restart: bool,
    out: Path | None,
) -> None:
    """Fit a model to your own file and say what it is worth.

    FILE is CSV, Parquet or JSON lines. First says what was understood of it. Then trains on all but the
    newest rows, predicts those one by one, each label revealed only when it is due, and compares the model
    with references that need no training. Interrupted, the same command goes on where it was.
    """
    out = Path(f"{file.name.split('.')[0]}.lt") if out is None else out
    inputs = None if features is None else tuple(dict.fromkeys(name.strip() for name in features.split(",")))
    sentinels = tuple(parse_sentinel(text) for text in sentinel)
    selection = Selection(file, target, time, key, inputs, horizon, delay, sentinels)
    _check_output(out, file)
    cache_compiled_programs()
    # jax is imported only now, so that a wrong option is answered at once.
    from latenttrack.evaluation.fitting import fit_file, forget_checkpoint

    checkpoint = Path(f"{out}.checkpoint")
    if restart:
        forget_checkpoint(checkpoint)
    console = Console(highlight=False)
    begin = clock.perf_counter()
    shown = _Shown(console, seeds)
    try:
        report = fit_file(
            selection,
            model=model,
            seeds=seeds,
            holdout=holdout,
            budget=budget,
            checkpoint=checkpoint,
            listener=shown,
        )
    except KeyboardInterrupt:
        raise click.Abort("interrupted; the same command goes on where it was") from None
    finally:
        shown.stop()
    report.advanced().save(out)
    forget_checkpoint(checkpoint)
    _tell(console, report, clock.perf_counter() - begin)
    console.print(
        f"wrote {out}: the model as it was judged. "
        "It goes on learning from new rows, and need not be fitted again.",
        markup=False,
    )


def _check_output(out: Path, file: Path) -> None:
    """Refuse now what could not be written after training, or would destroy something else."""
    require_writable(out)
    if not out.exists():
        return
    if file.exists() and out.samefile(file):
        raise LatentTrackError(f"{out} is the file to learn from: give the model another name with -o.")
    try:
        read_any(out)
    except LatentTrackError:
        raise LatentTrackError(
            f"{out} is there already and is no model file: give another name with -o, or remove it."
        ) from None


class _Shown:
    """Progress on the terminal, on standard error; a line stays for each trial."""

    def __init__(self, console: Console, seeds: int):
        self._console = console
        self._progress = Progress(
            TextColumn("[bold]{task.description:<48}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._seeds = seeds
        self._done = 0  # trials
        self._begin = clock.perf_counter()  # of a trial or of training
        self._task = self._progress.add_task("looking at the data", total=_TRIALS + seeds + 1)

    def understood(self, description: Description) -> None:
        tell_file(self._console, description)
        self._progress.start()
        self._begin = clock.perf_counter()

    def epoch(self, progress: "EpochDone") -> None:
        training = progress.stage == "training"
        share = progress.epoch / progress.epochs
        done = _TRIALS + self._seeds * share if training else min(self._done + share, _TRIALS)
        what = f"{progress.stage}, epoch {progress.epoch} of {progress.epochs}"
        self._progress.update(self._task, completed=done, description=what if training else progress.stage)
        if progress.epoch == progress.epochs:
            self._done += not training
            now = clock.perf_counter()
            self._progress.console.print(f"[dim]{progress.stage} ({duration(now - self._begin)})[/]")
            self._begin = now

    def judging(self, model: str) -> None:
        self._progress.update(
            self._task, completed=_TRIALS + self._seeds, description=f"{model} predicts what was held out"
        )

    def stop(self) -> None:
        """Nothing moves any more."""
        if self._progress.live.is_started:
            self._progress.stop()


def _tell(console: Console, report: "FitReport", seconds: float) -> None:
    """What was chosen, how it did, and what that means."""
    name, parts = report.model.name, report.parts
    pooled = report.model.settings.get("pool")
    console.print()
    console.print(f"{name}{f', {pooled} networks mixed' if pooled else ''}", style="bold")
    times = report.description.times  # of the file: rows that were put in, in gaps, do not count
    newest = times[times >= parts.future.time.min()]
    told = [("learned from", f"the first {len(times) - len(newest):,} rows, in {duration(seconds)}")]
    told += [("chosen", words) for words in report.model.record.get("choices", parts.suited.words)]
    span = f"{moment(newest.min())} to {moment(newest.max())}"
    told += [("held out", f"the newest {len(newest):,}, {span}, predicted one by one")]
    console.print(aligned(told))
    console.print()
    console.print(_scores(report.judgement))
    console.print()
    console.print(report.judgement.verdict(), style="bold", markup=False)
    leaning = report.judgement.leaning()
    if leaning is not None:
        console.print(leaning, markup=False)


def _scores(judgement: "Judgement") -> Table:
    """The model, then the references from the best to the worst."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    shown.add_column("", no_wrap=True)
    for title in ("NLL", "CRPS", "RMSE", "90% cov", "NLL behind"):
        shown.add_column(title, justify="right", no_wrap=True)
    model, *others = judgement.scores
    for name in (model, *sorted(others, key=lambda other: judgement.scores[other].nll)):
        nll, crps, mse, coverage = judgement.scores[name]
        behind = ""
        if name != model:
            difference, error, *_ = judgement.paired[name]
            behind = f"{difference:+.3f} ± {number(error, 3)}"
        cells = (number(nll, 3), measure(crps), measure(mse**0.5), f"{100 * coverage:.1f} %", behind)
        shown.add_row(name, *cells, style="bold" if name == model else None)
    return shown
