"""How each model is trained unless told otherwise."""

from dataclasses import replace

from latenttrack.models.registry import STATIC
from latenttrack.training.settings import Training

# Many short sequences in parallel, every step counts alike, and the newest part decides when to stop.
_STATEFUL = Training(
    objective="prior-predictive",
    window=64,
    sequences=32,
    offsets=True,
    epochs=30,
    recency=1.0,
    learning_rate=3e-3,
    cosine=True,
    weight_ema=0.99,
    validation=0.15,
    patience=8,
)
_OBJECTIVES = {
    "vrnn": "elbo",
    "dssm": "elbo",
    "mc-dropout": "nll",
    "bbb": "static-elbo",
    "deep-ensemble": "nll",
}


def default_training(name: str) -> Training:
    """The settings for a model by its registry name."""
    objective = _OBJECTIVES.get(name, "prior-predictive")
    return replace(_STATEFUL, objective=objective, beta_warmup=100, offsets=name not in STATIC)
