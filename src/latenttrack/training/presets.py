"""Presets: features, model settings and training of each model, by family.

A family is a table from names to presets; a track (evaluation/tracks.py) names the family it is usually run
with. To vary an experiment, add a family or a line to one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from latenttrack.data.matching import choose, unknown_name
from latenttrack.models.registry import MODELS, REFERENCES, STATIC
from latenttrack.training.defaults import OBJECTIVE_OF
from latenttrack.training.settings import Training


@dataclass(frozen=True)
class Preset:
    """How one model is run.

    Attributes:
        model: its name in the registry, `TREES` or `POOLED`.
        features: choices for `data.prepare`.
        settings: the builder's, where they differ from its defaults.
        training: how it is trained; of no effect for a reference and for trees.
        suited: whether inputs and target transform are chosen from the data (training/suit.py) in place of
            `features`, and a network's settings and training as well (training/automatic.py).
        seeds: how many of a network are trained unless told otherwise.
    """

    model: str
    features: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Training = field(default_factory=Training)
    suited: bool = False
    seeds: int = 25


# Gradient-boosted trees: trained once, and no tracker (evaluation/trees.py).
TREES = "lightgbm"
# The seeds of latent-track as one model, which is what `latenttrack fit` gives: trained already.
POOLED = "latent-track-pooled"
# What the paper compares; in every family it keeps the paper's inputs.
PAPERS = ("lt-structured", "lt-unstructured", "vrnn", "dssm", *STATIC)

# Nine measurements, and sine and cosine of hour of day and day of week: the paper's 13 inputs.
_PAPER_FEATURES = {"calendar": {"day": 1, "week": 1}, "missing": False}


def paper(name: str) -> Preset:
    """As in the paper: ReLU networks, 100 independent draws, six epochs of Adam at 1e-4.

    Stateful models train on consecutive windows of 256 steps, static ones on windows moved by 32. With
    recency 0.9 the 161st newest step of a window weighs 0.9^160 = 5e-8, less than the last digit of the sum
    in single precision: static models leave the rest of the 256 steps out, and the result is the same.
    """
    if name in REFERENCES:
        # A reference is what a user would have instead: it does not let a broken sensor ruin it.
        return Preset(name, {**_PAPER_FEATURES, "clip": 6.0})
    if name not in PAPERS:
        return chosen(name)
    settings: dict[str, Any] = {"activation": "relu"}
    if name != "deep-ensemble":
        settings |= {"draws": "independent", "K": 100}
    objective = OBJECTIVE_OF.get(name, "elbo")
    if name in STATIC:
        training = Training(objective=objective, schedule="exact", window=160, stride=32, beta_warmup=4600)
    else:
        training = Training(objective=objective)
    return Preset(name, _PAPER_FEATURES, settings, training)


def chosen(name: str) -> Preset:
    """What the data asks for: the same inputs and transform for every model, and three seeds."""
    return Preset(name, suited=True, seeds=3)


def bounded(name: str) -> Preset:
    """The paper's models with tanh in place of ReLU; everything else as the data asks for."""
    if name not in PAPERS:
        return chosen(name)
    preset = paper(name)
    return replace(preset, settings={**preset.settings, "activation": "tanh"})


def _with_features(**features: Any) -> Callable[[str], Preset]:
    def make(name: str) -> Preset:
        preset = paper(name)
        return preset if preset.suited else replace(preset, features={**preset.features, **features})

    return make


FAMILIES: dict[str, Callable[[str], Preset]] = {
    "paper": paper,
    "bounded": bounded,
    "raw-target": _with_features(target=False),
    "raw": _with_features(standardise=False, clip=None),
}


def preset(family: str, name: str) -> Preset:
    """The preset of a model in a family; both by name."""
    known = (*MODELS, TREES, POOLED)
    if name not in known:
        raise unknown_name("model", name, known)
    return choose("family of presets", family, FAMILIES)(name)
