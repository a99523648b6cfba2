"""The score table, for terminals and for Markdown.

The best value of a column is marked. Comparisons are made on the numbers as shown, so that of two which
look the same not only one is marked.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from latenttrack.evaluation.records import Summary

NOMINAL = 0.90
CAPTION = f"* best (coverage: closest to {NOMINAL:.2f}; µs: models only)"


class Cell(NamedTuple):
    """A number as shown, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Column:
    """One score: where it stands in a `Summary`, how it is written, and what makes it good.

    Attributes:
        title: short, so that a row fits into 80 characters.
        value: reads the score from a summary.
        show: writes it.
        loss: the smaller, the better; None if the column has no better or worse.
        models_only: references do not compete.
    """

    title: str
    value: Callable[[Summary], float]
    show: Callable[[float], str]
    loss: Callable[[float], float] | None = None
    models_only: bool = False


def score_table(
    summaries: Sequence[Summary], truth_nll: float | None = None, references: Collection[str] = ()
) -> Table:
    """Lay out the scores for a terminal: models, then references, then the truth.

    Args:
        summaries: one row each, in this order.
        truth_nll: mean NLL of the true distribution, where it is known.
        references: names of the models that stand below the rule.

    Returns:
        A table whose rows never wrap; in a narrow terminal the models' names are shortened.
    """
    table = Table(box=box.HORIZONTALS, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False, caption=CAPTION)
    table.caption_justify = "left"
    table.add_column("model")  # may shrink; the numbers may not
    for column in COLUMNS:
        table.add_column(column.title, justify="right", no_wrap=True)
    for section in _sections(summaries, truth_nll, references):
        for name, cells in section:
            table.add_row(_name(name), *(_styled(cell) for cell in cells))
        table.add_section()
    return table


def markdown_table(
    summaries: Sequence[Summary], truth_nll: float | None = None, references: Collection[str] = ()
) -> str:
    """Write the content of `score_table` as a Markdown table, the best values in bold.

    Args:
        summaries: one row each, in this order.
        truth_nll: mean NLL of the true distribution, where it is known.
        references: names of the models that come after the others, in italics.

    Returns:
        The table's lines, with a line break at the end.
    """
    lines = [
        _line(["model", *(column.title for column in COLUMNS)]),
        _line(["---", *("---:" for _ in COLUMNS)]),
    ]
    models, *others = _sections(summaries, truth_nll, references)
    for name, cells in models:
        lines.append(_line([_escape(name), *(_bold(cell) for cell in cells)]))
    for section in others:
        for name, cells in section:
            lines.append(_line([f"*{_escape(name)}*", *(_bold(cell) for cell in cells)]))
    return "\n".join(lines) + "\n"


def _sections(
    summaries: Sequence[Summary], truth_nll: float | None, references: Collection[str]
) -> list[list[tuple[str, list[Cell]]]]:
    """The rows of the models, of the references and of the truth; any of them may be empty."""
    is_reference = [summary.model in references for summary in summaries]
    columns = [_cells(column, summaries, is_reference) for column in COLUMNS]
    rows = [(summary.model, list(cells)) for summary, *cells in zip(summaries, *columns, strict=True)]
    truth = [] if truth_nll is None else [("truth", _truth(truth_nll))]
    return [
        [row for row, reference in zip(rows, is_reference, strict=True) if not reference],
        [row for row, reference in zip(rows, is_reference, strict=True) if reference],
        truth,
    ]


def _cells(column: Column, summaries: Sequence[Summary], is_reference: Sequence[bool]) -> list[Cell]:
    texts = [column.show(column.value(summary)) for summary in summaries]
    if column.loss is None:
        return [Cell(text) for text in texts]
    # Without a model the references compete among themselves.
    alone = column.models_only and not all(is_reference)
    losses = [
        math.inf if alone and reference else _shown_loss(column.loss, text)
        for text, reference in zip(texts, is_reference, strict=True)
    ]
    rivals = sum(not (alone and reference) for reference in is_reference)
    least = min(losses, default=math.inf)
    meaningful = math.isfinite(least) and rivals > 1
    return [Cell(text, meaningful and loss == least) for text, loss in zip(texts, losses, strict=True)]


def _shown_loss(loss: Callable[[float], float], text: str) -> float:
    """The loss of a number as shown; infinite for what is no finite number."""
    value = _number(text)
    # Rounded, because 0.89 and 0.91 are equally far from 0.90 on paper but not in binary.
    return round(loss(value), 9) if math.isfinite(value) else math.inf


def _number(text: str) -> float:
    return math.nan if text == ABSENT else float(text)


def _truth(nll: float) -> list[Cell]:
    return [Cell(column.show(nll) if column.title == "NLL" else "") for column in COLUMNS]


def _score(value: float) -> str:
    """Three decimals; three digits and an exponent for what is huge, or too small to show two digits."""
    if math.isfinite(value) and value != 0 and (abs(value) >= 1e4 or abs(value) < 0.01):
        return _scientific(value)
    return f"{value:.3f}"


def _nll(value: float) -> str:
    """Three decimals also near zero, which is a log density like any other."""
    return _score(value) if abs(value) >= 0.01 else f"{value:.3f}".replace("-0.000", "0.000")


def _share(value: float) -> str:
    return f"{value:.3f}"


def _count(value: float) -> str:
    return f"{value:,}" if value < 1e7 else _scientific(value)


def _duration(value: float) -> str:
    if math.isnan(value):
        return ABSENT
    return _scientific(value) if math.isfinite(value) and value >= 1e4 else f"{value:.1f}"


def _scientific(value: float) -> str:
    """1.23e5 rather than 1.23e+05: rows have to fit into 80 characters."""
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def _itself(value: float) -> float:
    return value


def _off_nominal(coverage: float) -> float:
    return abs(coverage - NOMINAL)


def _name(name: str) -> Text:
    return Text(name, no_wrap=True, overflow="ellipsis")


def _styled(cell: Cell) -> Text:
    """The mark stands in front, so that the decimals stay aligned."""
    return Text(f"*{cell.text}", style="bold") if cell.best else Text(cell.text)


def _bold(cell: Cell) -> str:
    return f"**{cell.text}**" if cell.best else cell.text


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(name: str) -> str:
    """A name that cannot end its cell or start markup."""
    return "".join(f"\\{letter}" if letter in r"\|*_`<[" else letter for letter in name)


ABSENT = "-"  # was not measured
COLUMNS = (
    Column("NLL", attrgetter("nll"), _nll, _itself),
    Column("CRPS", attrgetter("crps"), _score, _itself),
    Column("MSE", attrgetter("mse"), _score, _itself),
    Column("90% cov", attrgetter("coverage_90"), _share, _off_nominal),
    Column("epist.", attrgetter("epistemic_share"), _share),
    Column("params", attrgetter("parameters"), _count),
    Column("µs/step", attrgetter("microseconds"), _duration, _itself, models_only=True),
)
