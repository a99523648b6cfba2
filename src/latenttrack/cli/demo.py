"""`latenttrack demo`: thirteen models on an embedded stream, one table and a few figures."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console

from latenttrack.cli.runtime import Bars, ModelBar, bars, cache_compiled_programs
from latenttrack.data import Pipeline, Series, load_stream, prepare
from latenttrack.data.matching import choose
from latenttrack.data.synthetic import STREAMS
from latenttrack.evaluation.records import Records, summarise
from latenttrack.report.canvas import new_figure
from latenttrack.report.figures import save_figures
from latenttrack.report.tables import score_table
from latenttrack.store.atomic import make_folder

if TYPE_CHECKING:
    from latenttrack.fitted.model import Model
    from latenttrack.training.fit import Progress

# The weather stream is predicted as a correction to the last label; the synthetic ones have no memory in y.
_FEATURES: dict[str, dict[str, Any]] = {
    "airports": {
        "differences": {"temp": tuple(range(1, 25)), "pressure": (1, 3), "dewp": (1, 3)},
        "clip": 6.0,
    },
    "faults": {"sentinels": (-9999.0,), "clip": 6.0},
}
# One of each kind: LatentTrack, a static network, the strongest reference.
_IN_FIGURES = ("latent-track", "deep-ensemble", "rls-t")
# Updates that `latent-track` may spend on trials: none, so that the demo stays quick.
_BUDGET = 0
_AT_ONCE = 2  # models that are trained side by side
_LATENT_TRACK = {"skip": True, "summary_dropout": 0.3, "hidden_dropout": 0.1}


@click.command()
@click.option(
    "--stream", default="airports", show_default=True, help=f"airports, or synthetic: {', '.join(STREAMS)}."
)
@click.option("--models", default=None, help="Comma-separated names; by default the paper's and references.")
@click.option(
    "--epochs", type=click.IntRange(1), default=None, help="Most epochs of training; fewer is quicker."
)
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("runs/demo"), show_default=True)
def demo(stream: str, models: str | None, epochs: int | None, out: Path) -> None:
    """Train thirteen models on an embedded stream and compare them.

    The newest 30 % of the stream is predicted step by step, each label revealed only when it is due. Prints
    one table, and writes figures and the LatentTrack model files to the output folder.
    """
    # The models bring jax along: imported here, so that `latenttrack demo --help` is answered at once.
    from latenttrack.evaluation.bench import PAPER
    from latenttrack.models.registry import MODELS, REFERENCES

    begin = time.perf_counter()
    new_figure(1.0)  # refuses now, and not after minutes of training, if figures cannot be drawn
    usual = ("latent-track", *PAPER)
    names = list(dict.fromkeys(usual if models is None else map(str.strip, models.split(","))))
    for name in names:
        choose("model", name, MODELS)
    series = load_stream(stream)
    parts = _Parts.of(stream, series)
    console = Console()
    console.print(_introduction(stream, series, parts), highlight=False)

    cache_compiled_programs()
    make_folder(out)
    records = _all_models(names, parts, epochs, out)
    truth = None
    if stream in STREAMS:
        truth = float(np.mean(STREAMS[stream]().truth_nll()[len(parts.train) :]))
    console.print(score_table([summarise(r) for r in records], truth_nll=truth, references=REFERENCES))
    shown_models = [name for name in _IN_FIGURES if name in names]
    for path in save_figures(records, out, shown_models or None):
        console.print(f"wrote {path}", highlight=False)
    console.print(f"{time.perf_counter() - begin:.0f} s in all", highlight=False)


@dataclass(frozen=True)
class _Parts:
    """A stream, cut in time: as it was loaded, and prepared for models that choose no inputs of their own."""

    stream: str
    past: Series
    future: Series
    train: Series
    test: Series
    pipeline: Pipeline

    @classmethod
    def of(cls, stream: str, series: Series) -> "_Parts":
        past, future = series.split(0.7)
        train, test, pipeline = prepare(series, 0.7, **_FEATURES.get(stream, {}))
        return cls(stream, past, future, train, test, pipeline)


@dataclass(frozen=True)
class _Done:
    """A model that was trained and has predicted the test part."""

    model: "Model"
    records: Records
    prepared: Series  # the test part with its inputs

    def timed(self) -> Records:
        """The records, with how long a step takes."""
        from latenttrack.evaluation.timing import microseconds_per_step

        return replace(self.records, microseconds=microseconds_per_step(self.model.stack, self.prepared))


def _all_models(names: Sequence[str], parts: _Parts, epochs: int | None, out: Path) -> list[Records]:
    """Two models at a time: most of the work is compiling, which keeps one core busy."""
    with bars(len(names)) as shown, ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [pool.submit(_one_model, name, parts, epochs, out, shown) for name in names]
        try:
            done = [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        # Timed when nothing else runs.
        return [one.timed() for one in done]


def _one_model(name: str, parts: _Parts, epochs: int | None, out: Path, shown: Bars) -> _Done:
    """Train, and filter the test part."""
    from latenttrack.evaluation.evaluate import evaluate

    begin = time.perf_counter()
    with shown.model(name) as bar:
        model = _fit(name, parts, epochs, lambda p: _tell(bar, p))
        trained = time.perf_counter()
        if name.startswith("lt-") or name == "latent-track":
            model.save(out / f"{name}.lt")
        bar.say("filtering")
        own = name == "latent-track"
        test, past = (parts.future, parts.past) if own else (parts.test, parts.train)
        records = evaluate(model, test, past=past)
        prepared = model.pipeline.transform(parts.future, parts.past) if model.pipeline else parts.test
        done = _Done(model, records, prepared)
        done.timed()  # compiled here, beside another model
        end = time.perf_counter()
    shown.note(
        f"[dim]{name:<16} trained in {trained - begin:5.1f} s, "
        f"filtered {len(test)} steps in {end - trained:4.1f} s[/]"
    )
    if own:
        shown.note(f"[dim]{'':<16} chosen from the data: {'; '.join(model.record['choices'])}[/]")
    return done


def _tell(bar: ModelBar, progress: "Progress") -> None:
    bar.epoch(progress.epoch, progress.epochs)
    if progress.stage != "training":
        bar.say(progress.stage)


def _fit(name: str, parts: _Parts, epochs: int | None, progress: "Callable[[Progress], None]") -> "Model":
    from latenttrack.fitted.fit import fit, fit_chosen
    from latenttrack.models.registry import DETERMINISTIC, REFERENCES
    from latenttrack.training.defaults import default_training

    if name == "latent-track":
        return fit_chosen(name, parts.past, budget=_BUDGET, progress=progress)
    training = default_training(name, {} if epochs is None else {"epochs": epochs})
    settings: dict[str, Any] = {}
    if name not in REFERENCES:
        settings = {"head": "student-t", "anchor": "last-label" if parts.stream == "airports" else None}
    if name.startswith("lt-") or name in DETERMINISTIC:
        settings |= _LATENT_TRACK
        settings |= {} if name in DETERMINISTIC else {"train_K": 4}
    return fit(
        name, parts.train, training=training, settings=settings, pipeline=parts.pipeline, progress=progress
    )


def _introduction(stream: str, series: Series, parts: _Parts) -> str:
    streams = f" in {len(series.keys)} streams ({', '.join(series.keys)})" if len(series.keys) > 1 else ""
    return (
        f"[bold]{stream}[/]: {len(series)} steps{streams}; target: {series.target}.\n"
        f"Training on the first {len(parts.train)}, then predicting the newest {len(parts.test)} one by one; "
        f"a label is revealed {series.delay} step{'s' if series.delay > 1 else ''} later."
    )
