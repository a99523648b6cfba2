"""Times of the day in a column of their own, beside one of dates: 17:24, 17:24:00, 18.00.00, 5:24 PM."""

import re

import numpy as np

from latenttrack.errors import LatentTrackError

_TIME = re.compile(
    r"\s*(?P<hour>\d{1,2})(?P<mark>[:.])(?P<minute>[0-5]\d)(?:(?P=mark)(?P<second>[0-5]\d)(?:[.,]\d*)?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?\s*"
)
_NOON = 12
_SECOND = np.timedelta64(1_000_000_000, "ns")
_DAY = 86_400


def times_of_day(texts: np.ndarray, name: str, numbers: np.ndarray) -> np.ndarray:
    """[N] how far into its day each time is, in whole seconds; 24:00 is the midnight that ends it.

    Args:
        texts: [N] of a column, as the file has them.
        name: of the column.
        numbers: [N] of the rows, as people count them.

    Raises:
        LatentTrackError: names the first row that has no such time.
    """
    distinct, place = np.unique(texts.astype(str), return_inverse=True)  # a day has few of them
    seconds = np.array([_seconds(text) for text in distinct.tolist()])[place]
    if np.any(seconds < 0):
        row = int(np.argmax(seconds < 0))
        found = f"holds {str(texts[row])!r}" if str(texts[row]).strip() else "is empty"
        raise LatentTrackError(
            f"column {name!r} {found} in row {numbers[row]}: "
            "give times of the day such as 17:24 or 17:24:00, or remove the row."
        )
    return seconds * _SECOND


def is_time_of_day(text: str) -> bool:
    """Whether a text is one, and no number: 17.24 is."""
    return _seconds(text) >= 0


def _seconds(text: str) -> int:
    """Since the day began; -1 for what is no time of the day."""
    match = _TIME.fullmatch(text)
    if match is None:
        return -1
    hour = int(match["hour"])
    if match["half"]:
        if not 1 <= hour <= _NOON:
            return -1
        hour = hour % _NOON + _NOON * (match["half"] in "Pp")
    seconds = 3600 * hour + 60 * int(match["minute"]) + int(match["second"] or 0)
    return seconds if seconds <= _DAY else -1
