"""Names that a user gives: what is meant, or one sentence that says what there is."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from latenttrack.errors import LatentTrackError

T = TypeVar("T")
_LONGEST = 60


def choose(what: str, name: str, table: Mapping[str, T]) -> T:
    """Look a name up.

    Args:
        what: the kind of thing that was asked for, for the message.
        name: the name that was given.
        table: everything of that kind by its name.

    Returns:
        The entry called `name`.
    """
    if name not in table:
        raise unknown_name(what, name, table)
    return table[name]


def unknown_name(what: str, name: str, known: Iterable[str]) -> LatentTrackError:
    """Build the error for a name that does not exist.

    Args:
        what: the kind of thing that was asked for, such as "column" or "stream".
        name: the name that was given.
        known: the names that exist.

    Returns:
        An error that names the culprit, the closest matches if any, and all the known names.
    """
    names = list(known)
    by_lower = {k.lower(): k for k in names}
    close = [by_lower[m] for m in get_close_matches(str(name).lower(), by_lower, n=3, cutoff=0.5)]
    hint = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
    choice = f"choose from {', '.join(map(repr, names))}" if names else "there is none at all"
    return LatentTrackError(f"there is no {what} {name!r}{hint}: {choice}.")


def shown(value: object) -> str:
    """A value that a user gave, short enough for a sentence, whatever it is."""
    try:
        return short(repr(value))
    except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
        return f"a {type(value).__name__}"


def short(text: str) -> str:
    """The beginning of a text that is too long for a sentence."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
