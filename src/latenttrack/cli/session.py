"""One run of `latenttrack stream`: lines one by one, or many that wait already at once; snapshots."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import click

from latenttrack.cli.lines import Lines, Output, Stop
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.batch import PIECE
from latenttrack.fitted.events import answer, answer_many
from latenttrack.fitted.stream import Stream

_HEAD = 16  # lines by which an input is known again


class Session:
    """A stream between an input and an output.

    The snapshot, the lines that were read and the bytes that were written belong together: a snapshot is only
    taken between two lines, when the answers are on the disk.

    Args:
        live: the stream.
        lines: events.
        out: answers.
        stop: set from outside.
        snapshot: where the state is kept, None: nowhere.
        every: seconds between two snapshots.
        strict: whether a line that makes no sense ends the run.
    """

    def __init__(
        self,
        live: Stream,
        lines: Lines,
        out: Output,
        stop: Stop,
        *,
        snapshot: Path | None = None,
        every: float = 1.0,
        strict: bool = False,
    ):
        self._live, self._lines, self._out, self._stop = live, lines, out, stop
        self._snapshot, self._every, self._strict = snapshot, every, strict
        self._read, self._digest = 0, hashlib.sha256()
        self._head: list[str] = []
        self._named = False  # whether one of these lines has a time or an id
        self._saved, self._unsaved = time.monotonic(), False
        self._alone = 0  # lines to come that are answered one by one

    def run(self, resumed: bool) -> None:
        """Until the input ends, the process is told to stop, or nobody listens any more.

        Args:
            resumed: whether the stream comes from the snapshot.
        """
        try:
            if resumed:
                if not self._go_on():
                    return
            else:
                self._out.begin()
                # Now, so that a place where nothing can be written is known before the first answer.
                self._save()
            self._answer_all()
            if self._lines.torn:
                _tell(f"line {self._read + 1} is not whole yet, and is left for the next run")
        except BrokenPipeError:
            # The last answer did not arrive: the snapshot before it stays.
            return
        if self._unsaved:
            self._save()

    def _answer_all(self) -> None:
        while True:
            if not self._answer_piece():
                line = self._lines.read(self._patience())
                if line is not None:
                    self._answer(line)
                elif self._lines.ended:
                    return
            if self._stop.asked and not self._lines.holds_more:
                return
            if self._unsaved and time.monotonic() - self._saved >= self._every:
                self._save()

    def _patience(self) -> float | None:
        """Seconds until the next snapshot, None if there is nothing to keep."""
        if not self._unsaved:
            return None
        return max(self._saved + self._every - time.monotonic(), 0.0)

    def _answer_piece(self) -> bool:
        """Answer many lines at once, if they wait already: a backlog is done sooner, no line has to wait."""
        if self._alone:
            self._alone -= 1
            return False
        lines = [] if self._stop.asked else self._lines.ahead(PIECE)
        said = answer_many(self._live, lines) if lines else None
        if said is None:
            self._alone = max(len(lines) - 1, 0)  # one by one, before that is tried again
            return False
        self._lines.skip(PIECE)
        self._out.write(b"".join(_line(one) for one in said))
        for line in lines:
            self._count(line)
        self._unsaved = self._snapshot is not None
        return True

    def _answer(self, line: bytes) -> None:
        if line.strip():
            try:
                said = answer(self._live, line)
            except LatentTrackError as error:
                if self._strict:
                    self._save()
                    raise LatentTrackError(f"line {self._read + 1}: {error}") from None
                said = {"line": self._read + 1, "error": str(error)}
            self._out.write(_line(said))
        self._count(line)
        self._unsaved = self._snapshot is not None

    def _count(self, line: bytes) -> None:
        self._read += 1
        self._digest.update(line + b"\n")
        if len(self._head) < _HEAD:
            self._head.append(_mark(line))
            self._named = self._named or _is_named(line)

    def _go_on(self) -> bool:
        """Drop what was written since the snapshot; skip what was answered before if the input begins anew.

        Returns:
            False if the process was told to stop before that was done.
        """
        extra = self._live.extra
        self._out.go_on(extra.get("written"), extra.get("tail"))
        read, head = extra.get("read", 0), extra.get("head", [])
        if not self._lines.rereadable and not extra.get("named", True):
            return True  # a pipe with lines that could as well be new
        same: list[bytes] = []  # the first lines, while they may be those of before
        while self._read < read:
            line = self._lines.read()
            if line is None:
                if not self._lines.ended:
                    return False
                break
            if len(same) < len(head):
                same.append(line)
                if _mark(line) != head[len(same) - 1]:
                    # Not the input from its beginning, but what comes next.
                    self._read, self._digest = 0, hashlib.sha256()
                    self._head, self._named = [], False
                    for each in same:
                        self._answer(each)
                    return True
            self._count(line)
        if self._read == 0:
            return read == 0  # without a line nothing has changed
        if (self._read, self._digest.hexdigest()) != (read, extra.get("digest")):
            raise LatentTrackError(
                f"the input begins as the one that {self._snapshot} was taken from, but is another one by "
                f"line {self._read}: give the same input, or delete the snapshot to begin anew."
            )
        _tell(f"skipped {self._read} line{'s' * (self._read > 1)} that were answered before")
        return True

    def _save(self) -> None:
        if self._snapshot is None:
            return
        written, tail = self._out.keep()
        self._live.extra = {
            "read": self._read,
            "head": self._head,
            "named": self._named,
            "digest": self._digest.hexdigest(),
            "written": written,
            "tail": tail,
        }
        self._live.snapshot(self._snapshot)
        self._saved, self._unsaved = time.monotonic(), False


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, allow_nan=False).encode() + b"\n"


def _mark(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]


def _is_named(line: bytes) -> bool:
    """Whether a line says which step it is about: the same words for another step would be another line."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(event, dict) and (event.get("time") is not None or event.get("id") is not None)


def _tell(sentence: str) -> None:
    click.echo(f"latenttrack: {sentence}", err=True)
