"""The paper's claims on summaries made by hand."""

import copy

import numpy as np
import pytest

from latenttrack.evaluation.claims import judge, judge_anomaly, median_over_seeds, seed_row
from latenttrack.evaluation.published import FAILURE_RATES, MODELS, PARAMETERS, TABLE, TRACKS
from latenttrack.evaluation.records import FIELDS, Records

NUMBERS = ["1a", "1b", "2", "3a", "3b", "3c", "4a", "4b"]


def entry(scores, *, seeds=25, failures=0.0, first=0.1, pit_ks=0.1, coverage=0.9):
    """A model with the same row at every seed; ranks are the same for NLL and MSE."""
    row = {
        f"{s}_{name}": scores[s] for s in ("nll", "mse") for name in ("trimmed", "median", "trimmed_median")
    }
    shares = {"first": first, "first_or_second": 1.5 * first}
    return {
        "reference": False,
        "seeds": [row | {"pit_ks": pit_ks, "coverage_90": coverage} for _ in range(seeds)],
        "failure_rate": failures,
        "ranks": {"nll": shares, "mse": shares},
    }


def as_the_paper_says():
    """A run in which every claim holds."""
    models = {
        "lt-structured": entry({"nll": 2.4, "mse": 6.0}, failures=0.12, first=0.6, pit_ks=0.02),
        "lt-unstructured": entry({"nll": 2.7, "mse": 16.0}, failures=0.04, first=0.2, pit_ks=0.03),
        "dssm": entry({"nll": 2.9, "mse": 45.0}, failures=0.2, first=0.15),
        "vrnn": entry({"nll": 3.4, "mse": 93.0}, failures=0.3, first=0.05),
    }
    reference = entry({"nll": 1.0, "mse": 0.8}, seeds=1)
    reference["reference"] = True
    del reference["ranks"]
    return {"representative_seed": 7, "models": {**models, "last-label": reference}}


def answers(summary):
    claims = judge(summary)
    assert [claim.number for claim in claims] == NUMBERS
    assert all(claim.claim.endswith(".") and claim.evidence.endswith(".") for claim in claims)
    return {claim.number: claim.holds for claim in claims}


def changed(**scores):
    """The run above with some numbers of LT-structured's rivals or of itself changed."""
    summary = copy.deepcopy(as_the_paper_says())
    for path, value in scores.items():
        model, score = path.split("__")
        target = summary["models"][model.replace("_", "-")]
        if score == "failure_rate":
            target[score] = value
        elif score.startswith("first"):
            target["ranks"]["nll"] = {"first": value, "first_or_second": value}
        else:
            for row in target["seeds"]:
                row[score] = value
    return summary


def test_a_run_like_the_papers():
    assert answers(as_the_paper_says()) == dict.fromkeys(NUMBERS, True)


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"dssm__mse_median": 5.9}, {"1a", "3c"}),
        ({"lt_unstructured__nll_trimmed": 2.39}, {"1a", "3a"}),
        ({"vrnn__first": 0.61}, {"1b"}),
        ({"dssm__failure_rate": 0.12}, {"2"}),  # not fewer than LT-structured's
        ({"lt_unstructured__failure_rate": 0.12}, {"3b"}),
        ({"dssm__nll_median": 2.65}, {"3c"}),  # ahead of one LT model only
        ({"dssm__pit_ks": 0.01}, {"4a"}),
        ({"lt_unstructured__pit_ks": 0.01}, set()),  # that is no baseline
        ({"lt_structured__coverage_90": 0.84}, {"4b"}),
        ({"lt_structured__coverage_90": None}, {"4b"}),
        ({"lt_structured__nll_trimmed": None}, {"1a", "3a", "3c"}),
        ({"last_label__nll_trimmed": 0.1}, set()),  # references do not compete
    ],
)
def test_one_number_changes_one_answer(change, broken):
    assert answers(changed(**change)) == {number: number not in broken for number in NUMBERS}


def test_evidence_names_the_winner_and_both_numbers():
    claim = judge(changed(dssm__nll_trimmed=2.31))[0]
    assert claim.evidence == (
        "It is first on 5 of 6 criteria: trimmed NLL 2.40, best other 2.31 (dssm); trimmed MSE 6.00, best "
        "other 16.00 (lt-unstructured). Over 25 seeds the median of its trimmed NLL is 2.40, number 2 of 4."
    )


def test_without_failures_nobody_fails_less():
    summary = changed(
        **{f"{name}__failure_rate": 0.0 for name in ("lt_structured", "lt_unstructured", "dssm", "vrnn")}
    )
    found = answers(summary)
    assert found["2"] is None
    assert found["3b"] is None


def test_few_seeds_say_nothing_about_failures():
    summary = as_the_paper_says()
    for model in summary["models"].values():
        model["seeds"] = model["seeds"][:2]
    found = {claim.number: claim for claim in judge(summary)}
    assert found["2"].holds is None
    assert found["2"].evidence == "Cannot be judged with 2 seeds: failure rates need 5 or more."
    assert found["1a"].holds is True


@pytest.mark.parametrize(
    ("kept", "judged"),
    [
        (("lt-structured",), {"4b"}),
        (("lt-unstructured", "dssm"), {"2", "4b"}),
        (("dssm", "vrnn"), set()),
        (("lt-structured", "lt-unstructured"), {"1a", "1b", "3a", "3b", "4b"}),
        ((), set()),
    ],
)
def test_missing_models_are_named_not_fatal(kept, judged):
    summary = as_the_paper_says()
    summary["models"] = {name: m for name, m in summary["models"].items() if name in kept or m["reference"]}
    claims = judge(summary)
    assert {claim.number for claim in claims if claim.holds is not None} == judged
    assert all("the run lacks" in claim.evidence for claim in claims if claim.holds is None)


def test_rows_and_medians():
    model = {"seeds": [{"a": 1.0}, {"a": 5.0}, {"a": None}, {"a": 2.0}]}
    assert seed_row(model, 5) == {"a": 5.0}
    assert seed_row(model, 2) == {"a": float("inf")}
    assert median_over_seeds(model, "a") == 3.5
    assert median_over_seeds({"seeds": model["seeds"][:3]}, "a") == 5.0


def records(model, *, epistemic, aleatoric):
    """Ten calm steps of variance 1 + 1, and one with the given parts at row 4."""
    steps = {name: np.ones((1, 10), np.float32) for name in FIELDS}
    steps["epistemic"][0, 4], steps["aleatoric"][0, 4] = epistemic, aleatoric
    return Records(model, np.arange(10.0), np.zeros(10, np.int32), ("",), "y", np.ones(10), steps)


def test_composition_at_the_anomaly():
    ours, theirs = (
        records("lt-structured", epistemic=90, aleatoric=10),
        records("dssm", epistemic=1, aleatoric=99),
    )
    rows = np.array([3, 4])
    claim = judge_anomaly([ours, theirs], rows)
    assert claim.holds is True
    assert (
        claim.evidence == "Epistemic share of the largest variance there: lt-structured 90.0 %, dssm 1.0 %."
    )
    assert judge_anomaly([records("lt-structured", epistemic=1, aleatoric=9), theirs], rows).holds is False
    calm = records("vrnn", epistemic=1, aleatoric=1)
    mixed = judge_anomaly([ours, calm], rows)
    assert mixed.holds is False
    assert "vrnn does not rise" in mixed.evidence
    assert judge_anomaly([records("lt-structured", epistemic=1, aleatoric=1), calm], rows).holds is None
    assert judge_anomaly([ours, theirs], np.arange(0)).holds is None
    assert judge_anomaly([ours], rows).holds is None


def test_published_numbers():
    assert set(TABLE) == set(MODELS) == set(PARAMETERS)
    assert TABLE["dssm"]["mse_trimmed"] == 45.29
    assert TABLE["lt-unstructured"]["nll_mean"] == 1.22e10
    assert TABLE["bbb"]["nll_first_or_second"] == 0.074
    assert PARAMETERS["mc-dropout"] == (19_112, 19_112)
    assert FAILURE_RATES == {"lt-structured": 0.12, "lt-unstructured": 0.04}
    assert TRACKS == ("paper", "paper-clean")
    for score in ("nll", "mse"):
        # One model is first at each step: the shares are of the same whole, up to rounding.
        assert sum(row[f"{score}_first"] for row in TABLE.values()) == pytest.approx(1.0, abs=0.005)
        assert sum(row[f"{score}_first_or_second"] for row in TABLE.values()) == pytest.approx(2.0, abs=0.005)
