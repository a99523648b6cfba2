"""The capacity ledger: how many numbers each model learns, beside the paper's counts."""

import functools
from typing import Any

from latenttrack.data.jena import MEASUREMENTS
from latenttrack.evaluation.published import PARAMETERS
from latenttrack.models.capacity import capacity
from latenttrack.models.registry import MODELS, SUMMARIES, build
from latenttrack.models.task import Task
from latenttrack.training.presets import preset

# The paper's 13 inputs: nine measurements and the clock.
_CLOCK = ("day_sin1", "day_cos1", "week_sin1", "week_cos1")


def ledger() -> dict[str, dict[str, Any]]:
    """Total and inference-time parameters of every model, with the paper's presets and 13 inputs.

    Returns:
        name -> summary, total, inference, paper_total, paper_inference (None where the paper has no count).
    """
    task = Task((*MEASUREMENTS, *_CLOCK), period=24)
    rows = {}
    for name in MODELS:
        chosen = preset("paper", name)
        counts = capacity(functools.partial(build, chosen.model, task, **chosen.settings), task.size)
        paper_total, paper_inference = PARAMETERS.get(name, (None, None))
        rows[name] = {
            "summary": SUMMARIES[name],
            **counts._asdict(),
            "paper_total": paper_total,
            "paper_inference": paper_inference,
        }
    return rows
