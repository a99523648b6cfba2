"""What the safety net costs where the network is best, and what it saves where it is not.

    .venv/bin/python benchmarks/safety_net.py runs/next-hour runs/etth1-six-hours

For finished benches: the NLL of the average on the test part beside that of each of its members alone, both
before recalibration. The average must not end more than .01 nats behind the best of them. Nothing is chosen
by it. What is found is kept in docs/results/safety_net.json, for the page that results.py makes.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

from latenttrack.evaluation.evaluate import evaluate
from latenttrack.evaluation.records import summarise
from latenttrack.evaluation.tracks import find_track
from latenttrack.fitted.model import Model, load
from latenttrack.models.averaged import Averaged
from latenttrack.models.base import AbstractTracker, partition
from latenttrack.models.recalibrated import Recalibrated
from latenttrack.models.stack import Stack
from latenttrack.models.transformed import Transformed
from latenttrack.store.atomic import write_bytes

MOST = 0.01  # nats
KEPT = Path(__file__).resolve().parents[1] / "docs" / "results" / "safety_net.json"


def inside(tracker: AbstractTracker, member: int | None) -> AbstractTracker:
    """The tracker without recalibration, and with one member (0: the network) in place of the average."""
    if isinstance(tracker, Transformed):
        return eqx.tree_at(lambda t: t.inner, tracker, inside(tracker.inner, member))
    if isinstance(tracker, Recalibrated):
        return inside(tracker.inner, member)
    assert isinstance(tracker, Averaged)
    return tracker if member is None else (tracker.main, *tracker.references)[member]


def only(model: Model, member: int | None) -> Model:
    """The model with `inside` of each of its seeds."""
    parts = [partition(inside(model.stack[i], member)) for i in range(len(model.stack))]
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(params for params, _ in parts))
    return replace(model, stack=Stack(params, parts[0][1], len(parts)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("benches", nargs="+", type=Path)
    parser.add_argument("--data-dir", type=Path, default=None)
    chosen = parser.parse_args()
    kept = json.loads(KEPT.read_bytes()) if KEPT.exists() else {}
    for folder in chosen.benches:
        track = find_track(json.loads((folder / "summary.json").read_bytes())["track"]["name"])
        past, future = track.load(chosen.data_dir).split(track.fraction)
        model = load(folder / "latent-track.lt")
        names = ("network", *model.settings["safety_net"])
        nll = {}
        for name, member in (("average", None), *((name, i) for i, name in enumerate(names))):
            nll[name] = summarise(evaluate(only(model, member), future, past=past)).nll
        behind = nll["average"] - min(nll[name] for name in names)
        verdict = "within" if behind <= MOST else "NOT WITHIN"
        shown = ", ".join(f"{name} {value:.4f}" for name, value in nll.items())
        print(f"{track.name}: {shown}; behind the best by {behind:+.4f}, {verdict} {MOST}", flush=True)
        kept[track.name] = nll
        write_bytes(KEPT, json.dumps(kept, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
