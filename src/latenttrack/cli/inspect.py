"""`latenttrack inspect FILE`: what a latenttrack file contains."""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from latenttrack.store import Stored, read_any

MAX_ITEMS = 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
def inspect(file: Path, as_json: bool) -> None:
    """Show what a latenttrack file contains.

    The whole FILE is checked on the way: a damaged one is refused. Nothing in it is ever run.
    """
    stored = read_any(file)
    if as_json:
        click.echo(json.dumps(_summary(stored)))
    else:
        _show(file, stored)


def _summary(stored: Stored) -> dict[str, Any]:
    return {
        "kind": stored.kind,
        "schema": stored.schema,
        "created_with": stored.created_with,
        "header": stored.header,
        "tensors": {
            name: {"shape": list(array.shape), "dtype": array.dtype.name}
            for name, array in stored.tensors.items()
        },
        "parameters": _parameters(stored),
    }


def _parameters(stored: Stored) -> int:
    return sum(array.size for array in stored.tensors.values())


def _show(file: Path, stored: Stored) -> None:
    tree = Tree(_plain(str(file)), guide_style="dim")
    tree.add(_entry("kind", stored.kind))
    tree.add(_entry("schema", stored.schema))
    tree.add(_entry("made with", f"latenttrack {stored.created_with}"))
    if stored.header:
        _grow(tree.add("header"), stored.header)
    console = Console(highlight=False)
    console.print(tree)
    if stored.tensors:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for title in ("tensor", "shape", "dtype"):
            table.add_column(title, overflow="fold")
        for name, array in stored.tensors.items():
            table.add_row(_plain(name), _plain(str(array.shape)), array.dtype.name)
        console.print(table)
    console.print(f"tensors: {len(stored.tensors)}, parameters: {_parameters(stored):,}")


def _grow(branch: Tree, value: dict[str, Any] | list[Any]) -> None:
    """Hang every item of a JSON object or list under a branch; of a long one, the first few."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value))
    for name, item in items[:MAX_ITEMS]:
        if isinstance(item, dict | list) and not _is_short(item):
            _grow(branch.add(_plain(str(name))), item)
        else:
            branch.add(_entry(str(name), item))
    if len(items) > MAX_ITEMS:
        branch.add(f"and {len(items) - MAX_ITEMS} more (see --json)")


def _is_short(value: dict[str, Any] | list[Any]) -> bool:
    return not value or (
        isinstance(value, list)
        and len(value) <= MAX_ITEMS
        and not any(isinstance(v, dict | list) for v in value)
    )


def _entry(name: str, value: object) -> Text:
    return Text.assemble(
        (_plain(name).plain, "bold"), " ", _plain(value if isinstance(value, str) else str(value))
    )


def _plain(text: str) -> Text:
    """Text that can neither style nor steer the terminal: a file's contents are not to be trusted."""
    return Text(text if text.isprintable() else repr(text))
