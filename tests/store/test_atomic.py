import errno
import os
import random
import subprocess
import sys
import time

import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.store.atomic import hold, open_atomic, require_writable, write_bytes

# Rewrites a file for ever, with one letter at a time, in many small pieces: a kill mostly lands in the midst.
REWRITER = """
import itertools, sys
from latenttrack.store.atomic import open_atomic
for count in itertools.count():
    letter = b"abcdefgh"[count % 8 :][:1]
    with open_atomic(sys.argv[1]) as file:
        for _ in range(64):
            file.write(letter * 4096)
            file.flush()
    if count == 0:
        print("ready", flush=True)
"""


def is_whole(content: bytes) -> bool:
    return len(content) == 64 * 4096 and content == content[:1] * len(content)


def test_places_that_can_be_written_are_left_as_they_are(tmp_path):
    (tmp_path / "file").write_bytes(b"one")
    require_writable(tmp_path / "file")
    require_writable(tmp_path / "new")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("file", b"one")]
    with pytest.raises(LatentTrackError, match="is a directory"):
        require_writable(tmp_path)
    with pytest.raises(LatentTrackError, match="not an existing directory"):
        require_writable(tmp_path / "nowhere" / "file")


def test_new_file_and_replacement(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"one")
    assert path.read_bytes() == b"one"
    write_bytes(str(path), b"")
    assert path.read_bytes() == b""
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_old_content_is_there_until_the_block_ends(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with open_atomic(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt(), RuntimeError("in the block"), LatentTrackError("ours")]
)
def test_failure_in_the_block_passes_through_and_leaves_no_trace(tmp_path, failure):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write_half():
        with open_atomic(path) as file:
            file.write(b"half")
            raise failure

    with pytest.raises(type(failure)) as caught:
        write_half()
    assert caught.value is failure
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "disk is full"),
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "permission denied"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_system_errors_become_one_sentence(tmp_path, monkeypatch, call, number, words):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def broken(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, broken)
    with pytest.raises(LatentTrackError, match=words) as caught:
        write_bytes(path, b"new")
    monkeypatch.undo()
    assert repr(str(path)) in str(caught.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_without_write_permission(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LatentTrackError, match="permission denied"):
            write_bytes(tmp_path / "file", b"")
    finally:
        tmp_path.chmod(0o700)


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(LatentTrackError, match="is not an existing directory; create it first"):
        write_bytes(tmp_path / "missing" / "file", b"")
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(LatentTrackError, match="is not an existing directory"):
        write_bytes(tmp_path / "plain" / "file", b"")
    (tmp_path / "directory").mkdir()
    with pytest.raises(LatentTrackError, match="it is a directory"):
        write_bytes(tmp_path / "directory", b"")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["directory", "plain"]


def test_file_system_without_directory_sync_is_fine(tmp_path, monkeypatch):
    real = os.fsync

    def picky(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", picky)
    write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_modes_and_links_are_kept(tmp_path):
    path = tmp_path / "file"
    previous = os.umask(0o027)
    try:
        write_bytes(path, b"one")
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    link = tmp_path / "link"
    link.symlink_to(path)
    write_bytes(link, b"two")
    assert link.is_symlink()
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o604


def test_killed_writer_never_leaves_half_a_file(tmp_path):
    path = tmp_path / "file"
    random_delay = random.Random(0)
    seen = set()
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", REWRITER, path], stdout=subprocess.PIPE) as writer:
            try:
                assert writer.stdout.readline() == b"ready\n"
                end = time.monotonic() + random_delay.uniform(0.02, 0.08)
                while time.monotonic() < end:
                    content = path.read_bytes()
                    assert is_whole(content)
                    seen.add(content[:1])
            finally:
                writer.kill()
        assert is_whole(path.read_bytes())
    assert len(seen) > 1  # it really was being rewritten


HOLDER = """
import sys
from latenttrack.store.atomic import hold
with hold(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(path):
    command = [sys.executable, "-c", HOLDER, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_file_that_another_process_holds_is_refused(tmp_path):
    path, link = tmp_path / "s.state", tmp_path / "link"
    link.symlink_to(path)
    with start_holder(path) as other:
        for name in (path, link):
            with pytest.raises(LatentTrackError, match="in use by another process"), hold(name):
                pass
        with hold(tmp_path / "else"):  # its neighbours are free
            pass
        other.communicate("")
    with hold(path):
        assert not path.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["link"]  # no lock is left behind


def test_a_killed_process_holds_nothing(tmp_path):
    with start_holder(tmp_path / "s.state") as victim:
        victim.kill()
    with hold(tmp_path / "s.state"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_that_was_removed_in_between_protects_nothing(tmp_path, monkeypatch):
    """Opened just before its holder removed it: another one is made."""
    lock, opened = tmp_path / ".s.state.lock", os.open

    def open_and_lose(path, *options):
        descriptor = opened(path, *options)
        monkeypatch.setattr(os, "open", opened)
        lock.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)
    with hold(tmp_path / "s.state"):
        assert lock.exists()
        with pytest.raises(LatentTrackError, match="in use"), hold(tmp_path / "s.state"):
            pass
