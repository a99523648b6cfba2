"""The live filter, one event at a time from Python: `predict` and the label, with the whole default preset.

Each side runs a block of events in turn, so that all see the same machine. The peers get features that are
there, and read no events:

    NumPy     a step of recursive least squares with as many features: forecast, five quantiles, update
    PyTorch   the same preset in eager mode (torch_preset.py): moments, five quantiles, score, update. Whether
              it is the same is seen first, by its scores of some hundred steps
    PyTorch   the network alone in eager mode (torch_peer.py): moments, score, update. Beside it our compiled
              step, called from Python as PyTorch is; the same with five quantiles; and the whole live filter
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import numpy as np
from measuring import MODEL, NAMES, Row, TorchPeer, faster, parse, show, show_seconds
from same_model import equal, preset_dict
from stream import random_walk

from latenttrack.data.features import Pipeline
from latenttrack.data.feed import Feed
from latenttrack.data.known_label import KNOWN_LABEL
from latenttrack.data.series import Series
from latenttrack.filtering.live import LiveFilter
from latenttrack.filtering.offline import filter_series
from latenttrack.filtering.program import LEVELS, Program, Units
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task

HOURS = np.timedelta64(1, "h")
MOST = 100  # draws
ALIKE = "its step alone"  # what PyTorch's step of the network does too
CHECKED = 600  # events on which PyTorch must give the same scores
WARM, BLOCK = 300, 50  # events before the clock runs; events of one side at a time
MEDIAN, TAIL = 150e-6, 500e-6  # seconds, on a quiet machine
PRESET = {
    "informant": "rls",
    "correct": True,
    "safety_net": ["rls-t", "seasonal-naive", "last-label"],
    "predictor": [16],
    "features": 8,
    "anchor": "last-label",
    "recalibrate": True,
}
Work = Callable[[int], None]  # handles the event of that number


def hourly(steps: int, delay: int) -> Series:
    """The random walk with a clock."""
    x, y = random_walk(steps)
    hours = np.datetime64("2026-01-01T00", "ns") + np.arange(steps) * HOURS
    return Series(x=x, y=y, time=hours, names=NAMES, delay=delay, period=24)


def prepare(data: Series, *, wide: bool) -> tuple[Pipeline, Task]:
    """Features as the preset has them, or few."""
    choices = {"labels": True, "differences": {KNOWN_LABEL: range(1, 25)}} if wide else {"calendar": {}}
    pipeline = Pipeline.fit(data, **choices)
    return pipeline, Task.of(pipeline.transform(data))


def compiled(
    name: str, settings: Mapping[str, object], pipeline: Pipeline, task: Task, levels: tuple[float, ...]
) -> Program:
    """The program of an untrained model, which costs as much as that of a trained one."""
    tracker = build(name, task, jax.random.key(0), **settings)
    return Program(tracker, len(pipeline.names), Units(pipeline.y_loc, pipeline.y_scale), levels)


def live(name: str, data: Series, settings: Mapping[str, object], *, wide: bool) -> tuple[Work, int]:
    """One event of a live filter and the label that is known by then; and its number of features."""
    pipeline, task = prepare(data, wide=wide)
    stream = LiveFilter(compiled(name, settings, pipeline, task, LEVELS), pipeline, Feed.of(data))

    def event(t: int) -> None:
        stream.predict(data.x[t], time=data.time[t])
        known = t - data.delay + 1  # due at the next event
        if known >= 0:
            stream.observe(float(data.y[known]), time=data.time[known])

    return event, len(pipeline.names)


def bare_step(
    name: str, data: Series, settings: Mapping[str, object], levels: tuple[float, ...] = ()
) -> Work:
    """Update with the last label, predict, score: the compiled functions, without the filter around them."""
    pipeline, task = prepare(data, wide=False)
    program = compiled(name, settings, pipeline, task, levels)
    rows, labels = pipeline.transform(data).x.astype(np.float32), data.y.tolist()
    track = program.start()

    def event(t: int) -> None:
        nonlocal track
        due = labels[t - 1] if t else float("nan")
        track = program.step(track, program.inputs(rows[t - 1], due, rows[t], t))
        program.report(track)
        program.score(track, labels[t])

    return event


def least_squares(data: Series, features: int, forgetting: float = 0.9999) -> Work:
    """One step of recursive least squares, with the normal quantiles of its running error."""
    rows = np.random.default_rng(0).normal(size=(len(data), features + 1))
    levels = np.array([-1.645, -0.674, 0.0, 0.674, 1.645])
    w, P, variance = np.zeros(features + 1), np.eye(features + 1), 1.0

    def event(t: int) -> None:
        nonlocal w, P, variance
        phi = rows[t]
        mean = w @ phi
        (mean + np.sqrt(variance) * levels).tolist()
        error = data.y[t] - mean
        variance += 0.02 * (error**2 - variance)
        gain = P @ phi
        scaled = gain / (forgetting + phi @ gain)
        w = w + scaled * error
        P = (P - np.outer(scaled, gain)) / forgetting

    return event


def measure(sides: Mapping[str, Work], events: int) -> dict[str, np.ndarray]:
    """Seconds of every event after the first `WARM`, the sides block by block in turn."""
    for work in sides.values():
        for t in range(WARM):
            work(t)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for begin in range(WARM, WARM + events, BLOCK):
        for name, work in sides.items():
            for t in range(begin, begin + BLOCK):
                start = time.perf_counter()
                work(t)
                seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def rows(*, quick: bool, torch: TorchPeer | None) -> list[Row]:
    events = 500 if quick else 3_000
    sides: dict[str, Work] = {}
    for delay in (1, 6):
        data = hourly(WARM + events, delay)
        for K in (MOST, 32):
            sides[f"delay {delay}, K = {K}"], size = live("latent-track", data, {**PRESET, "K": K}, wide=True)
    sides["least squares"] = least_squares(data, size)
    alone = hourly(WARM + events, 1)
    networks = {
        ALIKE: bare_step(MODEL, alone, {"K": MOST}),
        "its step alone, with quantiles": bare_step(MODEL, alone, {"K": MOST}, LEVELS),
    }
    networks["in the live filter"], _ = live(MODEL, alone, {"K": MOST}, wide=False)
    seconds = measure({**sides, **networks}, events)
    regression = float(np.median(seconds.pop("least squares")))
    inner = {name: float(np.median(seconds.pop(name))) for name in networks}
    table = []
    for name, values in seconds.items():
        p50, p99 = np.quantile(values, [0.5, 0.99]).tolist()
        table += [_below(f"live, {name}: median", p50, MEDIAN), _below(f"live, {name}: 99 %", p99, TAIL)]
        ratio = p50 / regression
        what = f"live, {name} / NumPy least squares, {size} features"
        shown = (show_seconds(p50), show_seconds(regression))
        table.append(Row(what, *shown, ratio, "<= 5", ratio <= 5.0))
    if torch is None:
        return table
    times = 500 if quick else 2_000
    table.append(same_preset(torch))
    name = f"delay 1, K = {MOST}"
    whole = float(np.median(seconds[name]))
    table.append(faster(f"live, {name} / eager PyTorch", whole, torch.task("preset", times)(), "an event", 5))
    peer = torch.task("filter", times)()
    for name, network in inner.items():
        # Where ours does more, nothing is required.
        least = 5 if name == ALIKE else None
        table.append(faster(f"live, network, {name} / eager PyTorch", network, peer, "an event", least))
    return table


def same_preset(torch: TorchPeer) -> Row:
    """Hand the preset over to PyTorch, and compare the scores of both."""
    data = hourly(CHECKED, 1)
    pipeline, task = prepare(data, wide=True)
    keys = jax.random.split(jax.random.key(0), 1)
    stack = build_stack(lambda key: build("latent-track", task, key, **PRESET, K=MOST), keys)
    prepared = pipeline.transform(data)
    rows, labels = np.nan_to_num(prepared.x).astype(np.float32), prepared.y.astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "preset.npz"
        np.savez(path, x=rows, y=labels, **preset_dict(stack[0]))
        theirs = torch.ask(task="check preset", path=str(path))["scores"]
        torch.ask(task="load", path=str(path))
    ours = filter_series(stack, prepared, jax.random.key(0)).log_prob[0] + np.log(prepared.y_scale)
    what = f"live, preset in eager PyTorch, log-likelihood of {CHECKED} steps"
    return equal(what, float(ours.sum()), sum(log_prob for _, log_prob in theirs))


def _below(what: str, seconds: float, limit: float) -> Row:
    ratio = seconds / limit
    return Row(what, show_seconds(seconds), show_seconds(limit), ratio, "<= 1", ratio <= 1.0)


if __name__ == "__main__":
    options = parse(__doc__)
    if options.torch_python.exists():
        with TorchPeer(options.torch_python) as peer:
            results = rows(quick=options.quick, torch=peer)
    else:
        results = rows(quick=options.quick, torch=None)
    show(results, markdown=options.markdown)
