"""The figure of a forecast: the recent past, and a fan of intervals that opens from it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from latenttrack.report import canvas
from latenttrack.report.curves import split_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FAN = canvas.PALETTE[0]
_SHADES = (0.18, 0.28, 0.36)  # of intervals, from the widest on; they lie over each other
_PAST = 2  # a past of as many times the forecast's length is shown, ...
_LEAST_PAST = 24  # ... but at least so many steps


def fan_figure(
    time: np.ndarray,
    quantiles: Mapping[float, np.ndarray],
    past_time: np.ndarray,
    past: np.ndarray,
    target: str,
) -> "Figure":
    """Draw a forecast.

    Args:
        time: [H] of the steps to come.
        quantiles: [H] by level; those at p and 1 - p are the ends of an interval.
        past_time: [N] of the newest known values.
        past: [N] these values, NaN where they are missing.
        target: what they are, with its unit if it has one.
    """
    figure = canvas.new_figure(height=3.8)
    axes = figure.add_subplot()
    shown = max(_PAST * len(time), _LEAST_PAST)
    past_time, past = past_time[-shown:], past[-shown:]
    start = _start(past_time, past)
    keys = [canvas.line_key("measured", canvas.INK)]
    lows = sorted(level for level in quantiles if level < 0.5 and _opposite(level) in quantiles)
    clear = 1.0  # what is still seen through the intervals
    for low, shade in zip(lows, _SHADES, strict=False):
        bottom, top = (_joined(past[start], quantiles[level]) for level in (low, _opposite(low)))
        axes.fill_between(
            _joined(past_time[start], time), bottom, top, color=_FAN, alpha=shade, linewidth=0, zorder=2
        )
        clear *= 1.0 - shade
        keys.append(canvas.area_key(f"{100 - 200 * low:.0f} % interval", 1.0 - clear, _FAN))
    if 0.5 in quantiles:
        middle = _joined(past[start], quantiles[0.5])
        axes.plot(_joined(past_time[start], time), middle, color=_FAN, linewidth=1.6, zorder=3)
        keys.insert(1, canvas.line_key("median", _FAN))
    axes.plot(past_time, past, color=canvas.INK, linewidth=1.2, zorder=4)
    name, unit = split_unit(target)
    steps = f"{len(time)} step{'s' * (len(time) > 1)} ahead"
    canvas.tidy(axes, f"{name}, {steps}", unit or name)
    canvas.time_axis(axes, np.concatenate([past_time, time]))
    canvas.legend_below(figure, *keys)
    return figure


def _opposite(level: float) -> float:
    return round(1.0 - level, 12)


def _start(time: np.ndarray, past: np.ndarray) -> slice:
    """Where the fan opens: at the newest value, if there is one."""
    known = len(time) > 0 and bool(np.isfinite(past[-1]))
    return slice(len(time) - 1, None) if known else slice(len(time), None)


def _joined(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.concatenate([before, after]) if len(before) else after
