"""Settings are checked before anything is built from them, by the annotations of the builder that takes them.

A whole number is a size or a count, a tuple of them the widths of layers; what a real number may be depends
on its name.
"""

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from latenttrack.data.matching import unknown_name
from latenttrack.errors import LatentTrackError

# What a setting must be, in words and as a test.
_Rule = tuple[str, Callable[[Any], bool]]

_SHARE: _Rule = ("a number from 0 to below 1", lambda v: _is_real(v) and 0 <= v < 1)
_POSITIVE: _Rule = ("a positive number", lambda v: _is_real(v) and v > 0)
_FINITE: _Rule = ("a finite number", lambda v: _is_real(v))
_SIZE: _Rule = ("a whole number of at least 1", lambda v: _is_size(v))
_WIDTHS: _Rule = (
    "a tuple of layer widths, each a whole number of at least 1",
    lambda v: isinstance(v, tuple) and all(map(_is_size, v)),
)

_REAL: dict[str, _Rule] = {
    "rate": _SHARE,
    "summary_dropout": _SHARE,
    "hidden_dropout": _SHARE,
    "initial_sd": _POSITIVE,
    "generator_gain": _POSITIVE,
    "prior_log_sd": _FINITE,
    "weight": ("a number from 0 to 1", lambda v: _is_real(v) and 0 <= v <= 1),
    "forgetting": ("a number above 0 and at most 1", lambda v: _is_real(v) and 0 < v <= 1),
}
_BY_ANNOTATION: dict[Any, _Rule] = {
    int: _SIZE,
    int | None: ("a whole number of at least 1, or None", lambda v: v is None or _is_size(v)),
    bool: ("True or False", lambda v: isinstance(v, bool)),
    str: ("a name", lambda v: isinstance(v, str)),
}


def check_settings(model: str, builder: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuse settings that a builder does not have, and values that it could not build from.

    Args:
        model: the model's name, for the message.
        builder: its keyword arguments are the settings; task, key and what the registry fixes are not.
        settings: what the user gave.
    """
    parameters = inspect.signature(builder).parameters
    known = [name for name in parameters if name not in ("task", "key", "structured")]
    for name, value in settings.items():
        if name not in known:
            raise unknown_name(f"{model} setting", name, known)
        _check(model, name, value, _rule(name, parameters[name].annotation))


def check_scale(model: str, value: Any) -> None:
    """Refuse an `anchor_scale` by which nothing can be divided."""
    _check(model, "anchor_scale", value, _POSITIVE)


def check_safety_net(model: str, names: Any, references: Sequence[str]) -> None:
    """Refuse a `safety_net` that is not a tuple of references, each once and not the model itself."""
    rule: _Rule = ("a tuple of references, at least one", lambda v: isinstance(v, tuple) and len(v) > 0)
    _check(model, "safety_net", names, rule)
    for name in names:
        if name not in references:
            raise unknown_name("safety net", str(name), references)
    if len({model, *names}) != 1 + len(names):
        raise LatentTrackError(
            f"the safety net of {model} names a member twice: give each once, without {model}"
        )


def check_pool(model: str, value: Any) -> None:
    """Refuse a `pool` that is neither None nor a number of networks to mix."""
    rule: _Rule = ("a whole number of at least 2, or None", lambda v: v is None or (_is_size(v) and v >= 2))
    _check(model, "pool", value, rule)


def check_plain(model: str, anchor: Any, informant: Any, pool: Any, correct: bool) -> None:
    """Refuse a reference that is to lean on another, to be mixed with its like, or to be corrected."""
    if (anchor, informant, pool, correct) != (None, None, None, False):
        raise LatentTrackError(
            f"{model!r} is a reference itself and takes no anchor, informant, pool or correction: "
            "leave it out"
        )


def check_shown(model: str, setting: str, value: Any, informant: Any, inputs: Sequence[str]) -> None:
    """Refuse a `shown` that is neither None nor names of inputs, each once, or that leaves some to nobody."""
    rule: _Rule = ("None, or names of inputs, each once", lambda v: v is None or _are_distinct(v, inputs))
    _check(model, setting, value, rule)
    if value is not None and informant is None:
        raise LatentTrackError(
            f"{model} is shown some of the inputs, and no informant hears the others: give an informant too"
        )


def check_flag(model: str, setting: str, value: Any) -> None:
    """Refuse a setting such as `recalibrate` that is neither on nor off."""
    _check(model, setting, value, _BY_ANNOTATION[bool])


_TRANSFORM: dict[str, _Rule] = {
    "loc": _FINITE,
    "scale": _POSITIVE,
    "offset": _POSITIVE,
    "low": _FINITE,
    "high": _FINITE,
    "centre": _FINITE,
    "spread": _POSITIVE,
}


def check_transform(model: str, value: Any, kinds: Collection[str]) -> None:
    """Refuse a `transform` that is not None and does not describe a curve of one of the kinds."""
    if value is None:
        return
    fields = {"kind", *_TRANSFORM}
    rule: _Rule = (
        f"None or what `fit_transform` returns ({', '.join(sorted(fields))})",
        lambda v: isinstance(v, Mapping) and set(v) == fields,
    )
    _check(model, "transform", value, rule)
    if value["kind"] not in kinds:
        raise unknown_name("transform", str(value["kind"]), kinds)
    for name, rule in _TRANSFORM.items():
        _check(model, f"transform.{name}", value[name], rule)
    if value["high"] <= value["low"]:
        raise LatentTrackError(f"{model} setting 'transform' has low at or above high: exchange them")


def check_prior(model: str, value: Any) -> None:
    """Refuse a `recalibrate_prior` that is not a positive number of pseudo-counts."""
    _check(model, "recalibrate_prior", value, _POSITIVE)


def check_start(model: str, name: str, values: Any, count: int) -> None:
    """Refuse first weights or counts that are not as many, or not all positive or zero."""
    rule: _Rule = (
        f"{count} numbers, none of them negative",
        lambda v: v is None or (len(v) == count and all(_is_real(each) and each >= 0 for each in v)),
    )
    _check(model, name, values, rule)


def _check(model: str, name: str, value: Any, rule: _Rule) -> None:
    words, holds = rule
    if not holds(value):
        raise LatentTrackError(f"{model} setting {name!r} is {value!r}: give {words}")


def _rule(name: str, annotation: Any) -> _Rule:
    if annotation is float:
        return _REAL[name]
    if annotation in _BY_ANNOTATION:
        return _BY_ANNOTATION[annotation]
    if name == "predictor":  # without a hidden layer the generated predictor is linear
        return _WIDTHS
    return (f"{_WIDTHS[0]}, at least one", lambda v: _WIDTHS[1](v) and len(v) > 0)


def _are_distinct(values: Any, known: Sequence[str]) -> bool:
    """Whether values are some of the known ones, each once; they may come from a forged file."""
    named = isinstance(values, tuple | list) and all(isinstance(value, str) for value in values)
    return named and len({*values} & {*known}) == len(values)


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
