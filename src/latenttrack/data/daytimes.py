"""Times of the day in a column of their own, beside one of dates: 17:24, 17:24:00, 18.00.00, 5:24 PM."""

import re

import numpy as np

from latenttrack.errors import LatentTrackError

_TIME = re.compile(
    r"(?P<hour>\d{1,2})(?P<mark>[:.])(?P<minute>[0-5]\d)"
    r"(?:(?P=mark)(?P<second>[0-5]\d)(?:[.,](?P<part>\d{1,9}))?)?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_NOON = 12
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_NONE = -1


def times_of_day(texts: np.ndarray, name: str, numbers: np.ndarray) -> np.ndarray:
    """[N] how far into its day each time is, timedelta64[ns]; 24:00 is the midnight that ends it.

    Args:
        texts: [N] of a column, as the file has them.
        name: of the column.
        numbers: [N] of the rows, as people count them.

    Raises:
        LatentTrackError: names the first row that has no such time.
    """
    distinct, place = np.unique(texts.astype(str), return_inverse=True)  # many days have the same
    ticks = np.array([_nanoseconds(text) for text in distinct.tolist()], np.int64)[place]
    if np.any(ticks == _NONE):
        row = int(np.argmax(ticks == _NONE))
        found = f"holds {str(texts[row])!r}" if texts[row] else "is empty"
        raise LatentTrackError(
            f"column {name!r} {found} in row {numbers[row]}: "
            "give times of the day such as 17:24 or 17:24:00, or remove the row."
        )
    return ticks.astype("timedelta64[ns]")


def is_time_of_day(text: str) -> bool:
    """Whether a text is one; 17.24 is, but a column of such texts alone is read as numbers before."""
    return _nanoseconds(text) != _NONE


def _nanoseconds(text: str) -> int:
    """Since the day began."""
    match = _TIME.fullmatch(text)
    if match is None:
        return _NONE
    hour = int(match["hour"])
    if match["half"]:
        if not 1 <= hour <= _NOON:
            return _NONE
        hour = hour % _NOON + _NOON * (match["half"] in "Pp")
    whole = 3600 * hour + 60 * int(match["minute"]) + int(match["second"] or 0)
    ticks = whole * _SECOND + int((match["part"] or "").ljust(9, "0"))
    return ticks if ticks <= _DAY else _NONE
