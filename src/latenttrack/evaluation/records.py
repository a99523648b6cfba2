"""Records: what a model said at every step, beside what happened. Plain numpy: reports need no jax."""

from dataclasses import dataclass, replace

import numpy as np

from latenttrack.errors import LatentTrackError

FIELDS = (
    "mean", "aleatoric", "epistemic", "lower", "upper", "nll", "squared_error", "crps", "pit"
)  # fmt: skip
PLACES = ("mean", "lower", "upper")  # those on the label's own axis, which may lie far from 0


@dataclass(frozen=True)
class Records:
    """The filter's output for one model on one series, in the label's own units.

    Attributes:
        model: the model's name.
        time: [N] datetime64[ns] or step numbers.
        key: [N] index into `keys`.
        keys: names of the streams.
        target: what is predicted, with its unit if known.
        y: [N] labels, NaN where missing.
        steps: the nine arrays [seeds, N] named in `FIELDS`; scores are NaN where the label is missing.
        parameters: trained numbers of one seed.
        microseconds: per filter step (update and predict), one stream; NaN if it was not measured.
    """

    model: str
    time: np.ndarray
    key: np.ndarray
    keys: tuple[str, ...]
    target: str
    y: np.ndarray
    steps: dict[str, np.ndarray]
    parameters: int = 0
    microseconds: float = float("nan")

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return int(self.steps["nll"].shape[0])


@dataclass(frozen=True)
class Summary:
    """One row of the table: means over the labelled steps of all seeds."""

    model: str
    nll: float
    crps: float
    mse: float
    coverage_90: float  # share of labels inside the central 90 % interval
    epistemic_share: float  # of the total variance
    parameters: int
    microseconds: float


def summarise(records: Records) -> Summary:
    """Collapse the records of one model to a row."""
    labelled = ~np.isnan(records.y)
    if not labelled.any():
        raise LatentTrackError(f"no step has a label of {records.target!r}: evaluate on a series with labels")
    scored = {name: values[:, labelled] for name, values in records.steps.items()}
    inside = (scored["pit"] >= 0.05) & (scored["pit"] <= 0.95)
    return Summary(
        model=records.model,
        nll=float(scored["nll"].mean()),
        crps=float(scored["crps"].mean()),
        mse=float(scored["squared_error"].mean()),
        coverage_90=float(inside.mean()),
        epistemic_share=epistemic_share(records),
        parameters=records.parameters,
        microseconds=records.microseconds,
    )


def epistemic_share(records: Records) -> float:
    """Epistemic variance as a share of the total, mean over steps and seeds; NaN if nothing is finite.

    A mean of shares, not a share of means: one wild step cannot decide it.
    """
    epistemic, aleatoric = (records.steps[name].astype(float) for name in ("epistemic", "aleatoric"))
    total = epistemic + aleatoric
    known = np.isfinite(total) & (total > 0)
    return float(np.mean(epistemic[known] / total[known])) if known.any() else float("nan")


def one_seed(records: Records, seed: int) -> Records:
    """The records of one seed alone: arrays [1, N]."""
    return replace(records, steps={name: values[seed : seed + 1] for name, values in records.steps.items()})
