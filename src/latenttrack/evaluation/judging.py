"""Whether a fitted model is worth having: on rows it was not trained on, beside what needs no training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from latenttrack.evaluation.paired import Paired, paired, weeks
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.statistics import seed_scores
from latenttrack.evaluation.summary import finite

_CHANCE = 0.05  # how often chance alone may look like a difference
_FEWEST_WEEKS = 8  # from fewer a standard error cannot be told: blocks of time take their place
_BLOCKS = 20
_SHORTEST = 12  # steps of a block, and at least twice the delay: what overlaps is not independent
_NAMED = 0.05  # share of the forecasts from which on a member of the safety net is named


class Score(NamedTuple):
    """Means over the held-out labels."""

    nll: float
    crps: float
    mse: float
    coverage_90: float


@dataclass(frozen=True)
class Judgement:
    """A model and the references on the held-out rows.

    Attributes:
        model: its name.
        labels: how many were predicted.
        scores: of the model, then of the references.
        paired: the NLL of each reference minus the model's, by block of time.
        blocks: what the blocks are: "weeks", or "blocks" where there are too few weeks.
        weights: mean weight of the network and of each member of its safety net; None without one.
    """

    model: str
    labels: int
    scores: dict[str, Score]
    paired: dict[str, Paired]
    blocks: str
    weights: dict[str, float] | None = None

    @property
    def best(self) -> str | None:
        """The reference with the lowest NLL; None without references."""
        return min(self.paired, key=lambda name: self.scores[name].nll, default=None)

    def verdict(self) -> str:
        """One sentence: whether the model is worth having."""
        best = self.best
        if best is None:
            return "There is no reference to compare with."
        difference, error, z, won, count = self.paired[best]
        if not np.isfinite(self.scores[self.model].nll):
            return f"{self.model} failed: it held a label for impossible; {best} is the safer choice."
        by = f"{abs(difference):.3f}" + (f" ± {error:.3f}" if np.isfinite(error) else "") + " nats"
        if not np.isfinite(z):
            return f"The held-out part cannot tell {self.model} from {best}, the best reference ({by} apart)."
        sure = float(student.ppf(1.0 - _CHANCE / 2.0, count - 1))  # standard errors
        if z >= sure:
            return (
                f"{self.model} is worth having: {by} better than {best}, the best reference"
                f"{self._crps(best)}, and ahead in {round(won * count)} of {count} {self.blocks}."
            )
        if z <= -sure:
            return f"{self.model} is not worth having here: {best} is {by} better, so take --model {best}."
        better = "better" if difference >= 0 else "worse"
        return (
            f"{self.model} is not clearly better than {best}, the best reference: {by} {better}, "
            f"and that may be chance; --model {best} would do as well."
        )

    def _crps(self, best: str) -> str:
        """In which unit the gain is easier to grasp."""
        ours, theirs = self.scores[self.model].crps, self.scores[best].crps
        change = 100 * (1.0 - ours / theirs) if theirs > 0 else 0.0
        return f" (CRPS {change:.1f} % lower)" if change >= 0.05 else ""

    def leaning(self) -> str | None:
        """One sentence: how far the safety net leans on the network; None without a net."""
        if self.weights is None:
            return None
        others = sorted((item for item in self.weights.items() if item[0] != self.model), key=lambda i: -i[1])
        parts = [f"{100 * self.weights[self.model]:.0f} % on the network"]
        parts += [f"{100 * share:.0f} % on {name}" for name, share in others if share >= _NAMED]
        return f"Its safety net leaned {', '.join(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """In plain JSON values."""
        return {
            "labels": self.labels,
            "scores": {
                name: {score: finite(value) for score, value in one._asdict().items()}
                for name, one in self.scores.items()
            },
            "verdict": self.verdict(),
            "weights": self.weights,
        }


def judge(
    model: str, records: Mapping[str, Records], *, delay: int = 1, weights: dict[str, float] | None = None
) -> Judgement:
    """Score a model and the references on the same held-out rows.

    Args:
        model: the one in question.
        records: of one seed each [1, N], by name.
        delay: of the labels, in steps.
        weights: what `mean_weights` gave for it.
    """
    own = records[model]
    labelled = ~np.isnan(own.y)
    week, blocks = _blocks(own.time[labelled], delay)
    nll = {name: _worst(one.steps["nll"][0, labelled]) for name, one in records.items()}
    with np.errstate(invalid="ignore"):  # infinity minus infinity, where both broke down
        differences = {name: paired(nll[name] - nll[model], week) for name in records if name != model}
    ordered = {model: own} | {name: one for name, one in records.items() if name != model}
    scores = {name: _score(one) for name, one in ordered.items()}
    return Judgement(model, int(labelled.sum()), scores, differences, blocks, weights)


def _score(records: Records) -> Score:
    row = seed_scores(records)[0]
    return Score(row["nll_mean"], row["crps_mean"], row["mse_mean"], row["coverage_90"])


def _blocks(time: np.ndarray, delay: int) -> tuple[np.ndarray, str]:
    """The block of each label [N]: calendar weeks if there are enough, else pieces of equal length."""
    week = weeks(time)
    if time.dtype.kind == "M" and len(np.unique(week)) >= _FEWEST_WEEKS:
        return week, "weeks"
    times, place = np.unique(time, return_inverse=True)
    count = min(max(len(times) // max(_SHORTEST, 2 * delay), 1), _BLOCKS)
    return place * count // len(times), "blocks"


def _worst(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.inf).astype(float)
