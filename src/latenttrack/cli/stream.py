"""`latenttrack stream MODEL`: events in, predictions out, line by line."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from latenttrack.cli.lines import Lines, Output, Stop
from latenttrack.cli.runtime import cache_compiled_programs
from latenttrack.errors import LatentTrackError
from latenttrack.store.atomic import hold, require_writable

if TYPE_CHECKING:
    from latenttrack.fitted.model import Model
    from latenttrack.fitted.stream import Stream

_LONGEST = 2**20 + 1  # bytes of a line that are read: what is longer is refused in any case


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--in", "source", default="-", show_default=True, help="Events, JSON lines; - is standard input."
)
@click.option("--out", "target", default="-", show_default=True, help="Predictions; - is standard output.")
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Keep the state here, and go on from it if it is there.",
)
@click.option(
    "--every",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="Seconds between two snapshots; 0 after each line, or after those answered at once.",
)
@click.option(
    "--gate",
    type=click.Choice(["hold", "clip", "reset", "off"]),
    default="hold",
    show_default=True,
    help="What is done with values that are more likely faults than news.",
)
@click.option(
    "--buffer",
    type=click.IntRange(1, 100_000),
    default=96,
    show_default=True,
    help="Steps a label may be late.",
)
@click.option(
    "--alarm",
    type=click.FloatRange(0),
    default=10_000,
    show_default=True,
    help="Labels between two false drift alarms, at least, on average; 0 for no alarm.",
)
@click.option("--strict", is_flag=True, help="Stop at the first line that makes no sense.")
@click.pass_context
def stream(
    context: click.Context,
    model: Path,
    source: str,
    target: str,
    snapshot: Path | None,
    every: float,
    gate: str,
    buffer: int,
    alarm: float,
    strict: bool,
) -> None:
    """Predict a live stream: one JSON line in, one out.

    An event is {"time": "2026-01-31T06:00:00", "x": {"load": 3.2, ...}} with an "id" if you like; it is
    answered by a prediction. A label is {"time": ..., "y": 4.1}, or "id" in place of "time", whenever it
    comes; where the target is one of the measurements no labels are needed. A line that makes no sense is
    answered by its number and what is wrong with it.

    With --snapshot a stream that was killed goes on where it was: give it the same input again, or what comes
    next. Predictions in a file (--out, or a redirection with >>) are then neither lost nor repeated; in a
    pipe those since the last snapshot come again.
    """
    _keep_apart(model, source, target, snapshot)
    if snapshot is not None:
        require_writable(snapshot)
    cache_compiled_programs()
    from latenttrack.cli.session import Session
    from latenttrack.fitted.model import load

    fitted, stop = load(model), Stop()
    # Opened before the model is compiled, so that a wrong name is answered at once.
    held = contextlib.nullcontext() if snapshot is None else hold(snapshot)
    with held, _reading(source) as into, _writing(target) as out_of:
        resumed = snapshot is not None and snapshot.exists()
        choices: dict[str, Any] = {"gate": gate, "buffer": buffer, "alarm": alarm}
        if resumed:
            given = [n for n in choices if context.get_parameter_source(n) is not ParameterSource.DEFAULT]
            live = _resume(snapshot, fitted, {name: choices[name] for name in given})
        else:
            live = fitted.stream(**choices)
        out = Output(out_of, "standard output" if target == "-" else repr(target), shared=target == "-")
        lines = Lines(into, _LONGEST, stop, growing=snapshot is not None)
        session = Session(live, lines, out, stop, snapshot=snapshot, every=every, strict=strict)
        with stop.listening():
            session.run(resumed)


def _resume(snapshot: Path | None, model: "Model", given: dict[str, object]) -> "Stream":
    """The stream of a snapshot, whose choices hold: others are refused."""
    from latenttrack.fitted.stream import resume

    assert snapshot is not None
    live = resume(snapshot, model)
    for name, value in given.items():
        if value != live.choices[name]:
            raise LatentTrackError(
                f"{snapshot} was taken with --{name} {live.choices[name]}: leave --{name} out, or delete the "
                "snapshot to begin anew."
            )
    return live


def _keep_apart(model: Path, source: str, target: str, snapshot: Path | None) -> None:
    """Refuse a file in two roles: one would destroy the other."""
    files = [("the model", model), ("--snapshot", snapshot)]
    files += [(f"--{name}", Path(file)) for name, file in (("in", source), ("out", target)) if file != "-"]
    seen: dict[Path, str] = {}
    for role, path in files:
        if path is None or (path.exists() and not path.is_file()):
            continue  # such as /dev/null, which takes and gives nothing
        other = seen.setdefault(path.resolve(), role)
        if other != role:
            raise LatentTrackError(f"{path} is given for {other} and for {role}: give different files.")


@contextlib.contextmanager
def _reading(name: str) -> Iterator[int]:
    if name == "-":
        yield sys.stdin.fileno()
        return
    try:
        descriptor = os.open(name, os.O_RDONLY)
        if Path(name).is_dir():
            raise IsADirectoryError(0, "it is a directory")
    except OSError as error:
        raise LatentTrackError(
            f"cannot read {name!r}: {error.strerror}; give a file of events with --in."
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writing(name: str) -> Iterator[int]:
    if name == "-":
        yield sys.stdout.fileno()
        return
    try:
        # Not emptied: after a restart what is there stays.
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise LatentTrackError(
            f"cannot write {name!r}: {error.strerror}; give another file with --out."
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
