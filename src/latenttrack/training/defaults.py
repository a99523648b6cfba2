"""How each model is trained unless told otherwise."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from latenttrack.data.matching import unknown_name
from latenttrack.errors import LatentTrackError
from latenttrack.models.registry import DETERMINISTIC, REFERENCES, STATIC
from latenttrack.training.settings import Training

OBJECTIVE_OF = {
    "vrnn": "elbo",
    "dssm": "elbo",
    "mc-dropout": "nll",
    "bbb": "static-elbo",
    "deep-ensemble": "nll",
    "lt-deterministic": "nll",
    "gru": "nll",
}


def default_training(name: str, changes: Mapping[str, Any] | None = None) -> Training:
    """The settings for a model by its registry name.

    Many short sequences in parallel, every step counts alike, and the newest part decides when to stop.

    Args:
        name: the model.
        changes: settings that should differ from the defaults.
    """
    chosen: dict[str, Any] = {
        "objective": OBJECTIVE_OF.get(name, "prior-predictive"),
        "window": 64,
        "sequences": 32,
        "offsets": name not in STATIC,
        "epochs": 30,
        "recency": 1.0,
        "beta_warmup": 100,
        "learning_rate": 3e-3,
        "cosine": True,
        "weight_ema": 0.99,
        "validation": 0.15,
        "patience": 8,
    }
    known = [f.name for f in fields(Training)]
    for setting in changes or {}:
        if setting not in known:
            raise unknown_name("training setting", setting, known)
    return Training(**(chosen | dict(changes or {})))


def check_objective(name: str, objective: str) -> None:
    """Refuse an objective that means nothing for a model.

    The ELBO's KL is that of one step, the static ELBO's that of all weights, spread over all steps.
    """
    if name in REFERENCES:  # they are not trained
        return
    if objective == "elbo" and name in (*STATIC, *DETERMINISTIC):
        raise LatentTrackError(
            f"objective 'elbo' is for models with a latent at each step, and {name} has none: "
            f"give {OBJECTIVE_OF[name]!r}"
        )
    if objective == "static-elbo" and name not in STATIC:
        others = "'nll'" if name in DETERMINISTIC else "'elbo' or 'prior-predictive'"
        raise LatentTrackError(
            f"objective 'static-elbo' is for models whose weights alone are uncertain, unlike {name}: "
            f"give {others}"
        )
