"""`latenttrack stream MODEL`: events in, predictions out, line by line."""

import contextlib
import hashlib
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from latenttrack.cli.runtime import cache_compiled_programs
from latenttrack.errors import LatentTrackError

if TYPE_CHECKING:
    from latenttrack.fitted.stream import Stream

_LONGEST = 2**20 + 2  # bytes of a line that are read at once: what is longer is refused in any case
_CHECK = 64  # lines between two looks at the clock


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
    help="Seconds between two snapshots.",
)
@click.option(
    "--gate",
    type=click.Choice(["hold", "clip", "reset", "off"]),
    default="hold",
    show_default=True,
    help="What is done with values that are more likely faults than news.",
)
@click.option(
    "--buffer", type=click.IntRange(1), default=96, show_default=True, help="Steps a label may be late."
)
@click.option("--strict", is_flag=True, help="Stop at the first line that makes no sense.")
def stream(
    model: Path,
    source: str,
    target: str,
    snapshot: Path | None,
    every: float,
    gate: str,
    buffer: int,
    strict: bool,
) -> None:
    """Predict a live stream: one JSON line in, one JSON line out.

    An event is {"time": "2026-01-31T06:00:00", "x": {"load": 3.2, ...}} with an "id" if you like; it is
    answered by a prediction. A label is {"time": ..., "y": 4.1}, or "id" in place of "time", whenever it
    comes; where the target is one of the measurements no labels are needed. A line that makes no sense is
    answered by its number and what is wrong with it.

    With --snapshot a stream that was killed goes on where it was: give it the same input again, or what comes
    next. Predictions in a file (--out, or a redirection with >>) are then neither lost nor repeated; in a
    pipe those since the last snapshot come again.
    """
    cache_compiled_programs()
    from latenttrack.fitted.model import load
    from latenttrack.fitted.stream import resume

    fitted = load(model)
    # Opened before the model is compiled, so that a wrong name is answered at once.
    with _reading(source) as lines, _writing(target) as out:
        resumed = snapshot is not None and snapshot.exists()
        if resumed:
            assert snapshot is not None
            live = resume(snapshot, fitted)
        else:
            live = fitted.stream(gate=gate, buffer=buffer)
        session = _Session(live, lines, out, snapshot, every, strict)
        with _signals(session.stop):
            session.run(resumed)


class _Session:
    """One run of the command."""

    def __init__(
        self,
        live: "Stream",
        lines: IO[bytes],
        out: IO[bytes],
        snapshot: Path | None,
        every: float,
        strict: bool,
    ):
        self.live, self.lines, self.out = live, lines, out
        self.snapshot, self.every, self.strict = snapshot, every, strict
        self.read, self.digest, self.first = 0, hashlib.sha256(), ""
        self.saved = time.monotonic()
        self.waiting = self.stopped = False

    def run(self, resumed: bool) -> None:
        """Until the input ends, or the process is told to."""
        if resumed:
            self._go_on()
        elif self._out_is_file and not self._appends:
            self.out.truncate(0)
        try:
            for line in self._remaining():
                self._answer(line)
                if self.stopped:
                    break
                if self.read % _CHECK == 0 and time.monotonic() - self.saved >= self.every:
                    self._save()
        except (BrokenPipeError, KeyboardInterrupt):
            # Nobody listens any more, or the user has had enough: a stream has no other end.
            if not self._out_is_file:
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.out.fileno())
        except LatentTrackError:
            self._save()
            raise
        self._save()

    def stop(self, number: int, frame: object) -> None:
        """A signal: end now if nothing is being done, else after the line at work."""
        self.stopped = True
        if self.waiting:
            raise KeyboardInterrupt

    def _answer(self, line: bytes) -> None:
        from latenttrack.fitted.events import answer

        if line.strip():
            try:
                said = answer(self.live, line.rstrip(b"\r\n"))
            except LatentTrackError as error:
                if self.strict:
                    raise LatentTrackError(f"line {self.read + 1}: {error}") from None
                said = {"line": self.read + 1, "error": str(error)}
            self.out.write(json.dumps(said).encode() + b"\n")
            self.out.flush()
        self._count(line)

    def _count(self, line: bytes) -> None:
        self.read += 1
        self.digest.update(line)
        if self.read == 1:
            self.first = hashlib.sha256(line).hexdigest()

    def _remaining(self) -> Iterator[bytes]:
        """Lines; of one that is too long only the beginning."""
        while line := self._next():
            rest = line
            while not rest.endswith(b"\n") and (rest := self._next()):
                pass
            yield line

    def _next(self) -> bytes:
        self.waiting = True
        line = self.lines.readline(_LONGEST)
        self.waiting = False
        return line

    def _go_on(self) -> None:
        """Skip what was answered before, if the input begins anew, and drop what was written since."""
        extra = self.live.extra
        if self._out_is_file and isinstance(extra.get("written"), int):
            if os.fstat(self.out.fileno()).st_size > extra["written"]:
                os.truncate(self.out.fileno(), extra["written"])
            self.out.seek(0, os.SEEK_END)
        read, first, digest = extra.get("read", 0), extra.get("first", ""), extra.get("digest", "")
        for number, line in enumerate(self._remaining(), 1):
            if number == 1 and hashlib.sha256(line).hexdigest() != first:
                # Not the input from its beginning, but what comes next.
                self._answer(line)
                return
            self._count(line)
            if number == read:
                break
        if read and self.read and (self.read, self.digest.hexdigest()) != (read, digest):
            raise LatentTrackError(
                f"the input begins as the one that {self.snapshot} was taken from, but is another one by "
                f"line {self.read}: give the same input, or delete the snapshot to begin anew."
            )

    def _save(self) -> None:
        if self.snapshot is None:
            return
        with contextlib.suppress(BrokenPipeError):
            self.out.flush()
        written = None
        if self._out_is_file:
            os.fsync(self.out.fileno())
            written = os.fstat(self.out.fileno()).st_size
        state: dict[str, Any] = {"read": self.read, "first": self.first, "digest": self.digest.hexdigest()}
        self.live.extra = {**state, "written": written}
        self.live.snapshot(self.snapshot)
        self.saved = time.monotonic()

    @property
    def _out_is_file(self) -> bool:
        return stat.S_ISREG(os.fstat(self.out.fileno()).st_mode)

    @property
    def _appends(self) -> bool:
        """Whether standard output was redirected, and what is in the file is not ours to remove."""
        return self.out.fileno() == sys.stdout.fileno()


@contextlib.contextmanager
def _reading(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        file = os.fdopen(os.open(name, os.O_RDONLY), "rb")
    except OSError as error:
        raise LatentTrackError(
            f"cannot read {name!r}: {error.strerror}; give a file of events with --in."
        ) from None
    with file:
        yield file


@contextlib.contextmanager
def _writing(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdout.buffer
        return
    try:
        # Not emptied: after a restart what is there stays.
        file = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    except OSError as error:
        raise LatentTrackError(
            f"cannot write {name!r}: {error.strerror}; give another file with --out."
        ) from None
    with file:
        yield file


@contextlib.contextmanager
def _signals(stop: Callable[[int, object], None]) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the stream in an orderly way: with a last snapshot."""
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
