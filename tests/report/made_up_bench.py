"""A folder as `latenttrack bench` leaves it, with made-up forecasts: quick to write, and it looks real.

Labels have a year, a day and weather. Each model errs like an AR(1) process of its own size and claims an
uncertainty of its own width. At the sentinel rows every model is thrown off by thousands of degrees.
"""

import json
import math

import numpy as np
from scipy import stats

from latenttrack.evaluation import statistics
from latenttrack.evaluation.archive import write_records
from latenttrack.evaluation.published import PARAMETERS
from latenttrack.evaluation.records import Records

# Size of the error, claimed over true uncertainty, epistemic share, degrees of error at a sentinel.
MODELS = {
    "lt-structured": (2.5, 1.0, 0.30, 1e4),
    "lt-unstructured": (2.8, 1.05, 0.35, 6e3),
    "dssm": (2.4, 0.95, 0.03, 4e3),
    "vrnn": (4.0, 1.2, 0.04, 9e3),
    "mc-dropout": (2.7, 0.8, 0.20, 2000.0),
    "deep-ensemble": (2.9, 0.7, 0.10, 500.0),
    "bbb": (3.4, 1.6, 0.15, 900.0),
}
REFERENCES = {"last-label": (0.9, 1.0, 0.0, 0.0), "climatology": (6.5, 1.0, 0.0, 0.0)}
START = np.datetime64("2014-08-07T03:40", "ns")
ANOMALY = 0.38  # where in the test part


def labels(steps, rng):
    hour = np.arange(steps)
    weather = np.zeros(steps)
    noise = rng.normal(size=steps)
    for t in range(1, steps):
        weather[t] = 0.985 * weather[t - 1] + 0.7 * noise[t]
    return 9.5 - 9 * np.cos(2 * np.pi * (hour + 5000) / 8766) - 4 * np.cos(2 * np.pi * hour / 24) + weather


def forecasts(y, seeds, size, width, share, jolt, sentinels, rng):
    """The nine arrays [seeds, N] of a model."""
    breath = size * (1 + 0.35 * np.sin(2 * np.pi * np.arange(len(y)) / 2000))
    noise = rng.normal(size=(seeds, len(y))).astype(np.float32)
    error = np.zeros_like(noise)
    for t in range(1, len(y)):
        error[:, t] = 0.7 * error[:, t - 1] + math.sqrt(0.51) * noise[:, t]
    error *= breath * (1 + 0.05 * rng.normal(size=(seeds, 1)))
    claimed = np.broadcast_to(width * breath, error.shape) * np.exp(0.1 * rng.normal(size=error.shape))
    parts = share * (0.5 + rng.random(error.shape))
    aleatoric, epistemic = (1 - parts) * claimed**2, parts * claimed**2
    if jolt:
        factor = np.exp(0.8 * rng.normal(size=(seeds, 1))) * np.array([1.0, 0.9, 0.4])[: len(sentinels)]
        error[:, sentinels] += jolt * factor
        (epistemic if share > 0.1 else aleatoric)[:, sentinels] *= 20 * (1 + factor)
    forecast = stats.norm(y + error, np.sqrt(aleatoric + epistemic))
    z = -error / forecast.std()
    steps = {
        "mean": y + error,
        "aleatoric": aleatoric,
        "epistemic": epistemic,
        "lower": forecast.ppf(0.05),
        "upper": forecast.ppf(0.95),
        "nll": -forecast.logpdf(y),
        "squared_error": error**2,
        "crps": forecast.std()
        * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)),
        "pit": forecast.cdf(y),
    }
    return {name: values.astype(np.float32) for name, values in steps.items()}


def write_bench(
    folder,
    *,
    track="paper",
    models=tuple(MODELS),
    references=tuple(REFERENCES),
    seeds=3,
    steps=1500,
    anomaly=True,
):
    """Write Parquet files and `summary.json` to a folder.

    Returns:
        The content of `summary.json`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    y = labels(steps, rng)
    time = START + np.arange(steps) * np.timedelta64(1, "h")
    sentinels = int(ANOMALY * steps) + np.arange(3) if anomaly else np.arange(0)
    records = {}
    for name in (*models, *references):
        size, width, share, jolt = (MODELS | REFERENCES)[name]
        runs, jolt = 1 if name in references else seeds, jolt if anomaly else 0.0
        records[name] = Records(
            model=name, time=time, key=np.zeros(steps, np.int32), keys=("",), target="temperature (°C)", y=y,
            steps=forecasts(y, runs, size, width, share, jolt, sentinels, rng),
            parameters=PARAMETERS.get(name, (0, 0))[0],
        )  # fmt: skip
        write_records(folder / f"{name}.parquet", records[name])
    summary = summarise(track, records, models, seeds, time, sentinels)
    (folder / "summary.json").write_text(json.dumps(summary))
    return summary


def summarise(track, records, models, seeds, time, sentinels):
    rows = {name: statistics.seed_scores(entry) for name, entry in records.items()}
    lead = "lt-structured" if "lt-structured" in models else next(iter(records))
    seed = statistics.representative_seed(np.array([row["nll_mean"] for row in rows[lead]]))
    fields = {"nll": "nll", "mse": "squared_error"}
    shares = {
        score: [
            statistics.rank_shares({name: records[name].steps[field][s] for name in models})
            for s in range(seeds if models else 0)
        ]
        for score, field in fields.items()
    }
    entries = {}
    for name, entry in records.items():
        reference = name not in models
        peak = entry.steps["nll"][0 if reference else seed].argmax()
        entries[name] = {
            "reference": reference,
            "seeds": rows[name],
            "failure_rate": statistics.failure_rate(np.array([row["nll_max"] for row in rows[name]])),
            "largest_nll": {
                "time": str(time[peak]),
                "step": int(peak),
                "seeds_at_sentinels": int(np.isin(entry.steps["nll"].argmax(axis=1), sentinels).sum()),
            },
            "parameters": {"total": entry.parameters, "inference": entry.parameters},
            "settings": {} if reference else {"activation": "relu", "hidden": [130, 130]},
            "training": None if reference else {"epochs": 6, "window": 256, "learning_rate": 0.0001},
            "features": {"calendar": ["day", "week"], "sentinels": []},
            "seconds": {"train": 0.0 if reference else 45.1, "evaluate": 12.3},
        }
        if not reference:
            entries[name] |= {
                "ranks": {score: shares[score][seed][name]._asdict() for score in fields},
                "ranks_over_seeds": {
                    score: {
                        share: float(np.mean([one[name]._asdict()[share] for one in shares[score]]))
                        for share in ("first", "first_or_second")
                    }
                    for score in fields
                },
            }
    return {
        "version": 1,
        "track": {
            "name": track, "summary": "Jena, temperature 6 hours ahead; raw sentinels, ReLU",
            "target": "temperature (°C)", "delay": 1, "horizon": 6, "sentinels": "keep", "train_steps": 49027,
            "test_steps": len(time), "first_test_time": str(time[0]),
            "last_test_time": str(time[-1]), "source": "jena_hourly_2009_2016.csv.gz",
        },
        "seeds": seeds,
        "representative_seed": seed,
        "models": entries,
        "anomalies": [str(t) for t in time[sentinels]],
        "versions": {"latenttrack": "0.1.0", "python": "3.11.7", "jax": "0.10.2", "numpy": "2.4.6"},
        "machine": {"cores": 2, "system": "Linux"},
        "seconds": 1500.0,
        "command": "latenttrack bench paper",
    }  # fmt: skip
