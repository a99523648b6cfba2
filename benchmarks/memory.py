"""Memory of a live stream, event after event: it must not grow.

    python benchmarks/memory.py [--events 1000000] [--every 100000] [--model rls]

Every event is predicted, and its label sent two steps late; ids, gaps, faults and snapshots are among them.
Prints resident memory and the time of an event.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from stream import random_walk

import latenttrack as lt
from latenttrack.data.feed import Feed

FEATURES = 4
ROWS = 20_000


def resident() -> float:
    """Mebibytes of this process (Linux)."""
    fields = Path("/proc/self/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) / 1024


def make_stream(name: str) -> tuple[lt.Stream, np.ndarray, np.ndarray]:
    x, y = random_walk(ROWS)
    names = tuple(f"x{i}" for i in range(FEATURES))
    series = lt.Series(
        x[:, :FEATURES].astype(float), y.astype(float), np.arange(ROWS, dtype=float), names, "y"
    )
    prepared, _, pipeline = lt.prepare(series, 0.5)
    model = lt.fit(name, prepared, pipeline=pipeline)
    return replace(model, feed=Feed.of(series)).stream(), series.x, series.y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=100_000)
    parser.add_argument("--model", default="rls")
    chosen = parser.parse_args()
    live, x, y = make_stream(chosen.model)
    when, begin = 0, time.perf_counter()
    print(f"{'events':>10}{'MiB':>10}{'us/event':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for n in range(chosen.events + 1):
            if n % chosen.every == 0:
                spent = (time.perf_counter() - begin) / chosen.every * 1e6
                print(f"{n:>10}{resident():>10.1f}{spent if n else 0.0:>10.0f}", flush=True)
                begin = time.perf_counter()
            row = x[n % ROWS]
            if n % 500 == 0:
                row = np.full(FEATURES, 1e9)
            when += 1 + 3 * (n % 1000 == 999)
            live.predict(row, time=when, id=f"event {n}")
            if n >= 2:
                live.observe(float(y[(n - 2) % ROWS]), id=f"event {n - 2}")
            if n % 10_000 == 0:
                live.snapshot(Path(folder) / "s.state")


if __name__ == "__main__":
    main()
