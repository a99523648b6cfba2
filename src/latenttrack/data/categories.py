"""Columns of text as inputs: for each common kind one of 0 and 1, called COLUMN=KIND.

A rare kind, or one that was never seen, is 0 in all of them; where the text is missing they are too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np

from latenttrack.data.columns import MISSING, from_text
from latenttrack.data.tables import Table

# Columns, and what is common in each.
Categories = tuple[tuple[str, tuple[str, ...]], ...]
_MOST = 8  # kinds of a column
_RARE = 0.01  # share of the rows that a kind must have
_COVERED = 0.9  # share of the rows that common kinds must have together: else it is free text


def indicator(column: str, kind: str) -> str:
    """The name of the input that says whether a text is of a kind."""
    return f"{column}={kind}"


def find_kinds(texts: np.ndarray) -> tuple[str, ...]:
    """The common kinds of a column of text [N], the most common first; () if it has none to tell apart."""
    known = texts[texts != ""].astype(str)
    kinds, counts = np.unique(known, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST]
    order = order[counts[order] >= _RARE * len(known)]
    if len(order) < 2 or counts[order].sum() < _COVERED * len(known):
        return ()
    return tuple(kinds[order].tolist())


def used(categories: Categories, inputs: Sequence[str]) -> Categories:
    """Those of which at least one kind is an input; the others are not needed to read a row."""
    return tuple(
        (name, kinds) for name, kinds in categories if any(indicator(name, kind) in inputs for kind in kinds)
    )


def kind_of(value: object, kinds: tuple[str, ...]) -> str | None:
    """Which kind a value of a file or an event is: "" if it is missing, None if it is none of them.

    A number is the kind that reads as it: of the kinds 1, 2 and A a file may hold the first two only, and is
    then read as numbers.
    """
    if isinstance(value, str):
        value = value.strip()
        return "" if value in MISSING else value if value in kinds else None
    if isinstance(value, Real):
        return "" if value != value else next((kind for kind in kinds if _number(kind) == value), None)
    return "" if value is None else None


@lru_cache(maxsize=256)
def _number(kind: str) -> float | None:
    """What a kind would be in a column of numbers; None if it is text anywhere."""
    (value,) = from_text([kind], decimal_comma=True).tolist()
    return value if isinstance(value, float) else None


def spread(table: Table, categories: Categories) -> Table:
    """The table with 0 and 1 for each kind in place of the columns of text."""
    columns, kinds = {}, dict(categories)
    for name, values in table.columns.items():
        if name not in kinds:
            columns[name] = values
            continue
        found = np.array([kind_of(value, kinds[name]) for value in values.tolist()], object)
        for kind in kinds[name]:
            columns[indicator(name, kind)] = np.where(found == "", math.nan, found == kind)
    return replace(table, columns=columns)


def spread_event(x: Mapping[str, Any], categories: Categories) -> tuple[dict[str, Any], list[str]]:
    """The same for one row by name, and flags; numbers that stand for kinds already are left as they are."""
    row, flags = dict(x), []
    for name, kinds in categories:
        if name not in row:
            continue
        found = kind_of(row.pop(name), kinds)
        if found is None:
            flags.append(f"unknown-kind:{name}")
        row |= {indicator(name, kind): math.nan if found == "" else float(found == kind) for kind in kinds}
    return row, flags
