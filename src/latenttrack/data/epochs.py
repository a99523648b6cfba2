"""Numbers as times: seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their size.

Files and live events are read by the same rule, so that a number means the same moment in both.
"""

import numpy as np

# Of each unit: the least size, the size that is too large, and the microseconds in one. Moments go to 2261,
# as times are held in nanoseconds, and but for seconds begin in 1973: a smaller number may be of any unit.
_UNITS = (
    (0.0, 9.2e9, 1e6),
    (1e11, 9.2e12, 1e3),
    (1e14, 9.2e15, 1.0),
    (1e17, 9.2e18, 1e-3),
)


def to_microseconds(number: float) -> int | None:
    """A count since 1970 as microseconds; None if no unit fits it."""
    found = _unit(number)
    # Microseconds since 1970 are exact in float64; nanoseconds would not be.
    return None if found is None else round(float(number) * found[2])


def times_from_numbers(numbers: np.ndarray) -> np.ndarray:
    """The same for a column.

    Args:
        numbers: [N] finite counts.

    Returns:
        [N] datetime64[ns], NaT where no unit fits, or another than in the first row.
    """
    found = _unit(float(numbers[0]))
    if found is None:
        return np.full(len(numbers), np.datetime64("NaT", "ns"))
    least, beyond, scale = found
    fits = (np.abs(numbers) >= least) & (np.abs(numbers) < beyond)
    ticks = np.round(np.where(fits, numbers, 0.0) * scale).astype("datetime64[us]")
    return np.where(fits, ticks, np.datetime64("NaT", "us")).astype("datetime64[ns]")


def look_like_dates(numbers: np.ndarray) -> bool:
    """Whether all of [N] numbers may be years, such as 2013, or dates, such as 20130131."""
    if np.any(numbers != np.floor(numbers)):
        return False
    if np.all((numbers >= 1000) & (numbers < 3000)):
        return True
    year, month, day = numbers // 10_000, numbers // 100 % 100, numbers % 100
    return bool(
        np.all((year >= 1000) & (year < 3000) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31))
    )


def _unit(number: float) -> tuple[float, float, float] | None:
    return next((unit for unit in _UNITS if unit[0] <= abs(number) < unit[1]), None)
