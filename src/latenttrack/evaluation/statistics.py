"""Statistics over time, over models and over seeds: what the tables and figures of a bench show.

Plain numpy on records. A score that is not finite counts as infinitely bad, never as absent.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from latenttrack.evaluation.records import Records, epistemic_share, one_seed

TRIM = 0.01  # share of the largest values that a trimmed statistic leaves out
CATASTROPHE = 1e6  # a seed whose largest NLL lies above has failed


class Temporal(NamedTuple):
    """One score of one seed over time."""

    mean: float
    trimmed: float  # mean without the largest 1 %
    median: float
    trimmed_median: float
    max: float


class RankShares(NamedTuple):
    """How often a model was among the best at a step, as shares of the steps."""

    first: float
    first_or_second: float


class Curve(NamedTuple):
    """A step function or a row of bins, [M] each."""

    x: np.ndarray
    y: np.ndarray


def temporal(values: np.ndarray) -> Temporal:
    """Mean, trimmed mean, median, trimmed median and maximum of a score over time.

    Args:
        values: [N] one score at every labelled step. Trimming leaves out the largest floor(N / 100).
    """
    ordered = np.sort(_worst_if_not_finite(values))
    kept = ordered[: len(ordered) - int(TRIM * len(ordered))]
    return Temporal(
        mean=float(ordered.mean()),
        trimmed=float(kept.mean()),
        median=float(np.median(ordered)),
        trimmed_median=float(np.median(kept)),
        max=float(ordered[-1]),
    )


def seed_scores(records: Records) -> list[dict[str, float]]:
    """Every seed's row in `summary.json`: NLL and squared error over time, CRPS, calibration, ignorance."""
    labelled = ~np.isnan(records.y)
    rows = []
    for seed in range(records.seeds):
        one = {name: values[seed, labelled].astype(float) for name, values in records.steps.items()}
        row: dict[str, float] = {}
        for score, field in (("nll", "nll"), ("mse", "squared_error")):
            row |= {f"{score}_{name}": value for name, value in temporal(one[field])._asdict().items()}
        inside = (one["pit"] >= 0.05) & (one["pit"] <= 0.95)
        row |= {
            "crps_mean": float(_worst_if_not_finite(one["crps"]).mean()),
            "coverage_90": float(inside.mean()),
            "pit_ks": pit_ks(one["pit"]),
            "epistemic_share": epistemic_share(one_seed(records, seed)),
        }
        rows.append(row)
    return rows


def pit_ks(pit: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of PIT values [N] from uniform: sup_u |F_N(u) - u|."""
    u = np.sort(pit[np.isfinite(pit)])
    if len(u) == 0:
        return float("nan")
    above = np.arange(1, len(u) + 1) / len(u) - u
    below = u - np.arange(len(u)) / len(u)
    return float(max(above.max(), below.max()))


def ranks(scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each model's place at every step, 1 for the lowest score; models that tie share the better place.

    Args:
        scores: model -> [N].

    Returns:
        model -> [N] integers.
    """
    table = np.stack([_worst_if_not_finite(values) for values in scores.values()])
    places = 1 + np.sum(table[None, :, :] < table[:, None, :], axis=1)
    return dict(zip(scores, places, strict=True))


def rank_shares(scores: Mapping[str, np.ndarray]) -> dict[str, RankShares]:
    """How often each model was first, and first or second; model -> [N] scores."""
    return {
        name: RankShares(float(np.mean(place == 1)), float(np.mean(place <= 2)))
        for name, place in ranks(scores).items()
    }


def failure_rate(largest: np.ndarray, threshold: float = CATASTROPHE) -> float:
    """Share of seeds whose largest NLL [S] exceeds the threshold."""
    return float(np.mean(_worst_if_not_finite(largest) > threshold))


def ccdf(values: np.ndarray) -> Curve:
    """Complementary distribution function: at each value, smallest first, the share of values above it."""
    x = np.sort(_worst_if_not_finite(values))
    return Curve(x, 1.0 - np.arange(1, len(x) + 1) / len(x))


def calibration_bins(variance: np.ndarray, squared_error: np.ndarray, bins: int = 20) -> Curve:
    """E[squared error | total variance] in equally filled bins of the variance.

    Only steps whose variance lies in the central [1, 99] % count.

    Args:
        variance: [N] predicted.
        squared_error: [N].
        bins: how many.

    Returns:
        x [bins]: mean variance of each bin; y [bins]: mean squared error in it.
    """
    fine = np.isfinite(variance) & np.isfinite(squared_error)
    variance, squared_error = variance[fine].astype(float), squared_error[fine].astype(float)
    low, high = np.quantile(variance, [0.01, 0.99])
    central = (variance >= low) & (variance <= high)
    order = np.argsort(variance[central], kind="stable")
    groups = [g for g in np.array_split(order, bins) if len(g)]
    return Curve(
        np.array([variance[central][g].mean() for g in groups]),
        np.array([squared_error[central][g].mean() for g in groups]),
    )


def representative_seed(nll_means: np.ndarray) -> int:
    """The seed whose mean NLL over time is closest to the median over seeds [S]; the first of equals."""
    means = _worst_if_not_finite(nll_means)
    median = np.sort(means)[(len(means) - 1) // 2] if np.isinf(np.median(means)) else np.median(means)
    with np.errstate(invalid="ignore"):
        distance = np.abs(means - median)
    return int(np.argmin(np.where(np.isnan(distance), 0.0, distance)))


def _worst_if_not_finite(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, float)
    return np.where(np.isfinite(values), values, np.inf)
