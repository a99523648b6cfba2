"""Dates with slashes: 31/01/2024 and 01/31/2024 are told apart where a day is beyond 12, and only there."""

import re
from collections.abc import Sequence

_SLASHED = re.compile(
    r"(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>\d{4})"
    r"(?:,? (?P<hour>\d{1,2})(?P<rest>:\d\d(?::\d\d)?)(?: ?(?P<half>[AaPp])[Mm])?)?"
)
_LAST_MONTH = 12


def is_slashed(text: str) -> bool:
    """Whether a text is a date with slashes, of either order."""
    return _SLASHED.fullmatch(text) is not None


def unslashed(texts: Sequence[str]) -> list[str] | None:
    """Dates with slashes as ISO 8601 has them.

    Args:
        texts: N dates, with or without a time of day; others, and empty ones, are left as they are.

    Returns:
        N texts; None where no day is beyond 12, or days stand on both sides.
    """
    matches = [_SLASHED.fullmatch(text) for text in texts]
    day_first, month_first = (
        any(int(match[part]) > _LAST_MONTH for match in matches if match) for part in ("first", "second")
    )
    if day_first == month_first:
        return None
    day, month = ("first", "second") if day_first else ("second", "first")
    return [
        f"{match['year']}-{match[month]:0>2}-{match[day]:0>2}{_clock(match)}" if match else text
        for match, text in zip(matches, texts, strict=True)
    ]


def _clock(match: re.Match[str]) -> str:
    """Such as " 18:05"; of 6:05 PM too."""
    if match["hour"] is None:
        return ""
    hour = int(match["hour"])
    if match["half"] and 1 <= hour <= 12:  # 18:05 PM is what some programs write for 6:05 PM
        hour = hour % 12 + 12 * (match["half"] in "Pp")
    return f" {hour:02}{match['rest']}"
