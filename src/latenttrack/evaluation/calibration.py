"""Calibration in thirty numbers: how PIT values are spread, and how much central intervals cover."""

from typing import NamedTuple

import numpy as np

from latenttrack.evaluation.records import Records

BINS = 20
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Calibration(NamedTuple):
    """One model's calibration, all seeds together.

    Attributes:
        histogram: [BINS] density of the PIT; 1 everywhere for a calibrated forecast.
        coverage: [LEVELS] share of labels inside the central interval of each level.
        steps: labelled steps.
    """

    histogram: np.ndarray
    coverage: np.ndarray
    steps: int


def calibration(records: Records) -> Calibration:
    """Histogram of the PIT and coverage of central intervals, over the labelled steps of all seeds.

    The central interval of level c holds a label if its PIT u has |u - 1/2| <= c/2. A step whose PIT is not
    finite is in no bin and in no interval.
    """
    labelled = ~np.isnan(records.y)
    pit = np.asarray(records.steps["pit"][:, labelled], float)
    counts = np.histogram(pit[np.isfinite(pit)], BINS, (0.0, 1.0))[0]
    off_centre = np.abs(np.nan_to_num(pit, nan=np.inf) - 0.5)
    return Calibration(
        histogram=counts * BINS / max(1, pit.size),
        coverage=np.array([np.mean(off_centre <= level / 2) for level in LEVELS]),
        steps=int(labelled.sum()),
    )
