"""`latenttrack report DIR`: one HTML page, and figures, from a finished bench."""

from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def report(folder: Path) -> None:
    """Make one HTML page with every table and figure of a bench.

    DIR is a folder that `latenttrack bench` wrote. The page, DIR/report.html, is one file and needs no
    network: tables with the paper's numbers beside ours, which of its claims hold, and every figure. The
    figures also go to DIR/figures as PNG and SVG. Prints where the page is.
    """
    # Drawing libraries are imported only now, so that --help is quick.
    from latenttrack.report.page import write_report

    with Progress(
        TextColumn("[bold]{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as shown:
        task = shown.add_task("reading", total=None)
        path = write_report(
            folder,
            lambda done, total, name: shown.update(task, completed=done, total=total, description=name),
        )
    click.echo(path)
