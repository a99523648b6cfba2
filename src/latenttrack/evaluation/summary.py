"""`summary.json`: what a bench found, for people and programs."""

import json
import math
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from latenttrack.data.series import Series
from latenttrack.evaluation.archive import read_records
from latenttrack.evaluation.paired import LEADING, compare
from latenttrack.evaluation.statistics import rank_shares, representative_seed
from latenttrack.evaluation.tracks import Track
from latenttrack.store.atomic import write_bytes
from latenttrack.training.presets import POOLED

VERSION = 1
_LIBRARIES = ("latenttrack", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")
_SCORES = {"nll": "nll", "mse": "squared_error"}


def summarise_bench(
    folder: Path, track: Track, series: Series, models: Sequence[str], command: str
) -> dict[str, Any]:
    """Put the models' parts together, rank and compare the models step by step, and write `summary.json`.

    Args:
        folder: of the bench; holds `NAME.json` and `NAME.parquet` for every model.
        track: what was run.
        series: the whole stream, as the track loads it.
        models: names, in the order of the tables.
        command: how the bench was called.

    Returns:
        The content of the file.
    """
    entries = {name: json.loads((folder / f"{name}.json").read_bytes()) for name in models}
    train, test = series.split(track.fraction)
    broken = np.isnan(test.x) if track.sentinels == "missing" else test.x == track.sentinel
    sentinels = np.flatnonzero(broken.any(axis=1))
    chosen = _representative(entries)
    _add_ranks(folder, entries, chosen)
    _add_largest(folder, entries, chosen, sentinels)
    _add_paired(folder, entries)
    summary = {
        "version": VERSION,
        "command": command,
        "track": {
            "name": track.name,
            "summary": track.summary,
            "dataset": track.dataset,
            "target": series.target,
            "horizon": track.horizon,
            "delay": track.delay,
            "sentinels": track.sentinels,
            "presets": track.presets,
            "train_steps": len(train),
            "test_steps": len(test),
            "first_test_time": str(test.time.min()),
            "last_test_time": str(test.time.max()),
        },
        "seeds": max(len(entry["seeds"]) for entry in entries.values()),
        "representative_seed": chosen,
        "models": entries,
        "anomalies": [str(t) for t in test.time[sentinels]],
        "versions": {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES},
        "machine": {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"},
        "seconds": round(sum(sum(entry["seconds"].values()) for entry in entries.values()), 1),
    }
    write_bytes(folder / "summary.json", json.dumps(summary, indent=1).encode())
    return summary


def finite(value: float | int) -> float | int | None:
    """JSON has no NaN and no infinity: None stands for both."""
    return value if math.isfinite(value) else None


def _representative(entries: dict[str, dict[str, Any]]) -> int:
    """The representative seed of LatentTrack, structured; without it, of the first model there is."""
    name = "lt-structured" if "lt-structured" in entries else next(iter(entries))
    means = [row["nll_mean"] for row in entries[name]["seeds"]]
    return representative_seed(np.array([math.inf if mean is None else mean for mean in means]))


def _add_ranks(folder: Path, entries: dict[str, dict[str, Any]], chosen: int) -> None:
    """How often each network was first, and first or second, among the networks; with a label only."""
    networks = [name for name, entry in entries.items() if not entry["reference"]]
    if not networks:
        return
    # Seed by seed: only networks with as many seeds as any can be compared so.
    most = max(len(entries[name]["seeds"]) for name in networks)
    networks = [name for name in networks if len(entries[name]["seeds"]) == most]
    records = {name: read_records(folder / f"{name}.parquet") for name in networks}
    labelled = ~np.isnan(next(iter(records.values())).y)
    seeds = range(next(iter(records.values())).seeds)
    for score, field in _SCORES.items():
        by_seed = [
            rank_shares({name: r.steps[field][seed, labelled] for name, r in records.items()})
            for seed in seeds
        ]
        for name in networks:
            mean = np.mean([shares[name] for shares in by_seed], axis=0)
            entries[name].setdefault("ranks", {})[score] = by_seed[chosen][name]._asdict()
            entries[name].setdefault("ranks_over_seeds", {})[score] = {
                "first": float(mean[0]),
                "first_or_second": float(mean[1]),
            }


def _add_largest(
    folder: Path, entries: dict[str, dict[str, Any]], chosen: int, sentinels: np.ndarray
) -> None:
    """Where the largest NLL is, and for how many seeds that is a row with a sentinel."""
    for name, entry in entries.items():
        records = read_records(folder / f"{name}.parquet")
        nll = np.where(np.isnan(records.y), -np.inf, np.nan_to_num(records.steps["nll"], nan=np.inf))
        largest = np.argmax(nll, axis=1)
        step = int(largest[chosen % len(largest)])
        entry["largest_nll"] = {
            "step": step,
            "time": str(records.time[step]),
            "seeds_at_sentinels": int(np.isin(largest, sentinels).sum()),
        }


def _add_paired(folder: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Every other model against the leading one, and against its pooled seeds, week by week."""
    for leader, part in ((LEADING, "paired"), (POOLED, "paired_pooled")):
        if leader not in entries:
            continue
        leading = read_records(folder / f"{leader}.parquet")
        for name in set(entries) - {LEADING, leader}:
            found = compare(leading, read_records(folder / f"{name}.parquet"))
            entries[name][part] = {
                "against": leader,
                "by": "week" if leading.time.dtype.kind == "M" else "block",
                **{score: {k: finite(v) for k, v in one._asdict().items()} for score, one in found.items()},
            }
