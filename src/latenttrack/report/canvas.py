"""How figures look: palette, fonts, axes, legends. No pyplot, hence no state between figures.

This file and `figures` import matplotlib only when they draw: tables and the command line do without it.
"""

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import Records
from latenttrack.report.curves import split_unit

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 150
WIDTH = 9.0  # inches; shown 900 pixels wide, a font of 10 points is 14 pixels high
TITLE, LABEL, TICK = 11, 10, 9  # points
INK, PALE = "#222222", "#DDDDDD"

# Okabe and Ito's palette: black is kept for labels, and yellow is deeper, for lines on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#C2B200")
# Nobody tells twelve hues apart: further models share this grey, and panels and bars carry their names.
GREY = "#8C8C8C"


def colours(records: Sequence[Records]) -> dict[str, str]:
    """Give every model its colour by its place in the list, so that it has the same one in every figure.

    Args:
        records: one entry for each model.

    Returns:
        The colour of each model's name.
    """
    padded = [*PALETTE, *[GREY] * len(records)]
    return {entry.model: colour for entry, colour in zip(records, padded, strict=False)}


def new_figure(height: float) -> "Figure":
    """Open an empty figure of the common width.

    Args:
        height: in inches.

    Raises:
        LatentTrackError: If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise LatentTrackError(
            'figures need matplotlib, which is not installed: run pip install "latenttrack[plots]".'
        ) from None
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    return figure


def png(figure: "Figure") -> bytes:
    """Render a figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()


def svg(figure: "Figure") -> bytes:
    """Render a figure as the bytes of an SVG file, without a date."""
    import matplotlib

    buffer = io.BytesIO()
    # Letters as outlines: the file looks the same wherever it is opened.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "latenttrack"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def pdf(figure: "Figure") -> bytes:
    """Render a figure as the bytes of a PDF file, without a date."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    return buffer.getvalue()


def tidy(axes: "Axes", title: str, label: str = "") -> None:
    """Give a panel its title, a label for its y axis, light grid lines and no box."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(labelsize=TICK, color=GREY)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(plain(title), loc="left", fontsize=TITLE, fontweight="bold", color=INK)
    # Wrapped, because panels are low and names of columns may be long.
    axes.set_ylabel(plain(textwrap.fill(label, 18, break_long_words=False)), fontsize=LABEL)


def horizontal_bars(
    axes: "Axes", title: str, lengths: Mapping[str, float], colour: Mapping[str, str]
) -> None:
    """Draw one bar for each model, the first on top, with its name beside it and no grid lines."""
    rows = range(len(lengths))
    axes.barh(rows, list(lengths.values()), color=[colour[name] for name in lengths], height=0.7)
    tidy(axes, title)
    axes.grid(visible=False, axis="y")
    axes.set_yticks(rows, [plain(name) for name in lengths])
    axes.set_ylim(len(lengths) - 0.5, -0.5)


def text_beside(axes: "Axes", text: str, end: float, row: int, gap: int) -> None:
    """Write to the right of a horizontal bar, `gap` points from where it ends."""
    axes.annotate(text, (end, row), xytext=(gap, 0), textcoords="offset points", va="center", fontsize=TICK)


def time_axis(axes: "Axes", times: np.ndarray) -> None:
    """Fit the x axis to times [T]: short dates for a clock, otherwise step numbers."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(times[0], times[-1])
    if times.dtype.kind == "M":
        locator = AutoDateLocator(minticks=4, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.set_xlabel("step", fontsize=LABEL)


def line_key(label: str, colour: str = GREY, dashed: bool = False) -> "Artist":
    """Make a legend entry for a line; grey stands for the colour of each panel."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle="--" if dashed else "-", label=label)


def dot_key(label: str) -> "Artist":
    """Make a legend entry for black dots."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=INK, linestyle="", marker="o", markersize=3, label=label)


def area_key(label: str, opacity: float, colour: str = GREY) -> "Artist":
    """Make a legend entry for a filled area; grey stands for the colour of each panel."""
    from matplotlib.patches import Patch

    return Patch(color=colour, alpha=opacity, linewidth=0, label=label)


def legend_below(figure: "Figure", *keys: "Artist") -> None:
    """Put one legend for all panels under them, where it covers nothing; a long one takes more lines."""
    # About 100 characters fit into a line, and each key needs room for eight beside its text.
    characters = sum(len(str(key.get_label())) + 8 for key in keys)
    columns = -(-len(keys) // -(-characters // 100)) if keys else 1
    figure.legend(handles=keys, loc="outside lower center", ncols=columns, fontsize=LABEL, frameon=False)


def plain(text: str) -> str:
    """Text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")


def with_unit(what: str, target: str, squared: bool = False) -> str:
    """Label an axis that shows something about the target, in the target's unit.

    Args:
        what: such as "error".
        target: as in `Records`.
        squared: for variances.

    Returns:
        Such as "error (°C)"; "error of temp" if the unit is unknown.
    """
    name, unit = split_unit(target)
    if not unit:
        return f"{what} of {name}"
    if squared:
        unit = f"({unit})²" if set(unit) & set(" /^·*²³") else f"{unit}²"
    return f"{what} ({unit})"
