"""Two models on the same steps, compared week by week: by how much, how surely, and how often.

Scores of neighbouring steps resemble each other (a front passes, a sensor drifts), so that a standard error
from single steps would be far too small. Weeks are nearly independent: the standard error comes from them.
It says how much chance is in the choice of the weeks, not in the choice of the seeds.
"""

from typing import NamedTuple

import numpy as np

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import Records

LEADING = "latent-track"  # the model that the others are compared with
SCORES = ("nll", "crps", "squared_error")
BLOCKS = 50  # stand in for weeks where a stream has no clock


class Paired(NamedTuple):
    """One score of another model minus that of the leading one: positive where the leading one is better.

    Attributes:
        difference: mean over all steps.
        standard_error: of `difference`, from the weekly means; NaN if there is only one week.
        z: their ratio; NaN where there is none.
        weeks_won: share of the weeks in which the leading model has the lower mean.
        weeks: how many there are.
    """

    difference: float
    standard_error: float
    z: float
    weeks_won: float
    weeks: int


def compare(leading: Records, other: Records) -> dict[str, Paired]:
    """Compare two models step by step, then by week, for every score of `SCORES`.

    A step's score is its mean over seeds. Only steps with a label count. A score that is not finite counts as
    infinitely bad, as in every other table: the mean difference is then infinite (NaN if both models broke
    down), its week is lost, and there is no standard error.

    Args:
        leading: records [seeds, N] of the model in question.
        other: records [seeds', N] of the one it is compared with.
    """
    if not (np.array_equal(leading.time, other.time) and np.array_equal(leading.key, other.key)):
        raise LatentTrackError(
            f"the records of {leading.model!r} and {other.model!r} are of different steps: "
            "compare models on the same series."
        )
    labelled = ~(np.isnan(leading.y) | np.isnan(other.y))
    if not labelled.any():
        raise LatentTrackError(
            f"no step has a label of {leading.target!r}: compare models on a series with labels."
        )
    week = weeks(leading.time)[labelled]
    with np.errstate(invalid="ignore"):  # infinity minus infinity, where both broke down
        return {
            score: paired(_step_scores(other, score)[labelled] - _step_scores(leading, score)[labelled], week)
            for score in SCORES
        }


def paired(difference: np.ndarray, week: np.ndarray) -> Paired:
    """The mean difference, and its standard error from clusters.

    With n_g steps of mean d_g in week g = 1 ... G and n steps in all, D = sum_g n_g d_g / n is a ratio of two
    weekly sums, and

        s.e.^2 = G / (G - 1) * sum_g (n_g (d_g - D))^2 / n^2.

    With weeks of equal length that is the usual standard error of the mean of G weekly means.

    Args:
        difference: [N] other model's score minus the leading model's.
        week: [N] integers, equal within a week.
    """
    _, index, steps = np.unique(week, return_inverse=True, return_counts=True)
    total, n, count = np.bincount(index, difference), len(difference), len(steps)
    mean = float(total.sum() / n)
    error = float("nan")
    if count > 1:
        with np.errstate(invalid="ignore"):
            excess = total - steps * mean
        error = float(np.sqrt(count / (count - 1) * np.sum(excess**2)) / n)
    z = mean / error if error > 0 else float("nan")
    return Paired(mean, error, z, float(np.mean(total > 0)), count)


def weeks(time: np.ndarray) -> np.ndarray:
    """Which week each step is in, the same for all keys: [N] integers.

    Args:
        time: [N] datetime64: calendar weeks, from Monday. [N] step numbers: blocks of a fiftieth of the
            stream.
    """
    if time.dtype.kind == "M":
        days = time.astype("datetime64[D]").astype(np.int64)
        return (days + 3) // 7  # day 0, the first of January 1970, was a Thursday
    times, place = np.unique(time, return_inverse=True)
    return place * BLOCKS // len(times)


def _step_scores(records: Records, score: str) -> np.ndarray:
    """One score of every step [N], the mean over seeds; infinite where a seed has none."""
    values = np.asarray(records.steps[score], float)
    return np.where(np.isfinite(values), values, np.inf).mean(axis=0)
