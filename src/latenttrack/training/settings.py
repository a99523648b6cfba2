"""How to train: one small dataclass, JSON-safe apart from an optional optimiser of your own."""

import functools
from dataclasses import dataclass, fields
from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from latenttrack.data.matching import unknown_name
from latenttrack.errors import LatentTrackError
from latenttrack.training.objectives import OBJECTIVES

SCHEDULES = ("chunk", "exact", "approx")


@dataclass(frozen=True)
class Training:
    """Settings of a training run; the defaults are the paper's for stateful models."""

    objective: str = "elbo"
    schedule: str = "chunk"
    window: int = 256  # W
    stride: int = 32  # S, for `exact` and `approx`
    epochs: int = 6
    sequences: int = 1  # about how many parallel pieces the streams are cut into, all streams together
    offsets: bool = False  # shift the windows by a random offset in each epoch

    recency: float = 0.9  # lambda
    surprise: float = 0.0  # alpha; 0 is fixed recency
    surprise_rate: float = 0.05  # of the running mean of NLL

    beta: float = 1.0
    beta_warmup: int = 575  # in optimiser updates

    learning_rate: float = 1e-4
    cosine: bool = False  # 3 % linear warm-up, then a cosine to 1 % of the learning rate
    clip: float = 1.0  # global gradient norm
    weight_ema: float = 0.0  # 0: use the last weights

    validation: float = 0.0  # newest share of the training part kept for early stopping; 0: none
    patience: int = 5  # epochs without improvement before a seed stops

    optimiser: optax.GradientTransformation | None = None  # replaces clipping and Adam altogether

    def __post_init__(self) -> None:
        for name, known in (("objective", OBJECTIVES), ("schedule", SCHEDULES)):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        for name in ("window", "stride", "epochs", "sequences", "patience"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise LatentTrackError(
                    f"{name} must be at least 1 and a whole number, but is {getattr(self, name)!r}"
                )
        if self.schedule != "chunk" and self.window % self.stride:
            raise LatentTrackError(
                f"schedule {self.schedule!r} rebuilds whole strides: make window ({self.window}) "
                f"a multiple of stride ({self.stride})"
            )
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise LatentTrackError(f"{name} must be positive, but is {getattr(self, name)}")
        for name in ("surprise", "surprise_rate", "beta", "beta_warmup"):
            if not getattr(self, name) >= 0:
                raise LatentTrackError(f"{name} must not be negative, but is {getattr(self, name)}")
        for name, low, high in (("recency", 0.0, 1.0), ("validation", 0.0, 0.9), ("weight_ema", 0.0, 1.0)):
            if not low <= getattr(self, name) <= high:
                raise LatentTrackError(
                    f"{name} must lie between {low} and {high}, but is {getattr(self, name)}"
                )

    def make_optimiser(self, updates: int | Float[Array, ""]) -> optax.GradientTransformation:
        """Clipping and Adam, or the optimiser given; `updates` is the planned number of steps."""
        if self.optimiser is not None:
            return self.optimiser
        rate: optax.ScalarOrSchedule = self.learning_rate
        if self.cosine:
            rate = functools.partial(_warm_up_and_cosine, self.learning_rate, jnp.asarray(updates))
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adam(rate))

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe record of the settings."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "optimiser"}
        return {**shown, "optimiser": "adam" if self.optimiser is None else "custom"}


def _warm_up_and_cosine(
    peak: float, updates: Float[Array, ""] | Int[Array, ""], count: Int[Array, ""]
) -> Float[Array, ""]:
    """Linear over the first 3 % of the updates, then half a cosine down to 1 % of the peak.

    `optax.warmup_cosine_decay_schedule` by hand, because that wants to know the number of updates when it is
    compiled, and a program for each length of training would have to be.
    """
    warm = jnp.maximum(updates * 3 // 100, 1)
    rest = jnp.maximum(updates, 2) - warm
    down = 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.clip((count - warm) / jnp.maximum(rest, 1), 0.0, 1.0)))
    return jnp.where(count < warm, peak * count / warm, peak * (0.01 + 0.99 * down))
