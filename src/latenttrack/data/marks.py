"""Marks inside numbers: where the comma may be the decimal mark, a point may be that of thousands."""

import re
from collections.abc import Sequence

_GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?\s*")
_SHORT = re.compile(r"\s*[+-]?\d{1,3}\s*")


def with_points(texts: Sequence[str]) -> list[str]:
    """Numbers with a decimal comma as others write them; points go if all of them may mark thousands."""
    plain = [text.replace(".", "") for text in texts] if may_mark_thousands(texts) else texts
    return [text.replace(",", ".") for text in plain]


def may_mark_thousands(texts: Sequence[str]) -> bool:
    """Whether a column of numbers has points, and three digits after each of them: 1.100, but not 0.125."""
    pointed = [text for text in texts if "." in text]
    return bool(pointed) and all(map(_GROUPED.fullmatch, pointed))


def tells_marks(texts: Sequence[str]) -> bool:
    """Whether a column of numbers can only be read if points mark thousands: 1,5 or 1.100.000."""
    return any("," in text or text.count(".") > 1 for text in texts)


def first_doubtful(texts: Sequence[str], missing: frozenset[str]) -> str | None:
    """The first number with a point in a column that may be of whole thousands; None if it cannot be."""
    known = [text for text in texts if text not in missing]
    if may_mark_thousands(known) and all("." in text or _SHORT.fullmatch(text) for text in known):
        return next(text for text in known if "." in text)
    return None
