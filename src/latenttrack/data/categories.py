"""Columns of text as inputs: for each common kind one of 0 and 1, called COLUMN=KIND.

A rare kind, or one that was never seen, is 0 in all of them; where the text is missing they are too.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from latenttrack.data.columns import MISSING
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


def spread(table: Table, categories: Categories) -> Table:
    """The table with 0 and 1 for each kind in place of the columns of text."""
    columns, kinds = {}, dict(categories)
    for name, values in table.columns.items():
        if name not in kinds:
            columns[name] = values
            continue
        # A column without any text was read as numbers, all of them missing.
        texts = values if values.dtype.kind == "O" else np.where(values == values, "?", "")
        for kind in kinds[name]:
            columns[indicator(name, kind)] = np.where(texts == "", math.nan, texts == kind)
    return replace(table, columns=columns)


def spread_event(x: Mapping[str, Any], categories: Categories) -> tuple[dict[str, Any], list[str]]:
    """The same for one row by name, and flags; numbers that stand for kinds already are left as they are."""
    row, flags = dict(x), []
    for name, kinds in categories:
        if name not in row:
            continue
        value = row.pop(name)
        missing = value is None or value != value or (isinstance(value, str) and value in MISSING)
        if not missing and value not in kinds:
            flags.append(f"unknown-kind:{name}")
        row |= {indicator(name, kind): math.nan if missing else float(value == kind) for kind in kinds}
    return row, flags
