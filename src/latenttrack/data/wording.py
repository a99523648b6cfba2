"""Numbers, names and times as a sentence has them."""

from collections.abc import Sequence

import numpy as np

SECOND = np.timedelta64(1_000_000_000, "ns")
_UNITS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_MOST_NAMED = 8  # columns in a list of counts


def counts(by_name: dict[str, int]) -> str:
    """Such as "wv 3 times, rain once"; of many columns those with most."""
    ordered = sorted(by_name.items(), key=lambda item: -item[1])
    named = ", ".join(f"{name} {times(count)}" for name, count in ordered[:_MOST_NAMED])
    left = len(ordered) - _MOST_NAMED
    return f"{named} and {left} more columns" if left > 0 else named


def listed(names: Sequence[str]) -> str:
    """Such as "year, month and day"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def times(count: int) -> str:
    """Such as "once" or "12 times"."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count:,} times")


def share(of_all: float) -> str:
    """A percentage that says 100 only where it is all."""
    return f"{min(100 * of_all, 99.9):.3g} %" if of_all < 1 else "100 %"


def duration(length: np.timedelta64) -> str:
    """Such as "1 hour" or "90 minutes": the largest unit of which it is a whole number."""
    seconds = float(length / SECOND)
    unit, size = next(((u, s) for u, s in _UNITS.items() if seconds % s == 0), ("second", 1))
    count = seconds / size
    return f"{count:,.15g} {unit}{'s' * (count != 1)}"


def moment(time: np.datetime64) -> str:
    """To the minute, or to the second if that tells more."""
    whole = time == time.astype("datetime64[m]")
    return str(time.astype("datetime64[m]" if whole else "datetime64[s]")).replace("T", " ")


def quoted(text: str) -> str:
    """As it must be typed in a shell."""
    return text if all(c.isalnum() or c in "_-.=" for c in text) else '"' + text.replace('"', '\\"') + '"'
