"""Records: what a model said at every step, beside what happened. Plain numpy: reports need no jax."""

from dataclasses import dataclass

import numpy as np

FIELDS = (
    "mean", "aleatoric", "epistemic", "lower", "upper", "nll", "squared_error", "crps", "pit"
)  # fmt: skip


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
    """Mean epistemic variance as a share of the mean total, over all steps; NaN if nothing is finite."""
    epistemic, aleatoric = (records.steps[name].astype(float) for name in ("epistemic", "aleatoric"))
    finite = np.isfinite(epistemic) & np.isfinite(aleatoric)
    part = epistemic[finite].sum()
    whole = part + aleatoric[finite].sum()
    return float(part / whole) if whole > 0 else float("nan")
