"""What the benchmarks share: alternating repetitions, medians, rows of results, the PyTorch process."""

import argparse
import json
import os
import queue
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from stream import FEATURES, random_walk

from latenttrack.data.series import Series
from latenttrack.models.registry import build
from latenttrack.models.stack import Stack, build_stack
from latenttrack.models.task import Task
from latenttrack.training.fit import Progress, train
from latenttrack.training.settings import Training

HERE = Path(__file__).resolve().parent
MODEL = "lt-structured"
NAMES = tuple(f"x{i}" for i in range(FEATURES))
Repetition = Callable[[], float]  # does the work once and says how many seconds one unit of it took


class Row(NamedTuple):
    """One line of the table; `required` is empty where nothing is demanded."""

    what: str
    ours: str
    peer: str
    ratio: float
    required: str = ""
    reached: bool | None = None


def faster(what: str, ours: float, peer: float, unit: str, least: float | None = None) -> Row:
    """A row that compares seconds: ratio = peer / ours, to be at least `least`."""
    ratio = peer / ours
    shown = (f"{show_seconds(ours)} {unit}", f"{show_seconds(peer)} {unit}")
    if least is None:
        return Row(what, *shown, ratio)
    return Row(what, *shown, ratio, f">= {least:g}", ratio >= least)


def show_seconds(seconds: float) -> str:
    """Three digits in the unit that suits them."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def alternate(sides: Mapping[str, Repetition], rounds: int) -> dict[str, float]:
    """The median of each side over `rounds` rounds in which every side has its turn, to and fro."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(rounds):
        for name in order:
            seconds[name].append(sides[name]())
        order.reverse()
    return {name: statistics.median(values) for name, values in seconds.items()}


def timed(work: Callable[[], Any], units: int) -> Repetition:
    """A repetition of `work`, whose result is waited for; compiled and run once beforehand."""
    jax.block_until_ready(work())

    def repetition() -> float:
        start = time.perf_counter()
        jax.block_until_ready(work())
        return (time.perf_counter() - start) / units

    return repetition


def series(steps: int) -> Series:
    """The random walk as a series."""
    x, y = random_walk(steps)
    return Series(x=x, y=y, time=np.arange(steps, dtype=float), names=NAMES)


def untrained(draws: str = "independent", K: int = 100) -> Stack:
    """One seed with freshly drawn weights: speed does not depend on their values."""
    keys = jax.random.split(jax.random.key(0), 1)
    return build_stack(lambda key: build(MODEL, Task(NAMES), key, draws=draws, K=K), keys)


class Epochs:
    """A call of `train` that runs one epoch each time it is asked to, so that several can take turns.

    `train` compiles its program in the first epoch, which is run here and not counted.
    """

    def __init__(self, data: Series, training: Training, *, seeds: int, together: bool):
        self._seeds = seeds
        self._turn: queue.Queue[None] = queue.Queue()
        self._done: queue.Queue[float] = queue.Queue()
        self._start = 0.0

        def run() -> None:
            self._wait()
            train(
                lambda key: build(MODEL, Task(NAMES), key),
                data,
                training,
                jax.random.key(0),
                seeds=seeds,
                together=together,
                progress=self._finish,
            )

        threading.Thread(target=run, daemon=True).start()
        self()

    def __call__(self) -> float:
        """Seconds of one epoch for each seed."""
        self._turn.put(None)
        return self._done.get() / self._seeds

    def _wait(self) -> None:
        self._turn.get()
        self._start = time.perf_counter()

    def _finish(self, progress: Progress) -> None:
        self._done.put(time.perf_counter() - self._start)
        if progress.epoch < progress.epochs:
            self._wait()


class TorchPeer:
    """torch_peer.py in a process of its own, with another interpreter."""

    def __init__(self, python: Path):
        if not python.exists():
            raise SystemExit(
                f"no PyTorch interpreter at {python}: create one as benchmarks/README.md says, "
                "or name yours with --torch-python"
            )
        self._process = subprocess.Popen(
            [python, HERE / "torch_peer.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.most_threads: int = self._answer()["threads"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request, one answer."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def task(self, name: str, repeats: int) -> Repetition:
        """Seconds per step of a task, with PyTorch's own number of threads or one, whichever is faster."""

        def run(threads: int, times: int) -> float:
            return self.ask(task=name, threads=threads, repeats=times)["seconds"]

        few = max(repeats // 4, 1)
        choices = {str(n): lambda n=n: run(n, few) for n in {1, self.most_threads}}
        alternate(choices, 1)  # the first run of anything is slower
        medians = alternate(choices, 3)
        threads = int(min(medians, key=medians.__getitem__))
        return lambda: run(threads, repeats)

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("torch_peer.py ended early; its error stands above")
        return json.loads(line)


def parse(description: str) -> argparse.Namespace:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="shorter runs: rougher numbers")
    parser.add_argument("--markdown", action="store_true", help="print the table for the docs")
    parser.add_argument(
        "--torch-python",
        type=Path,
        default=Path(os.environ.get("LATENTTRACK_TORCH_PYTHON", HERE.parents[1] / "torchenv/bin/python")),
        help="interpreter of an environment with PyTorch (LATENTTRACK_TORCH_PYTHON)",
    )
    return parser.parse_args()


def show(rows: Sequence[Row], *, markdown: bool = False) -> None:
    """Print the table."""
    names = {None: "", True: "yes", False: "NO"}
    head = ("what", "ours", "peer", "ratio", "required", "reached")
    cells = [head] + [(*r[:3], f"{r.ratio:.3g}", r.required, names[r.reached]) for r in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    if markdown:
        cells.insert(1, tuple("-" * width for width in widths))
    for row in cells:
        line = " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(f"| {line} |" if markdown else line.rstrip())
