"""How each model is trained unless told otherwise."""

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from latenttrack.errors import LatentTrackError
from latenttrack.models.registry import STATIC
from latenttrack.training.settings import Training

_OBJECTIVES = {
    "vrnn": "elbo",
    "dssm": "elbo",
    "mc-dropout": "nll",
    "bbb": "static-elbo",
    "deep-ensemble": "nll",
}


def default_training(name: str, changes: Mapping[str, Any] | None = None) -> Training:
    """The settings for a model by its registry name.

    Many short sequences in parallel, every step counts alike, and the newest part decides when to stop.

    Args:
        name: the model.
        changes: settings that should differ from the defaults.
    """
    chosen: dict[str, Any] = {
        "objective": _OBJECTIVES.get(name, "prior-predictive"),
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
            close = difflib.get_close_matches(setting, known, n=1)
            guess = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}"
            raise LatentTrackError(f"training has no setting {setting!r}; {guess}")
    return Training(**(chosen | dict(changes or {})))
