"""`latenttrack stream` as a user runs it: from start to the first prediction, and events a second.

    python benchmarks/throughput.py [--events 20000]

A model of the whole default preset at K = 100 (untrained, which costs as much as a trained one) and a file of
events, each with its label. The command runs twice: the first fills the cache of compiled programs, the
second is measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from live import PRESET, hourly, prepare
from measuring import show_seconds

from latenttrack.data.feed import Feed
from latenttrack.fitted.model import Model
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack

START, RATE = 3.0, 4_000  # seconds, events a second


def write_model(path: Path) -> None:
    data, settings = hourly(2_000, 1), {**PRESET, "K": 100}
    pipeline, task = prepare(data, wide=True)
    stack = build_stack(
        lambda key: build("latent-track", task, key, **settings), jax.random.split(jax.random.key(0), 1)
    )
    Model("latent-track", settings, task, stack, pipeline, feed=Feed.of(data)).save(path)


def write_events(path: Path, count: int) -> None:
    data = hourly(count, 1)
    times = np.datetime_as_string(data.time, unit="s").tolist()
    rows = zip(times, data.x.tolist(), data.y.tolist(), strict=True)
    lines = [json.dumps({"time": t, "x": dict(zip(data.names, x, strict=True)), "y": y}) for t, x, y in rows]
    path.write_text("\n".join(lines) + "\n")


def run(model: Path, events: Path, cache: Path) -> tuple[float, float, int]:
    """Seconds until the first prediction and until the last, and how many there were."""
    command = [sys.executable, "-m", "latenttrack", "stream", str(model), "--in", str(events)]
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "LATENTTRACK_CACHE": str(cache)}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        first = time.perf_counter() - begin
        count = 1 + sum(1 for _ in process.stdout)
        return first, time.perf_counter() - begin, count


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--events", type=int, default=20_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, events, few = (Path(folder) / name for name in ("m.lt", "events.jsonl", "few.jsonl"))
        write_model(model)
        write_events(events, chosen.events)
        write_events(few, 600)
        cache = Path(folder) / "cache"
        empty, _, _ = run(model, few, cache)
        first, last, count = run(model, events, cache)
    assert count == chosen.events, f"{count} answers to {chosen.events} events"
    rate = (count - 1) / (last - first)
    print(f"start to first prediction, empty cache   {show_seconds(empty)}")
    print(f"start to first prediction                {show_seconds(first)} (aim: {START:g} s)")
    print(f"events a second, JSON in and out         {rate:,.0f} (aim: {RATE:,})")


if __name__ == "__main__":
    main()
