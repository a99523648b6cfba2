"""What a failed sensor does to the forecasts after it, with and without the gate.

    python benchmarks/gate.py [--rows 6000] [--epochs 5] [--data-dir DIR]

Jena, the paper's protocol: temperature six hours ahead, each label known before the next hour. In 2015 the
wind sensor gave -9999 for some hours. A briefly trained LatentTrack, and online least squares, their inputs
standardised and not clipped, filter the stretch around these hours three times: raw without the gate, raw
with the gate, and clean (sentinels are missing values). The table gives the NLL of the steps with sentinels
and of the 100 steps after the last.
"""

import argparse
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import latenttrack as lt
from latenttrack.data.features import Pipeline
from latenttrack.data.feed import Feed
from latenttrack.data.jena import SENTINEL, WIND, jena_series

MODELS = ("relu", "tanh", "silu", "rls")  # LatentTrack with an activation; online least squares
WARM_UP = 300  # steps before the first sentinel
AFTER = 100  # steps that are scored


class Stretch(NamedTuple):
    """The same hours twice, and the rows to train on, which end before them."""

    train: lt.Series
    raw: lt.Series
    clean: lt.Series


def load_stretch(rows: int, data_dir: str | None = None) -> Stretch:
    """The hours around the sentinels of 2015."""
    raw = jena_series(data_dir)
    clean = jena_series(data_dir, sentinels="missing")
    wind = raw.names.index(WIND)
    failed = np.flatnonzero((raw.x[:, wind] == SENTINEL) & (raw.time >= np.datetime64("2015-01-01")))
    begin, end = failed[0] - WARM_UP, failed[-1] + 1 + AFTER
    part = np.arange(begin, end)
    return Stretch(raw.select(np.arange(begin - rows, begin)), raw.select(part), clean.select(part))


def train(stretch: Stretch, name: str, epochs: int) -> lt.Model:
    """A model that hears whatever comes, as large as it is."""
    pipeline = Pipeline.fit(stretch.train, clip=None)
    network = name != "rls"
    model = lt.fit(
        "lt-unstructured" if network else name,
        pipeline.transform(stretch.train),
        # A few hundred updates.
        training={"epochs": epochs, "sequences": 2, "weight_ema": 0.9} if network else None,
        settings={"activation": name} if network else None,
        pipeline=pipeline,
    )
    # Labels are sent, and every row is the next step.
    feed = replace(Feed.of(stretch.train), source=None, horizon=0, interval=None, sentinels=())
    return replace(model, feed=feed)


class Score(NamedTuple):
    """NLL of the steps between the first and the last sentinel, and of those after, with standard error."""

    during: float
    after: float
    error: float


def score(model: lt.Model, series: lt.Series, gate: str) -> Score:
    """Filter a stretch, label by label."""
    stream, scores = model.stream(gate=gate), []
    for t in range(len(series)):
        stream.predict(series.x[t], time=series.time[t])
        scores.append(-stream.observe(float(series.y[t]), time=series.time[t]).log_score)
    during, after = np.array(scores[WARM_UP:-AFTER]), np.array(scores[-AFTER:])
    return Score(float(during.mean()), float(after.mean()), float(after.std() / math.sqrt(AFTER)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--data-dir", default=None)
    chosen = parser.parse_args()
    stretch = load_stretch(chosen.rows, chosen.data_dir)
    count = int((stretch.raw.x == SENTINEL).sum())
    print(f"{count} sentinels among {len(stretch.raw)} steps from {stretch.raw.time[0]}")
    print("NLL at the sentinels | of the 100 steps after, +- standard error")
    print(f"{'':<8}{'raw, no gate':>28}{'raw, gate':>28}{'clean':>28}")
    for name in MODELS:
        model = train(stretch, name, chosen.epochs)
        runs = ((stretch.raw, "off"), (stretch.raw, "hold"), (stretch.clean, "hold"))
        cells = ["{:.3g} | {:.3f} +- {:.3f}".format(*score(model, *run)) for run in runs]
        print(f"{name:<8}" + "".join(f"{cell:>28}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
