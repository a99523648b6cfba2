"""How numbers and times are written on the page: short, and the same everywhere."""

import math
import re

import numpy as np

ABSENT, INFINITE = "–", "∞"


def number(value: float, decimals: int = 2) -> str:
    """A score: 2.44, 10,096 or 1.22e10.

    Args:
        value: NaN stands for a number that does not exist.
        decimals: below a thousand.
    """
    if math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return INFINITE if value > 0 else f"-{INFINITE}"
    if abs(value) >= 1e5:
        digits, exponent = f"{value:.2e}".split("e")
        return f"{digits}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{decimals}f}"


def measure(value: float, decimals: int = 3) -> str:
    """A score in the units of the target, as `number`; of a small one the first three digits: 1.22e-12."""
    if not 0 < abs(value) < 0.1:
        return number(value, decimals)
    if abs(value) >= 1e-4:
        return f"{value:#.3g}"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def percent(value: float, decimals: int = 1) -> str:
    """A share between 0 and 1 as a percentage, without the sign: columns say %."""
    return ABSENT if not math.isfinite(value) else f"{100 * value:.{decimals}f}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def moment(time: np.generic) -> str:
    """A time of records: to the minute for a clock, otherwise the step."""
    if isinstance(time, np.datetime64):
        return str(time.astype("datetime64[m]")).replace("T", " ")
    return f"step {time:g}"


def clock(text: str) -> str:
    """A time as JSON has it, to the minute; any other text as it is."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:[\d.]+)?", text)
    return f"{match[1]} {match[2]}" if match else text


def integer(value: object) -> str:
    """A whole number with separators; a dash for what is none."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else ABSENT
