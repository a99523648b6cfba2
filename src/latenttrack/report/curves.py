"""What the figures show, as plain arrays: which week, which models, smoothed curves, PIT densities."""

import re
from collections.abc import Sequence

import numpy as np

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import Records

WEEK = 168  # hours


def check_records(records: Sequence[Records]) -> None:
    """Demand at least one model, and the same steps for all.

    Args:
        records: of one series, one entry for each model.
    """
    if not records:
        raise LatentTrackError("records is empty: give the records of at least one model.")
    first = records[0]
    for other in records:
        if not (np.array_equal(first.time, other.time) and np.array_equal(first.key, other.key)):
            raise LatentTrackError(
                f"the records of models {first.model!r} and {other.model!r} are of different steps: "
                "give the records of one series only."
            )
    if np.isnan(first.y).all():
        raise LatentTrackError(f"no step has a label of {first.target!r}: evaluate on a series with labels.")


def choose(records: Sequence[Records], models: Sequence[str] | None, limit: int) -> list[Records]:
    """Pick the models of a figure that has no room for all.

    Args:
        records: one entry for each model.
        models: their names, if the caller has decided.
        limit: how many to pick otherwise: the best LatentTrack model, then the best of the others, by CRPS.

    Returns:
        The records of the chosen models.
    """
    by_name = {entry.model: entry for entry in records}
    if models is not None:
        for name in models:
            if name not in by_name:
                raise LatentTrackError(
                    f"there are no records of model {name!r}; choose from: {', '.join(by_name)}"
                )
        return [by_name[name] for name in models]
    ranked = sorted(records, key=_crps)
    best = [entry for entry in ranked if is_latent_track(entry)][:1]
    return (best + [entry for entry in ranked if not (best and is_latent_track(entry))])[:limit]


def is_latent_track(records: Records) -> bool:
    """Whether a model is one of the LatentTrack family."""
    return records.model == "latent-track" or records.model.startswith("lt-")


def _crps(records: Records) -> float:
    """Mean CRPS; infinite for a model that broke down."""
    crps = records.steps["crps"][:, ~np.isnan(records.y)]
    return float(crps.mean()) if np.isfinite(crps).all() else np.inf


def eventful_week(records: Records, steps: int = WEEK) -> np.ndarray:
    """Find the week of one key in which the label varies most.

    Weeks with missing labels count for less. Variation is from the 2nd to the 98th percentile, so that one
    false reading does not decide.

    Args:
        records: of any model; only the labels are used.
        steps: length of the week.

    Returns:
        [min(steps, rows of the key)] row numbers.
    """
    best, score = np.arange(0), (-1.0, 0)
    for key in np.unique(records.key):
        rows = np.flatnonzero(records.key == key)
        last = max(len(rows) - steps, 0)
        for start in [*range(0, last, max(1, steps // 7)), last]:
            week = rows[start : start + steps]
            labels = records.y[week][~np.isnan(records.y[week])]
            spread = float(np.ptp(np.percentile(labels, [2, 98]))) if len(labels) else 0.0
            if (spread * len(labels), len(labels)) > score:  # of constant labels, rather any than none
                best, score = week, (spread * len(labels), len(labels))
    return best


def over_time(records: Records, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average over seeds and over the keys that share a time; what is not finite is left out.

    Args:
        records: the model's times.
        values: [seeds, N], one of its arrays.

    Returns:
        times [T] in order, and means [T], NaN where nothing was finite.
    """
    times, index = np.unique(records.time, return_inverse=True)
    finite = np.isfinite(values)
    total = np.bincount(index, np.where(finite, values, 0.0).sum(axis=0, dtype=float), len(times))
    count = np.bincount(index, finite.sum(axis=0), len(times))
    return times, _ratio(total, count)


def rolling_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Centred moving average that skips NaN and uses what there is at both ends.

    Args:
        values: [T].
        window: number of steps; a short series gets a shorter one, so that its course remains.

    Returns:
        [T], NaN where the window holds no value.
    """
    ones = np.ones(max(1, min(window, len(values) // 10)))
    known = ~np.isnan(values)
    total = np.convolve(np.where(known, values, 0.0), ones, mode="same")
    count = np.rint(np.convolve(known.astype(float), ones, mode="same"))
    return _ratio(total, count)


def smoothed(
    records: Records, values: np.ndarray, window: int, points: int = 2000
) -> tuple[np.ndarray, np.ndarray]:
    """Average over seeds and keys, smooth, and keep no more points than a figure can show.

    Args:
        records: the model's times.
        values: [seeds, N], one of its arrays.
        window: steps of the moving average.
        points: about how many to keep.

    Returns:
        times and values, [T] each.
    """
    times, mean = over_time(records, values)
    every = slice(None, None, max(1, len(times) // points))
    return times[every], rolling_mean(mean, window)[every]


def pit_density(records: Records, bins: int) -> tuple[np.ndarray, float]:
    """Histogram of the PIT, 1 where it is as high as for a perfect forecast.

    Seeds see the same labels, so they are averaged and do not narrow the band. The band takes the steps as
    independent, as they are for perfect one-step forecasts; it is the normal approximation of the binomial.

    Args:
        records: of one model.
        bins: number of bins B.

    Returns:
        density [B], and half the width of the 95 % band around 1 for one bin of a perfect forecast.
    """
    pit = records.steps["pit"]
    counts = np.histogram(pit[np.isfinite(pit)], bins, (0.0, 1.0))[0]
    steps = max(1, int((~np.isnan(records.y)).sum()))
    density = counts * bins / max(1, counts.sum())
    return density, 1.96 * float(np.sqrt((bins - 1) / steps))


def split_unit(target: str) -> tuple[str, str]:
    """Take 'temperature (°C)' or 'temperature [°C]' apart.

    Args:
        target: as in `Records`.

    Returns:
        name and unit; the unit is empty if none is given.
    """
    match = re.fullmatch(r"(.*\S)\s*[(\[]([^()\[\]]+)[)\]]\s*", target)
    return (match[1], match[2]) if match else (target, "")


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
