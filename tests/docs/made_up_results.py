"""Folders as `latenttrack bench` leaves them, with made-up forecasts whose quality is given."""

import json
import math

import numpy as np
from scipy import stats

from latenttrack.evaluation.archive import write_records
from latenttrack.evaluation.paired import LEADING, compare
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.statistics import failure_rate, seed_scores
from latenttrack.training.presets import POOLED

REFERENCES = ("lightgbm", "rls-t", "rls", "climatology", "seasonal-naive", "last-label")
START = np.datetime64("2014-08-05T20", "ns")


def forecasts(size, width, seeds, luck, rng):
    """Normal forecasts whose errors have a part that all models share and a part of their own.

    Args:
        size: standard deviation of the error.
        width: claimed over true standard deviation.
        seeds: how many.
        luck: [N] the course, standard normal.
        rng: of this model.
    """
    own = rng.normal(size=(seeds, len(luck)))
    error = size * (math.sqrt(0.8) * luck + math.sqrt(0.2) * own) * (1 + 0.01 * rng.normal(size=(seeds, 1)))
    claimed = np.full_like(error, width * size)
    z = -error / claimed
    return {
        "mean": error,
        "aleatoric": claimed**2,
        "epistemic": np.zeros_like(error),
        "lower": error - 1.645 * claimed,
        "upper": error + 1.645 * claimed,
        "nll": -stats.norm.logpdf(0, error, claimed),
        "squared_error": error**2,
        "crps": claimed * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)),
        "pit": stats.norm.cdf(z),
    }


def write_bench(folder, track, models, *, steps=600, seeds=2, summary="Made-up hours", horizon=1, delay=1):
    """Write Parquet files and `summary.json`.

    Args:
        folder: is made.
        track: name.
        models: name -> size of its error, claimed over true uncertainty.
        steps: hours of the test part.
        seeds: of networks.
        summary: the track's, in words.
        horizon: of the track.
        delay: of the track.
    """
    folder.mkdir(parents=True)
    luck = np.random.default_rng(0).normal(size=steps)
    time = START + np.arange(steps) * np.timedelta64(1, "h")
    records = {
        name: Records(
            name, time, np.zeros(steps, np.int32), ("",), "temperature (°C)", np.zeros(steps),
            forecasts(size, width, 1 if name in REFERENCES else seeds, luck, np.random.default_rng(i + 1)),
        )
        for i, (name, (size, width)) in enumerate(models.items())
    }  # fmt: skip
    entries = {}
    for name, one in records.items():
        write_records(folder / f"{name}.parquet", one)
        rows = seed_scores(one)
        shares = {score: {"first": 0.5, "first_or_second": 1.0} for score in ("nll", "mse")}
        entries[name] = {
            "reference": name in REFERENCES,
            "seeds": rows,
            "failure_rate": failure_rate(np.array([row["nll_max"] for row in rows])),
            "parameters": dict.fromkeys(("total", "inference"), 0 if name in REFERENCES else 31_874),
            "seconds": {"train": 0.4 if name in REFERENCES else 211.0, "evaluate": 3.0},
            "ranks": shares,
            "ranks_over_seeds": shares,
        }
        for leader, part in ((LEADING, "paired"), (POOLED, "paired_pooled")):
            if leader in records and name not in (LEADING, leader):
                found = {score: pair._asdict() for score, pair in compare(records[leader], one).items()}
                entries[name][part] = {"against": leader, "by": "week", **found}
    content = {
        "version": 1,
        "command": f"latenttrack bench {track}",
        "track": {
            "name": track, "summary": summary, "target": "temperature (°C)", "dataset": "jena",
            "horizon": horizon,
            "delay": delay, "train_steps": 49_027, "test_steps": steps, "first_test_time": str(time[0]),
            "last_test_time": str(time[-1]),
        },
        "seeds": seeds,
        "representative_seed": 0,
        "models": entries,
        "anomalies": [],
        "versions": {"latenttrack": "0.1.0", "jax": "0.10.2", "python": "3.11.7"},
        "machine": {"cores": 2},
        "seconds": 1234.5,
    }  # fmt: skip
    save(folder, content)
    return content


def save(folder, content):
    """Write `summary.json` again."""
    (folder / "summary.json").write_text(json.dumps(content))
