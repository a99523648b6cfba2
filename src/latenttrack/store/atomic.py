"""Files that are replaced whole or not at all, whatever interrupts the writing."""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from latenttrack.errors import LatentTrackError


@contextlib.contextmanager
def open_atomic(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that appears at `path`, complete and on disk, only when the block ends well.

    Until then, and after any failure, whatever was at `path` stays as it was. The bytes go to a temporary
    file in the same directory, because a rename is atomic only within one file system. A link is followed
    and an existing file keeps its mode. A killed process may leave its `.latenttrack-*.tmp` file behind.

    Args:
        path: Where the file shall be; its directory must exist.

    Yields:
        The open file, for writing.

    Raises:
        LatentTrackError: If the file cannot be written.
    """
    try:
        target = Path(path).resolve()
        temporary = target.with_name(f".latenttrack-{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o7777)
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync_directory(target.parent)
    except OSError as error:
        raise LatentTrackError(_explain(Path(path), error)) from error


def write_bytes(path: str | os.PathLike[str], data: bytes | bytearray) -> None:
    """Put `data` at `path` atomically; see `open_atomic`.

    Args:
        path: Where the file shall be; its directory must exist.
        data: The file's whole content.

    Raises:
        LatentTrackError: If the file cannot be written.
    """
    with open_atomic(path) as file:
        file.write(data)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no file can be written, before the work whose result would be lost.

    Args:
        path: Where a file shall be; whatever is there stays as it is.

    Raises:
        LatentTrackError: If a file cannot be written there.
    """
    try:
        target = Path(path).resolve()
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary = target.with_name(f".latenttrack-{secrets.token_hex(8)}.tmp")
        temporary.touch(exist_ok=False)
        temporary.unlink()
    except OSError as error:
        raise LatentTrackError(_explain(Path(path), error)) from error


@contextlib.contextmanager
def hold(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep a file that will be written again and again from a second process that would do the same.

    The lock is a file `.NAME.lock` beside it. The system gives it up however a process ends, so that what a
    killed one leaves behind is in nobody's way. On Windows, and where a file system knows no locks, nothing
    is held.

    Args:
        path: The file; it need not exist.

    Raises:
        LatentTrackError: If another process holds it.
    """
    target = Path(path).resolve()
    lock = target.with_name(f".{target.name}.lock")
    try:
        descriptor = _lock(lock)
    except BlockingIOError:
        raise LatentTrackError(
            f"{str(path)!r} is in use by another process: stop that one, or give a file of its own to each"
        ) from None
    except OSError as error:
        raise LatentTrackError(_explain(Path(path), error)) from error
    try:
        yield
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                lock.unlink()
            os.close(descriptor)


def _lock(lock: Path) -> int | None:
    """An open file that is locked, None where that cannot be; `BlockingIOError` if another has locked it."""
    if os.name == "nt":
        return None
    import fcntl

    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed it since it was opened here: then it protects nothing.
            if lock.exists() and os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
            os.close(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.ENOLCK, errno.ENOTSUP):
                return None
            raise


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder, and those above it, unless it is there.

    Args:
        path: The folder.

    Raises:
        LatentTrackError: If it cannot be made.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LatentTrackError(
            f"cannot make the folder {str(path)!r}: {error.strerror or error}; choose another place"
        ) from error


def _sync_directory(directory: Path) -> None:
    """Make a rename survive a power cut, where the system can sync a directory at all."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems have no such call; the file itself is complete there all the same.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _explain(path: Path, error: OSError) -> str:
    name = repr(str(path))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"cannot write {name}: permission denied; choose a place where you may write"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"cannot write {name}: the disk is full; free some space and try again"
    if path.is_dir():
        return f"cannot write {name}: it is a directory; give the name of a file"
    if not path.parent.is_dir():
        return f"cannot write {name}: {str(path.parent)!r} is not an existing directory; create it first"
    return f"cannot write {name}: {error.strerror or error}; choose another place"
