"""Typed columns from text and mixed values: numbers first, then times, then text.

Every reader ends here, so that the same table gives the same columns whatever file it came from.
"""

import math
import re
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np

from latenttrack.data.marks import first_doubtful, may_mark_thousands, tells_marks, with_points
from latenttrack.data.slashed import is_slashed, unslashed
from latenttrack.errors import LatentTrackError

MISSING = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "NaT", "-", "?"}
)
# Words that stand for numbers; truth values as pandas, R and JSON write them.
WORDS = dict.fromkeys(MISSING, math.nan) | {"True": 1.0, "False": 0.0, "true": 1.0, "false": 0.0}
# Times are held in nanoseconds, which reach from 1678 to 2262.
FIRST_YEAR, LAST_YEAR = 1678, 2261

_ISO = re.compile(
    r"(?P<year>\d{4})(?P<mark>[-/])(?P<month>\d\d)(?P=mark)(?P<day>\d\d)"
    r"(?:[T ](?P<clock>\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)\s?(?P<offset>Z|[+-]\d\d:?\d\d)?)?"
)
_GERMAN = re.compile(
    r"(?P<day>\d\d)\.(?P<month>\d\d)\.(?P<year>\d{4})(?: (?P<clock>\d\d:\d\d(?::\d\d)?))?(?P<offset>)"
)
_OFFSET = re.compile(r":\d\d(?:\.\d+)?\s?(?:Z|[+-]\d\d:?\d\d)$")


def from_values(values: Sequence[object]) -> np.ndarray:
    """Turn a column of Python values (None = missing) into a typed column.

    Args:
        values: N numbers, booleans, dates, strings (with or without spaces around them) or None.

    Returns:
        [N] float64, datetime64[ns] or object (of str) array.
    """
    if all(v is None or isinstance(v, Real) for v in values):
        return np.array([math.nan if v is None else v for v in values], np.float64)
    return from_text(["" if v is None else str(v).strip() for v in values])


def from_text(texts: Sequence[str], decimal_comma: bool = False) -> np.ndarray:
    """Turn a column of text into numbers if all of it is numeric, else times, else text.

    Args:
        texts: N strings; empty, NA and the like (`MISSING`) mean missing, true and false are 1 and 0.
        decimal_comma: also accept "1,5" for 1.5 and "1.100,5" for 1100.5.

    Returns:
        [N] float64 (missing: NaN), datetime64[ns] (missing: NaT) or object of str (missing: "").
    """
    for parsed in (_numbers(texts), times_from_text(texts)):
        if parsed is not None:
            return parsed
    if decimal_comma:
        numbers = _numbers(with_points(texts))
        if numbers is not None:
            return numbers
    return np.array(["" if t in MISSING else t for t in texts], dtype=object)


def from_texts(texts: Mapping[str, Sequence[str]]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The columns of a file in which commas may be decimal marks.

    Args:
        texts: columns of N strings each.

    Returns:
        Typed columns as of `from_text`. Where one of them tells that points mark thousands, they do in all.
        Else, by column: a number such as 1.100 of those that may be in thousands; it was read as 1.1.
    """
    columns = {name: from_text(column, decimal_comma=True) for name, column in texts.items()}
    numeric = {name: texts[name] for name, column in columns.items() if column.dtype.kind == "f"}
    if not any(map(tells_marks, numeric.values())):
        doubtful = {name: first_doubtful(column, MISSING) for name, column in numeric.items()}
        return columns, {name: text for name, text in doubtful.items() if text is not None}
    grouped = {name: column for name, column in numeric.items() if may_mark_thousands(column)}
    return columns | {name: from_text(with_points(column)) for name, column in grouped.items()}, {}


def times_from_text(texts: Sequence[str]) -> np.ndarray | None:
    """Parse ISO 8601 (`2013-01-31 06:00:00`, `2013-01-31T06:00Z`) and German (`31.01.2013 06:00:00`) times.

    Dates with slashes (`31/01/2013`, `01/31/2013 6:00 PM`) too, if some day is beyond 12. Times with
    an offset are converted to UTC; times without one are taken as they stand.

    Args:
        texts: N strings.

    Returns:
        [N] datetime64[ns], NaT where missing; None when some text is not a time or all are missing.
    """
    if "/" in next((text for text in texts if text not in MISSING), "")[:3]:
        unambiguous = unslashed(texts)
        if unambiguous is None:
            return None
        texts = unambiguous
    plain, minutes, seen = [], [], False
    for text in texts:
        if text in MISSING:
            plain.append("NaT")
            minutes.append(0)
            continue
        match = _ISO.fullmatch(text) or _GERMAN.fullmatch(text)
        if match is None or not FIRST_YEAR <= int(match["year"]) <= LAST_YEAR:
            return None
        seen = True
        plain.append(f"{match['year']}-{match['month']}-{match['day']}T{match['clock'] or '00:00'}")
        minutes.append(_offset_minutes(match["offset"]))
    if not seen:
        return None
    try:
        times = np.array(plain, dtype="datetime64[ns]")
    except ValueError:  # well-formed but impossible, such as 2013-02-30
        return None
    shifted: np.ndarray = times - np.array(minutes, dtype="timedelta64[m]")
    return shifted


def has_offset(text: str) -> bool:
    """Whether a text ends as a time with an offset does, such as 06:00Z or 06:00+01:00."""
    return _OFFSET.search(text.rstrip()) is not None


def to_nanoseconds(times: np.ndarray, name: str) -> np.ndarray:
    """Bring datetime64 of any unit to nanoseconds.

    Args:
        times: [N] datetime64.
        name: the column's name, for the message.

    Returns:
        [N] datetime64[ns].
    """
    years = times.astype("datetime64[Y]").astype(np.int64) + 1970
    wrong = np.flatnonzero(~np.isnat(times) & ((years < FIRST_YEAR) | (years > LAST_YEAR)))
    if len(wrong):
        raise LatentTrackError(
            f"column {name!r} holds the time {times[wrong[0]]}: "
            f"years must lie between {FIRST_YEAR} and {LAST_YEAR}, so mark it as missing."
        )
    return times.astype("datetime64[ns]")


def not_a_number(texts: np.ndarray) -> str:
    """Return the first text of a column that is neither a number nor missing."""
    return next(str(t) for t in texts if _numbers([str(t)]) is None)


def not_a_time(texts: np.ndarray) -> str:
    """Return the first text of a column that is neither a time nor missing."""
    known = [str(t) for t in texts if str(t) not in MISSING]
    return next((t for t in known if not is_slashed(t) and times_from_text([t]) is None), known[0])


def ambiguous_date(texts: np.ndarray) -> str | None:
    """Return the first date of a column in which days and months cannot be told apart; None of any other."""
    known = [str(t) for t in texts if str(t) not in MISSING]
    if known and all(map(is_slashed, known)) and times_from_text(known) is None:
        return known[0]
    return None


def _numbers(texts: Sequence[str]) -> np.ndarray | None:
    # Python reads "12_3" as 123; in a file it is a name.
    try:
        numbers = [WORDS[t] if t in WORDS else float(t) for t in texts]
    except ValueError:
        return None
    return None if any("_" in t for t in texts) else np.array(numbers, np.float64)


def _offset_minutes(offset: str | None) -> int:
    if not offset or offset == "Z":
        return 0
    sign = -1 if offset[0] == "-" else 1
    return sign * (60 * int(offset[1:3]) + int(offset[-2:]))
