"""Lines in and out of a process that may be told to stop, or be killed, at any moment.

Neither side keeps anything that could be lost: what was read is either answered or still in the input, and
what was written is with the system when `write` returns.
"""

import contextlib
import errno
import hashlib
import json
import os
import select
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

from latenttrack.errors import LatentTrackError

_CHUNK = 2**16  # bytes that are read at once
_TAIL = 4096  # bytes by which a file is known again


class Stop:
    """SIGTERM, SIGHUP and Ctrl-C as a flag that also ends any waiting, in place of an exception anywhere.

    Attributes:
        asked: whether to stop.
        descriptor: becomes readable when a signal comes.
    """

    def __init__(self) -> None:
        self.asked = False
        self.descriptor, self._end = os.pipe()
        os.set_blocking(self._end, False)

    def _hear(self, number: int, frame: object) -> None:
        self.asked = True

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Catch the signals."""
        names = ("SIGTERM", "SIGINT", "SIGHUP")
        numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
        # The system writes to the pipe as a signal comes: one just before the waiting is not missed.
        wakeup = signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        before = {number: signal.signal(number, self._hear) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)


class Lines:
    """The lines of a descriptor.

    Args:
        descriptor: open for reading.
        longest: bytes of a line; of a longer one only as many are given.
        stop: what ends the waiting.
        growing: whether a file that ends in the middle of a line is read again later: that line is left then.

    Attributes:
        rereadable: whether it is a file, which can be read again.
        ended: whether there will be no more.
        torn: whether the end of the file was left because its line is not whole.
    """

    def __init__(self, descriptor: int, longest: int, stop: Stop, *, growing: bool = False):
        self._descriptor, self._longest, self._stop = descriptor, longest, stop
        self._growing, self.torn = growing, False
        self.rereadable = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._buffer, self._searched = bytearray(), 0
        self._head: bytes | None = None  # beginning of a line that is too long
        self._end_of_input = False
        self.ended = False

    @property
    def holds_more(self) -> bool:
        """Whether whole lines were taken from a pipe that nobody else can read again."""
        return not self.rereadable and self._buffer.find(b"\n", self._searched) >= 0

    def read(self, timeout: float | None = None) -> bytes | None:
        """The next line without its end; None if it is not there in time, at a signal, and at the end.

        Args:
            timeout: seconds to wait; None: until there is a line.
        """
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                return self._cut(end)
            if self._end_of_input:
                self.torn = self._growing and self.rereadable and self._is_torn()
                self.ended = self.torn or (not self._buffer and self._head is None)
                return None if self.ended else self._cut(len(self._buffer))
            if len(self._buffer) > self._longest:
                self._head = self._head or bytes(self._buffer[: self._longest])
                self._buffer.clear()
            self._searched = len(self._buffer)
            if not self._wait(timeout):
                return None
            chunk = self._fetch()
            self._buffer += chunk
            self._end_of_input = not chunk

    def ahead(self, count: int) -> list[bytes]:
        """The next lines, still to be read, if so many are there already and none is too long; else none."""
        while self._buffer.count(b"\n") < count:
            if self._end_of_input or len(self._buffer) > self._longest or not self._wait(0.0):
                return []
            chunk = self._fetch()
            self._buffer += chunk
            self._end_of_input = not chunk
        lines = bytes(self._buffer).split(b"\n", count)[:count]
        too_long = self._head is not None or max(map(len, lines)) > self._longest
        return [] if too_long else [line.rstrip(b"\r") for line in lines]

    def skip(self, count: int) -> None:
        """Lines that were seen ahead are done with."""
        end = 0
        for _ in range(count):
            end = self._buffer.index(b"\n", end) + 1
        del self._buffer[:end]
        self._searched = 0

    def _is_torn(self) -> bool:
        """Whether what is left without an end of line was cut off in the middle."""
        if self._head is not None:
            return True
        try:
            return bool(self._buffer.strip()) and not isinstance(json.loads(self._buffer), dict)
        except (ValueError, RecursionError):
            return True

    def _cut(self, end: int) -> bytes:
        line = bytes(self._buffer[: min(end, self._longest)]) if self._head is None else self._head
        del self._buffer[: end + 1]
        self._searched, self._head = 0, None
        return line.rstrip(b"\r")

    def _wait(self, timeout: float | None) -> bool:
        if os.name == "nt":  # there, only sockets can be waited for
            return not self._stop.asked
        ready, _, _ = select.select([self._descriptor, self._stop.descriptor], [], [], timeout)
        return self._descriptor in ready and not self._stop.asked

    def _fetch(self) -> bytes:
        try:
            return os.read(self._descriptor, _CHUNK)
        except OSError as error:
            raise LatentTrackError(
                f"the input cannot be read any further ({error.strerror}): give it again."
            ) from None


class Output:
    """Where the answers go.

    Args:
        descriptor: open for writing.
        name: for error messages.
        shared: whether what is there already is not ours to remove.
    """

    def __init__(self, descriptor: int, name: str, shared: bool):
        self._descriptor, self._name, self._shared = descriptor, name, shared
        self.is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)

    def write(self, data: bytes) -> None:
        """All of it; BrokenPipeError if nobody listens any more."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failure(error) from None

    def begin(self) -> None:
        """Start with an empty file, unless others wrote to it."""
        if self.is_file and not self._shared:
            os.ftruncate(self._descriptor, 0)
        self._to_end()

    def go_on(self, written: int | None, tail: str | None) -> None:
        """Drop what was written after a snapshot was taken.

        Args:
            written: bytes that were there at that time; None if there was no file.
            tail: what `keep` said.
        """
        size = os.fstat(self._descriptor).st_size
        if self.is_file and written is not None and size > 0:
            if size < written or (tail is not None and self._tail(written) not in (tail, None)):
                raise LatentTrackError(
                    f"{self._name} does not hold what was written when the snapshot was taken: give that "
                    "file, or a new one, or delete the snapshot to begin anew."
                )
            os.ftruncate(self._descriptor, written)
        self._to_end()

    def keep(self) -> tuple[int | None, str | None]:
        """Bring all to the disk, and say how long the file is and how it ends; nothing if it is no file."""
        if not self.is_file:
            return None, None
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._failure(error) from None
        written = os.fstat(self._descriptor).st_size
        return written, self._tail(written)

    def _to_end(self) -> None:
        if self.is_file:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def _tail(self, size: int) -> str | None:
        """A digest of the last bytes before `size`; None if they cannot be read, as with a redirection."""
        try:
            with Path(f"/dev/fd/{self._descriptor}").open("rb") as file:
                file.seek(max(size - _TAIL, 0))
                return hashlib.sha256(file.read(min(size, _TAIL))).hexdigest()
        except OSError:
            return None

    def _failure(self, error: OSError) -> LatentTrackError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return LatentTrackError(f"cannot write {self._name}: the disk is full; free some space.")
        return LatentTrackError(f"cannot write {self._name}: {error.strerror}; give another place.")
