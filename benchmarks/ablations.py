"""What each part of `latent-track` is worth, one at a time, on the validation part.

    .venv/bin/python benchmarks/ablations.py next-hour six-hours --seeds 3

The test part is not touched: of its training part (the first 70 % of a stream) the older 55/70 are trained
on, choices included, and the rest is predicted. Then one thing is changed, nothing is chosen anew, and the
difference is compared by week. Results join docs/results/ablations.json one by one; what is there already is
not run again. `--new` forgets the results of a track, `--only` runs some of the changes.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beyond import Base, distilled, particles, two_protocols

from latenttrack.evaluation.paired import compare
from latenttrack.evaluation.records import Records, summarise
from latenttrack.evaluation.tracks import find_track
from latenttrack.fitted.fit import fit, fit_chosen
from latenttrack.fitted.model import Model, pool
from latenttrack.store.atomic import write_bytes
from latenttrack.training.automatic import within_bound
from latenttrack.training.defaults import default_training
from latenttrack.training.settings import Training

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "ablations.json"
UNCHANGED = "unchanged"
POOLED = "three seeds pooled into one mixture"
FEATURES = 12  # of the hypernetwork, at most
OWN = "own"  # stands for the inputs made of the label and the clock
SIGHTS = ("shown", "second_shown")
_WHOLE = {"hidden_size": 64, "encoder_size": 32, "predictor": [16], "K": 32, "pool": None}
_HALF = {"hidden_size": 40, "encoder_size": 24, "predictor": [12], "K": 16, "pool": None}


@dataclass(frozen=True)
class Change:
    """One thing that is different."""

    settings: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    model: str = "latent-track"
    longer: int = 1  # times as many epochs
    run: Callable[[Base, dict[str, Any], Training], Records] | None = None  # what settings do not say


CHANGES = {
    "no anchor": Change({"anchor": None}),
    "anchor: seasonal difference": Change({"anchor": "seasonal-difference"}),
    "anchor: least squares": Change({"anchor": "rls"}),
    "one network, that sees all inputs": Change({"shown": None, "second_shown": None, **_WHOLE}),
    "one network, that sees the label and the clock alone": Change(
        {"shown": OWN, "second_shown": None, **_WHOLE}
    ),
    "two networks, one of which sees the label and the clock alone": Change(
        {"shown": None, "second_shown": OWN, **_HALF}
    ),
    "no informant": Change({"informant": None}),
    "Gaussian head": Change({"head": "gaussian"}),
    "ELBO in place of the prior-predictive likelihood": Change({}, {"objective": "elbo"}),
    "one Student-t for each draw": Change({"head": "student-t"}),
    "two Student-t for each draw": Change({"head": "student-t-pair"}),
    "twice as many epochs": Change(longer=2),
    "two networks of half the size, mixed": Change({"shown": None, "second_shown": None, **_HALF, "pool": 2}),
    "one draw in training, not 8": Change({"train_K": 1}),
    "no linear skip": Change({"skip": False}),
    "no dropout": Change({"summary_dropout": 0.0, "hidden_dropout": 0.0}),
    "x is heard with its label, not at once": Change({"prompt": False}),
    "no average of weights": Change({}, {"weight_ema": 0.0}),
    "no random window offsets": Change({}, {"offsets": False}),
    "memory: GRU": Change({"summariser": "gru"}),
    "memory: linear recurrent unit": Change({"summariser": "lru"}),
    "memory: GRU with attention to the last 192 steps": Change({"summariser": "attention"}),
    "no correction": Change({"correct": False}),
    "no safety net": Change({"safety_net": None}),
    "no recalibration": Change({"recalibrate": False}),
    "Markov latent (structured)": Change(model="lt-structured"),
    "latent is a point (lt-deterministic)": Change(model="lt-deterministic"),
    "no hypernetwork (gru), the same head": Change(model="gru"),
    "no hypernetwork (gru), two Student-t": Change({"head": "student-t-pair"}, model="gru"),
    "Markov latent as a particle filter, reweighted": Change(model="lt-structured", run=particles),
    "half the labels drawn from the pooled seeds": Change(run=lambda base, *_: distilled(base)),
    "trained for the next hour and six hours at once": Change(run=lambda base, *_: two_protocols(base)),
}
# What goes without another.
_WITH = {
    "anchor": ("anchor_settings", "anchor_scale"),
    "informant": ("informant_settings", *SIGHTS),
    "safety_net": ("safety_net_settings", "safety_net_start"),
    "pool": ("generator_gain",),
    "recalibrate": ("recalibrate_prior", "recalibrate_start", "recalibrate_spread"),
}
# `latent-track` has these by default, the others must be told.
_OWN = {"head": "student-t", "skip": True, "prompt": True, "encoder_size": 32}
_UNKNOWN = {
    "lt-structured": (),
    "lt-deterministic": ("train_K", "K"),
    "gru": ("train_K", "K", "features", "predictor", "generator_gain", "pool"),
}


def told(model: Model, change: Change) -> dict[str, Any]:
    """The settings that a change names, for the stream of a model."""
    own = {name: list(model.task.own) for name in SIGHTS if change.settings.get(name) == OWN}
    return {**change.settings, **own}


def changed(model: Model, change: Change) -> tuple[dict[str, Any], Training]:
    """The settings and training of a chosen model with one thing different."""
    settings = dict(model.settings)
    for name, value in told(model, change).items():
        for other in _WITH.get(name, ()):
            settings.pop(other, None)
        settings[name] = value
    if {"summariser", *SIGHTS} & change.settings.keys():
        most = FEATURES if "pool" in change.settings else settings["features"]
        settings = within_bound(model.name, model.task, settings, range(most, 0, -1))
    for name in ("safety_net", "pool"):
        if settings.get(name) is None:
            settings.pop(name, None)
    if change.model != "latent-track":
        settings = {**_OWN, "train_K": 8, **settings}
        settings = {n: v for n, v in settings.items() if n not in _UNKNOWN[change.model]}
    kept = {n: v for n, v in model.record["training"].items() if n != "optimiser"}
    kept["epochs"] *= change.longer
    objective = {} if change.model in ("latent-track", "lt-structured") else {"objective": "nll"}
    return settings, default_training(change.model, {**kept, **objective, **change.training})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tracks", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--new", action="store_true", help="forget what is known of these tracks")
    parser.add_argument("--only", nargs="+", default=list(CHANGES), metavar="CHANGE", help="by their words")
    arguments = parser.parse_args()
    rows = json.loads(RESULTS.read_bytes()) if RESULTS.exists() else []
    if arguments.new:
        rows = [row for row in rows if row["track"] not in arguments.tracks]
    for name in arguments.tracks:
        base = fit_base(name, arguments.data_dir, arguments.seeds)
        run_track(base, {words: CHANGES[words] for words in arguments.only}, rows)


def fit_base(name: str, data_dir: Path | None, seeds: int) -> Base:
    """The preset as it is, on the older part."""
    track = find_track(name)
    series = track.load(data_dir).split(track.fraction)[0]
    past, future = series.split(55 / 70)
    model = fit_chosen("latent-track", past, seeds=seeds)
    assert model.pipeline is not None
    prepared = replace(model.pipeline.transform(past), period=model.task.period)
    return Base(name, data_dir, model, changed(model, Change())[1], prepared, past, future, seeds)


def run_track(base: Base, changes: dict[str, Change], rows: list[dict[str, Any]]) -> None:
    """All changes on one track."""
    model, unchanged = base.model, base.judge(base.model)
    note(rows, base.track, UNCHANGED, unchanged, unchanged)
    if base.seeds >= 3:
        note(rows, base.track, POOLED, base.judge(pool(model)), unchanged)
    for words, change in changes.items():
        if any(row["track"] == base.track and row["change"] == words for row in rows):
            continue
        chosen = {**_OWN, **dict.fromkeys(SIGHTS), **model.settings}
        if change.settings and told(model, change).items() <= chosen.items():
            continue  # nothing would be different
        note(rows, base.track, words, run_change(base, change), unchanged)


def run_change(base: Base, change: Change) -> Records:
    """The preset with one thing different, trained and judged as it was."""
    settings, training = changed(base.model, change)
    if change.run is not None:
        return change.run(base, settings, training)
    other = fit(
        change.model,
        base.prepared,
        seeds=base.seeds,
        training=training,
        settings=settings,
        pipeline=base.model.pipeline,
    )
    return base.judge(other)


def note(rows: list[dict[str, Any]], track: str, words: str, records: Records, base: Records) -> None:
    """Keep one result, and say it."""
    rows[:] = [row for row in rows if (row["track"], row["change"]) != (track, words)]
    found = compare(base, records)["nll"]
    row = {
        "track": track,
        "change": words,
        "nll": summarise(records).nll,
        "difference": None if words == UNCHANGED else found.difference,
        "standard_error": None if words == UNCHANGED else found.standard_error,
        "seeds": base.seeds,
    }
    rows.append(row)
    order = [UNCHANGED, POOLED, *CHANGES]
    rows.sort(key=lambda row: order.index(row["change"]))  # whatever was run first
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(RESULTS, json.dumps(rows, indent=1).encode())
    print(
        f"{track:<18} {words:<52} {row['nll']:.4f} {found.difference:+.4f} ±{found.standard_error:.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
