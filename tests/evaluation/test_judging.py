"""Whether a model is worth having, in numbers and in one sentence."""

import json

import numpy as np
import pytest

from latenttrack.evaluation.judging import judge
from latenttrack.evaluation.records import FIELDS, Records

N = 24 * 7 * 12
HOURS = np.datetime64("2024-01-01T00", "ns") + np.arange(N) * np.timedelta64(1, "h")
NOISE = np.random.default_rng(0).normal(size=N)
NOISE -= NOISE.mean()


def records(name, nll, rows=N, clock=True):
    """Made-up forecasts whose NLL is as given."""
    steps = {field: np.full((1, rows), 0.5) for field in FIELDS}
    steps["nll"] = np.broadcast_to(nll, (rows,))[None].astype(float)
    time = HOURS[:rows] if clock else np.arange(rows, dtype=float)
    return Records(name, time, np.zeros(rows, int), ("",), "power", np.zeros(rows), steps)


def judged(ours, theirs, rows=N, clock=True, **options):
    both = {"net": records("net", ours, rows, clock), "rls": records("rls", theirs, rows, clock)}
    return judge("net", both, **options)


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (1.0, 1.2 + 0.1 * NOISE, "net is worth having: 0.200 ± 0.00"),
        (1.2 + 0.1 * NOISE, 1.0, "net is not worth having here: rls is 0.200"),
        (
            1.0,
            1.01 + NOISE,
            "not clearly better than rls, the best reference: 0.010",
        ),
        (np.where(np.arange(N) == 7, np.inf, 1.0), 1.0, "net failed"),
    ],
)
def test_one_sentence(ours, theirs, said):
    assert said in judged(ours, theirs).verdict()


def test_the_gain_in_the_labels_own_unit():
    both = {"net": records("net", 1.0), "rls": records("rls", 1.2 + 0.1 * NOISE)}
    both["net"].steps["crps"] *= 0.9
    assert "the best reference (CRPS 10.0 % lower), and ahead" in judge("net", both).verdict()


def test_weeks_won_are_counted():
    verdict = judged(1.0, 1.2 + 0.1 * NOISE).verdict()
    assert verdict.endswith("the best reference, and ahead in 12 of 12 weeks.")


@pytest.mark.parametrize(
    ("rows", "delay", "clock", "blocks"),
    [(24 * 21, 1, True, 20), (60, 1, True, 5), (240, 30, False, 4), (20, 1, False, 1)],
)
def test_where_weeks_are_few_blocks_take_their_place(rows, delay, clock, blocks):
    """Long enough that labels which are due together stand together."""
    judgement = judged(1.0, 2.0 + NOISE[:rows], rows, clock, delay=delay)
    assert (judgement.paired["rls"].weeks, judgement.blocks) == (blocks, "blocks")
    assert ("cannot tell" in judgement.verdict()) == (blocks == 1)


def test_the_best_reference_is_the_one_that_counts():
    three = {name: records(name, nll) for name, nll in (("naive", 3.0), ("net", 1.0), ("rls", 2.0))}
    judgement = judge("net", three)
    assert (judgement.best, list(judgement.scores)) == ("rls", ["net", "naive", "rls"])
    assert judge("net", {"net": three["net"]}).best is None


def test_labels_that_are_missing_do_not_count():
    ours = records("net", np.where(np.arange(N) < 99, np.nan, 1.0))
    ours.y[:99] = np.nan
    judgement = judge("net", {"net": ours})
    assert (judgement.labels, judgement.scores["net"].nll) == (N - 99, 1.0)


def test_how_far_the_net_leans_on_the_network():
    weights = {"net": 0.7, "last-label": 0.01, "rls": 0.09, "rls-t": 0.2}
    judgement = judged(1.0, 2.0, weights=weights)
    assert judgement.leaning() == "Its safety net leaned 70 % on the network, 20 % on rls-t, 9 % on rls."
    assert judged(1.0, 2.0).leaning() is None
    assert json.loads(json.dumps(judgement.to_dict()))["weights"] == weights
