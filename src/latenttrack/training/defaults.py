"""How each model is trained unless told otherwise."""

from latenttrack.models.registry import STATIC
from latenttrack.training.settings import Training

_STATEFUL = Training(
    objective="prior-predictive",
    window=64,
    sequences=32,
    offsets=True,
    epochs=40,
    recency=1.0,
    learning_rate=3e-3,
    cosine=True,
    weight_ema=0.99,
    validation=0.15,
    patience=8,
)


def default_training(name: str) -> Training:
    """The settings for a model by its registry name."""
    return _STATEFUL
