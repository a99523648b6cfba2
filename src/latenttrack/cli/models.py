"""`latenttrack models`: the capacity ledger."""

import json

import click
from rich.console import Console
from rich.table import Table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def models(as_json: bool) -> None:
    """List the models and how many numbers each one learns.

    The paper's counts stand beside ours.

    Counts are for the paper's 13 inputs and its presets. Inference counts what prediction and update use;
    the rest serves training alone.
    """
    from latenttrack.evaluation.ledger import ledger

    rows = ledger()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("model", no_wrap=True)
    for title in ("total", "paper", "inference", "paper"):
        table.add_column(title, justify="right")
    table.add_column("what it is")
    for name, row in rows.items():
        counts = [row["total"], row["paper_total"], row["inference"], row["paper_inference"]]
        table.add_row(name, *("" if c is None else f"{c:,}" for c in counts), str(row["summary"]))
    Console(highlight=False).print(table)
