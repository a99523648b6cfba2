"""Which of the paper's four claims hold in a run, judged from its `summary.json` (one part: from records).

The paper argues with the representative seed, except where it counts failures over seeds; so does this file.
Each claim is taken at its word: a model that another one beats on the criterion does not lead on it. A claim
whose models did not run, or that too few seeds ran for, is not judged.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from latenttrack.evaluation.records import Records

STRUCTURED, UNSTRUCTURED = "lt-structured", "lt-unstructured"
RIVALS = ("vrnn", "dssm")  # the stateful baselines
FEW_SEEDS = 5  # fewer say nothing about how often a model fails
TOLERANCE = 0.05  # coverage of the 90 % interval that far below 90 % is overconfident
SPIKE = 2.0  # a variance that many times its median is a response to an anomaly

_TYPICAL = {
    "nll_trimmed": "trimmed NLL",
    "nll_median": "median NLL",
    "nll_trimmed_median": "trimmed median NLL",
    "mse_trimmed": "trimmed MSE",
    "mse_median": "median MSE",
    "mse_trimmed_median": "trimmed median MSE",
}


class Claim(NamedTuple):
    """A claim of the paper, or a part of one that can be judged by itself."""

    number: str  # such as "3a"
    claim: str
    holds: bool | None  # None: cannot be judged in this run
    evidence: str


def judge(summary: Mapping[str, Any]) -> list[Claim]:
    """Judge the claims 1 to 4.

    Args:
        summary: the content of `summary.json`.

    Returns:
        The claims in the paper's order; whatever models and seeds the run has.
    """
    models = {name: entry for name, entry in summary["models"].items() if not entry["reference"]}
    rows = {name: seed_row(entry, summary["representative_seed"]) for name, entry in models.items()}
    return [
        _typical(models, rows),
        _ranks(models),
        _failures(models),
        _structured_is_sharper(rows),
        _unstructured_is_safer(models),
        _both_beat_the_rest(rows),
        _calibrated(rows),
        _not_overconfident(rows),
    ]


def judge_anomaly(records: Sequence[Records], rows: np.ndarray) -> Claim:
    """Judge the part of claim 4 about the composition of the variance at the anomaly.

    Args:
        records: of the models, one seed [1, N] each.
        rows: [M] anomalous rows; there may be none.
    """
    number = "4c"
    claim = (
        "At the anomaly the LT models' variance is mostly epistemic, that of VRNN and DSSM mostly aleatoric."
    )
    present = {entry.model: entry for entry in records}
    ours = [name for name in (STRUCTURED, UNSTRUCTURED) if name in present]
    theirs = [name for name in RIVALS if name in present]
    if not ours or not theirs:
        return Claim(number, claim, None, _needs(present, "an LT model", "VRNN or DSSM", known=bool(ours)))
    if len(rows) == 0:
        return Claim(number, claim, None, "Cannot be judged: the test part has no anomaly.")
    shares = {name: _share_at_spike(present[name], rows) for name in (*ours, *theirs)}
    if all(share is None for share in shares.values()):
        return Claim(number, claim, None, "Cannot be judged: no variance rises at the anomaly.")
    told = ", ".join(
        f"{name} {'does not rise' if share is None else _percent(share)}" for name, share in shares.items()
    )
    holds = all((share := shares[name]) is not None and share > 0.5 for name in ours) and all(
        (share := shares[name]) is not None and share < 0.5 for name in theirs
    )
    return Claim(number, claim, holds, f"Epistemic share of the largest variance there: {told}.")


def _share_at_spike(records: Records, rows: np.ndarray) -> float | None:
    """Epistemic share at the anomalous row of the largest total variance; None if it is not a spike."""
    epistemic = records.steps["epistemic"][0].astype(float)
    total = epistemic + records.steps["aleatoric"][0]
    row = rows[int(np.argmax(np.nan_to_num(total[rows], nan=-1.0, posinf=np.inf)))]
    if not np.isfinite(total[row]) or total[row] < SPIKE * np.nanmedian(total):
        return None
    return float(epistemic[row] / total[row])


def seed_row(entry: Mapping[str, Any], seed: int) -> dict[str, float]:
    """The scores of one model at the representative seed.

    Args:
        entry: `summary["models"][name]`.
        seed: taken modulo the model's number of seeds, because a reference has one only.

    Returns:
        Score -> value; infinite where the file has null: what is not finite is infinitely bad.
    """
    rows = entry["seeds"]
    return {
        name: math.inf if value is None else float(value) for name, value in rows[seed % len(rows)].items()
    }


def _typical(models: Mapping[str, Any], rows: Mapping[str, Mapping[str, float]]) -> Claim:
    number, claim = "1a", "LT-structured has the lowest trimmed and median NLL and MSE of all models."
    if len(rows) < 2 or STRUCTURED not in rows:
        return Claim(number, claim, None, _needs(rows, STRUCTURED, "a model to compare it with"))
    won = {score for score in _TYPICAL if _best(rows, score) == STRUCTURED}
    details = [_beside(rows, score, STRUCTURED) for score in ("nll_trimmed", "mse_trimmed")]
    evidence = f"It is first on {len(won)} of {len(_TYPICAL)} criteria: {'; '.join(details)}."
    seeds = len(models[STRUCTURED]["seeds"])
    if seeds > 1:
        medians = {name: median_over_seeds(entry, "nll_trimmed") for name, entry in models.items()}
        place = 1 + sum(value < medians[STRUCTURED] for value in medians.values())
        evidence += (
            f" Over {seeds} seeds the median of its trimmed NLL is {_show(medians[STRUCTURED])}, "
            f"number {place} of {len(medians)}."
        )
    return Claim(number, claim, len(won) == len(_TYPICAL), evidence)


def _ranks(models: Mapping[str, Any]) -> Claim:
    number, claim = "1b", "LT-structured is first, and first or second, at more steps than any other model."
    known = {name: entry["ranks"] for name, entry in models.items() if entry.get("ranks")}
    if len(known) < 2 or STRUCTURED not in known:
        return Claim(number, claim, None, _needs(known, STRUCTURED, "a model to compare it with"))
    holds, details = True, []
    for score in ("nll", "mse"):
        for share, words in (("first", "first"), ("first_or_second", "first or second")):
            values = {name: float(entry[score][share]) for name, entry in known.items()}
            ours = values.pop(STRUCTURED)
            rival = max(values, key=lambda name: values[name])
            holds &= ours > values[rival]
            details.append(
                f"{words} in {score.upper()} at {_percent(ours)} of steps ({rival} {_percent(values[rival])})"
            )
    return Claim(number, claim, holds, f"It is {'; '.join(details)}.")


def _failures(models: Mapping[str, Any]) -> Claim:
    number = "2"
    claim = "Both LT models fail catastrophically (largest NLL above 1e6) in fewer seeds than VRNN and DSSM."
    ours = [name for name in (STRUCTURED, UNSTRUCTURED) if name in models]
    theirs = [name for name in RIVALS if name in models]
    if not ours or not theirs:
        return Claim(number, claim, None, _needs(models, "an LT model", "VRNN or DSSM", known=bool(ours)))
    if (reason := _too_few(models, [*ours, *theirs])) is not None:
        return Claim(number, claim, None, reason)
    rates = {name: float(models[name]["failure_rate"]) for name in (*ours, *theirs)}
    evidence = f"Share of failing seeds: {_listed(rates, percent=True)}."
    if not any(rates.values()):
        return Claim(number, claim, None, f"None of these models fails in any seed. {evidence}")
    holds = max(rates[name] for name in ours) < min(rates[name] for name in theirs)
    return Claim(number, claim, holds, evidence)


def _structured_is_sharper(rows: Mapping[str, Mapping[str, float]]) -> Claim:
    number, claim = "3a", "LT-structured has lower trimmed and median NLL and MSE than LT-unstructured."
    if STRUCTURED not in rows or UNSTRUCTURED not in rows:
        return Claim(number, claim, None, _needs(rows, STRUCTURED, UNSTRUCTURED))
    scores = ("nll_trimmed", "nll_median", "mse_trimmed", "mse_median")
    pairs = [(score, rows[STRUCTURED][score], rows[UNSTRUCTURED][score]) for score in scores]
    details = [f"{_TYPICAL[score]} {_show(ours)} against {_show(theirs)}" for score, ours, theirs in pairs]
    return Claim(
        number, claim, all(ours < theirs for _, ours, theirs in pairs), f"{_capital('; '.join(details))}."
    )


def _unstructured_is_safer(models: Mapping[str, Any]) -> Claim:
    number, claim = "3b", "LT-unstructured fails catastrophically in fewer seeds than LT-structured."
    if STRUCTURED not in models or UNSTRUCTURED not in models:
        return Claim(number, claim, None, _needs(models, STRUCTURED, UNSTRUCTURED))
    if (reason := _too_few(models, [STRUCTURED, UNSTRUCTURED])) is not None:
        return Claim(number, claim, None, reason)
    rates = {name: float(models[name]["failure_rate"]) for name in (UNSTRUCTURED, STRUCTURED)}
    evidence = f"Share of failing seeds: {_listed(rates, percent=True)}."
    if not any(rates.values()):
        return Claim(number, claim, None, f"Neither fails in any seed. {evidence}")
    return Claim(number, claim, rates[UNSTRUCTURED] < rates[STRUCTURED], evidence)


def _both_beat_the_rest(rows: Mapping[str, Mapping[str, float]]) -> Claim:
    number, claim = "3c", "Both LT models are ahead of every baseline in trimmed and median NLL and MSE."
    baselines = {name: row for name, row in rows.items() if name not in (STRUCTURED, UNSTRUCTURED)}
    if STRUCTURED not in rows or UNSTRUCTURED not in rows or not baselines:
        return Claim(number, claim, None, _needs(rows, STRUCTURED, UNSTRUCTURED, "a baseline"))
    scores = ("nll_trimmed", "nll_median", "mse_trimmed", "mse_median")
    ahead, details = [], []
    for score in scores:
        worse = max((STRUCTURED, UNSTRUCTURED), key=lambda name: rows[name][score])
        rival = _best(baselines, score)
        ahead.append(rows[worse][score] < baselines[rival][score])
        details.append(
            f"{_TYPICAL[score]} {_show(rows[worse][score])} ({worse}) against "
            f"{_show(baselines[rival][score])} ({rival})"
        )
    evidence = f"The weaker LT model against the best baseline: {'; '.join(details)}."
    return Claim(number, claim, all(ahead), evidence)


def _calibrated(rows: Mapping[str, Mapping[str, float]]) -> Claim:
    number, claim = "4a", "LT-structured's PIT is closer to uniform than that of every baseline."
    rivals = {name: row for name, row in rows.items() if name not in (STRUCTURED, UNSTRUCTURED)}
    if STRUCTURED not in rows or not rivals:
        return Claim(number, claim, None, _needs(rows, STRUCTURED, "a baseline"))
    shown = {name: row["pit_ks"] for name, row in rows.items()}
    best = min(row["pit_ks"] for row in rivals.values())
    evidence = f"Distance of the PIT from uniform (Kolmogorov-Smirnov): {_listed(shown)}."
    return Claim(number, claim, rows[STRUCTURED]["pit_ks"] < best, evidence)


def _not_overconfident(rows: Mapping[str, Mapping[str, float]]) -> Claim:
    number = "4b"
    least = f"{100 * (0.9 - TOLERANCE):.0f} %"
    claim = f"The LT models are not overconfident: the 90 % interval holds at least {least} of the labels."
    ours = {name: rows[name]["coverage_90"] for name in (STRUCTURED, UNSTRUCTURED) if name in rows}
    if not ours:
        return Claim(number, claim, None, _needs(rows, "an LT model"))
    known = {name: value for name, value in ours.items() if math.isfinite(value)}
    holds = len(known) == len(ours) and min(known.values()) >= 0.9 - TOLERANCE
    return Claim(number, claim, holds, f"Labels inside the 90 % interval: {_listed(ours, percent=True)}.")


def _best(rows: Mapping[str, Mapping[str, float]], score: str) -> str:
    return min(rows, key=lambda name: rows[name][score])


def _beside(rows: Mapping[str, Mapping[str, float]], score: str, model: str) -> str:
    """A model's score beside the best of the others."""
    rival = _best({name: row for name, row in rows.items() if name != model}, score)
    return f"{_TYPICAL[score]} {_show(rows[model][score])}, best other {_show(rows[rival][score])} ({rival})"


def median_over_seeds(entry: Mapping[str, Any], score: str) -> float:
    """The median of a score of one model, `summary["models"][name]`; null counts as infinitely bad."""
    values = sorted(math.inf if row[score] is None else float(row[score]) for row in entry["seeds"])
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _needs(present: Mapping[str, Any], *needed: str, known: bool = False) -> str:
    """Say what is missing; `known` leaves out the first."""
    missing = [name for name in needed[1 if known else 0 :] if name not in present]
    return f"Cannot be judged: the run lacks {' or '.join(missing) or 'a model to compare with'}."


def _too_few(models: Mapping[str, Any], names: Sequence[str]) -> str | None:
    seeds = min(len(models[name]["seeds"]) for name in names)
    if seeds >= FEW_SEEDS:
        return None
    return f"Cannot be judged with {seeds} seed{'s' * (seeds > 1)}: failure rates need {FEW_SEEDS} or more."


def _listed(values: Mapping[str, float], percent: bool = False) -> str:
    return ", ".join(
        f"{name} {_percent(value) if percent else _show(value)}" for name, value in values.items()
    )


def _show(value: float) -> str:
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.3g}" if abs(value) >= 1000 else f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
