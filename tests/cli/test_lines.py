"""Lines of a descriptor: what is seen ahead, and what that may cost."""

import os

import pytest

from latenttrack.cli.lines import Lines, Stop


@pytest.fixture
def pipe():
    """The ends of a pipe, for reading and for writing."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_lines_are_seen_ahead_only_if_so_many_wait(pipe):
    reading, writing = pipe
    lines = Lines(reading, 100, Stop())
    os.write(writing, b"one\r\ntwo\nthr")
    assert lines.ahead(3) == []
    assert lines.ahead(2) == [b"one", b"two"]  # and again: nothing was taken
    assert lines.ahead(2) == [b"one", b"two"]
    lines.skip(1)
    os.write(writing, b"ee\n")
    assert lines.ahead(2) == [b"two", b"three"]
    assert [lines.read(), lines.read()] == [b"two", b"three"]
    assert lines.ahead(1) == []


def test_a_line_too_long_is_not_gathered(tmp_path):
    """Looking ahead reads no more than a line may be long, and leaves such a line to `read`."""
    (tmp_path / "long").write_bytes(b"x" * 10_000_000 + b"\n" + b"y\n" * 10)
    descriptor = os.open(tmp_path / "long", os.O_RDONLY)
    lines = Lines(descriptor, 1000, Stop())
    assert lines.ahead(4) == []
    assert len(lines._buffer) < 200_000
    assert lines.read() == b"x" * 1000
    assert lines.ahead(4) == [b"y"] * 4
    os.close(descriptor)
