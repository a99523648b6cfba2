"""Choices by name: what is meant, or one sentence that says what there is."""

import difflib
from collections.abc import Collection, Mapping
from typing import TypeVar

from latenttrack.errors import LatentTrackError

T = TypeVar("T")


def choose(kind: str, name: str, table: Mapping[str, T]) -> T:
    """The entry called `name`; `kind` says what it is, for the message."""
    if name not in table:
        raise LatentTrackError(f"there is no {kind} {name!r}{suggest(name, table)}")
    return table[name]


def suggest(word: str, known: Collection[str]) -> str:
    """The end of a sentence: a guess at what was meant, and what there is."""
    close = difflib.get_close_matches(str(word), known, n=1)
    guess = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{guess} Choose from: {', '.join(known)}" if known else "; it has none"
