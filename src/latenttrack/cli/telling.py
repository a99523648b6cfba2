"""What commands tell of a user's file."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from latenttrack.data.describing import Description


def tell_file(console: Console, description: Description) -> None:
    """The file's name, and what was understood of it."""
    console.print(_plain(str(description.selection.source)), style="bold")
    console.print(aligned(description.lines()))


def aligned(told: list[tuple[str, str]]) -> Table:
    """Facts below each other; a heading that repeats is written once."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column()
    before = ""
    for heading, facts in told:
        grid.add_row("" if heading == before else heading, _plain(facts))
        before = heading
    return grid


def _plain(text: str) -> Text:
    """Text that can neither style nor steer the terminal: names come from a file."""
    return Text(text if text.isprintable() else repr(text))
