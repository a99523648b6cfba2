"""Made-up records that look like real ones: Gaussian forecasts around the last label, with known flaws."""

import numpy as np
import pytest
from made_up_bench import write_bench
from scipy import stats

from latenttrack.evaluation.records import Records
from latenttrack.report.page import write_report

MODELS = (
    "lt-structured", "lt-unstructured", "vrnn", "dssm", "mc-dropout", "bbb", "deep-ensemble",
    "last-label", "seasonal-naive", "climatology", "rls", "rls-t",
)  # fmt: skip
REFERENCES = MODELS[7:]


def fake_records(
    model="lt-structured", *, time, key, keys, target, y, seeds=2, width=1.0, epistemic=0.1, seed=0
):
    """Forecast the label itself plus noise of size `sigma`, and claim `width` times that as its uncertainty.

    Sigma breathes with time. A width of 1 is calibrated; `epistemic` is the share of the variance.
    """
    rng = np.random.default_rng(seed)
    n = len(y)
    truth = np.where(np.isnan(y), np.nanmean(y), y)
    sigma = 0.1 * np.nanstd(y) * (1.5 + np.sin(np.arange(n) / 150)) * np.ones((seeds, 1))
    mean = truth + sigma * rng.normal(size=(seeds, n))
    claimed = width * sigma
    forecast = stats.norm(mean, claimed)
    z = (y - mean) / claimed
    share = epistemic * (0.5 + 0.5 * rng.random((seeds, n)))
    steps = {
        "mean": mean,
        "aleatoric": (1 - share) * claimed**2,
        "epistemic": share * claimed**2,
        "lower": forecast.ppf(0.05),
        "upper": forecast.ppf(0.95),
        "nll": -forecast.logpdf(y),
        "squared_error": (mean - y) ** 2,
        "crps": claimed * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)),
        "pit": forecast.cdf(y),
    }
    steps = {name: values.astype(np.float32) for name, values in steps.items()}
    return Records(model, time, key, keys, target, y, steps, parameters=1000, microseconds=20.0)


def clock_series(days=30):
    """Two keys, hourly, with missing labels; the second varies most in its second week."""
    hours = 24 * days
    time = np.datetime64("2013-10-01T00", "ns") + np.arange(hours) * np.timedelta64(1, "h")
    y = 10 + 5 * np.sin(np.arange(hours) * 2 * np.pi / 24)
    other = y + np.where((np.arange(hours) >= 168) & (np.arange(hours) < 336), 1, 0.1) * np.linspace(
        0, 30, hours
    )
    y = np.concatenate([y, other])
    y[[5, 6, 7, hours + 200]] = np.nan
    return {
        "time": np.tile(time, 2),
        "key": np.repeat(np.arange(2, dtype=np.int32), hours),
        "keys": ("EWR", "JFK"),
        "target": "temperature (°C)",
        "y": y,
    }


def step_series(n=600):
    """One key without a name, step numbers for times."""
    y = np.cumsum(np.random.default_rng(1).normal(size=n))
    return {
        "time": np.arange(n, dtype=float), "key": np.zeros(n, np.int32), "keys": ("",), "target": "y", "y": y
    }  # fmt: skip


@pytest.fixture(scope="session")
def clock():
    return clock_series()


@pytest.fixture(scope="session")
def steps():
    return step_series()


@pytest.fixture(scope="session")
def fake():
    return fake_records


@pytest.fixture(scope="session")
def all_models(clock):
    """Twelve models, worse and worse."""
    return [fake_records(name, **clock, width=1 + 0.5 * i, seed=i) for i, name in enumerate(MODELS)]


@pytest.fixture(scope="session")
def bench_folder(tmp_path_factory):
    """A bench of all models with its report, and the content of its `summary.json`; not to be changed."""
    folder = tmp_path_factory.mktemp("bench")
    summary = write_bench(folder, seeds=5, steps=700)
    write_report(folder)
    return folder, summary
