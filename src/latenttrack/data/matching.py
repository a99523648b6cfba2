"""Names that a user mistyped, and what was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches

from latenttrack.errors import LatentTrackError


def unknown_name(what: str, name: str, known: Iterable[str]) -> LatentTrackError:
    """Build the error for a name that does not exist.

    Args:
        what: the kind of thing that was asked for, such as "column" or "stream".
        name: the name that was given.
        known: the names that exist.

    Returns:
        An error that names the culprit, the closest matches if any, and all the known names.
    """
    by_lower = {k.lower(): k for k in known}
    close = [by_lower[m] for m in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    hint = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
    names = ", ".join(map(repr, by_lower.values())) or "none at all"
    return LatentTrackError(f"there is no {what} {name!r}{hint}: there is {names}.")
