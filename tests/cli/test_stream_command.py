"""`latenttrack stream` in real processes: killed, stopped, cut off, and without a disk to write to."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny_streams import make_model, make_raw

import latenttrack as lt

COMMAND = [sys.executable, "-c", "from latenttrack.cli.main import main; main()", "stream"]
KILLS = 50
LINES = 150
pytestmark = pytest.mark.slow  # starting a process takes seconds
FAR = 120.0  # seconds that no process should need, on a busy machine


def to_lines(raw, rows):
    lines = []
    for i in rows:
        when = str(raw.time[i].astype("datetime64[s]"))
        lines.append(json.dumps({"time": when, "x": {"level": raw.x[i, 0], "wind": raw.x[i, 1]}}))
        if i % 10 == 3:  # a label that is corrected, and lines that make no sense
            lines.append(json.dumps({"time": when, "y": raw.x[i, 0] + 0.5}))
        if i % 25 == 7:
            lines += ["", "nonsense", '{"y": 1}', '{"id": []}']
    return [line.encode() + b"\n" for line in lines]


@dataclass
class Place:
    """A model, an input, and what a run without interruption says to it."""

    model: Path
    lines: list[bytes]
    environment: dict[str, str]
    said: bytes = b""

    def start(self, *options, kibibytes=None, **pipes):
        """A process; no file that it writes may become longer than so many kibibytes."""
        limit = [] if kibibytes is None else ["bash", "-c", f'ulimit -f {kibibytes}; exec "$@"', "bash"]
        command = [*limit, *COMMAND, str(self.model), *map(str, options)]
        return subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, **pipes)

    def run(self, *options, code=0, **pipes):
        """What a run that ends with `code` writes to its standard output and standard error."""
        feed = pipes.pop("input", None)
        if feed is not None:
            pipes["stdin"] = subprocess.PIPE
        with self.start(
            *options, **{"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL, **pipes}
        ) as process:
            said, errors = process.communicate(feed, timeout=FAR)
        assert process.returncode == code, errors.decode()
        assert b"Traceback" not in errors
        return said, errors.decode()

    def refusal(self, *options, code=2, **pipes):
        """The one sentence with which a run ends; before it, how many lines were skipped."""
        *skipped, sentence = self.run(*options, code=code, **pipes)[1].splitlines()
        assert all("lines that were answered before" in note for note in skipped)
        assert sentence.startswith("latenttrack: ")
        return sentence


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    raw = make_raw(LINES)
    make_model(raw).save(folder / "m.lt")
    environment = {**os.environ, "LATENTTRACK_CACHE": str(folder / "cache"), "LATENTTRACK_DEBUG": ""}
    environment.pop("PYTHONUNBUFFERED", None)
    found = Place(folder / "m.lt", to_lines(raw, range(LINES)), environment)
    found.said = found.run(input=b"".join(found.lines))[0]
    assert found.said.count(b"\n") == sum(bool(line.strip()) for line in found.lines)
    assert found.said.count(b'"error"') == 3 * len(range(7, LINES, 25))
    return found


@pytest.fixture
def whole(place, tmp_path):
    """A file with the whole input."""
    (tmp_path / "in.jsonl").write_bytes(b"".join(place.lines))
    return tmp_path / "in.jsonl"


def has_changed(path, before):
    return path.exists() and path.stat().st_size not in (before, 0)


def wait_for(condition, process=None):
    """Whether it came true before the process ended."""
    end = time.monotonic() + FAR
    while not condition():
        if process is not None and process.poll() is not None:
            return False
        assert time.monotonic() < end
        time.sleep(0.002)
    return True


def killed_lives(place, folder, kills, seed):
    """Start, kill at a random moment and start again; returns how many were killed at work."""
    rng, at_work = random.Random(seed), 0
    source, out, snapshot = folder / "in.jsonl", folder / "out.jsonl", folder / "s.state"
    source.write_bytes(b"".join(place.lines))
    options = ("--in", source, "--out", out, "--snapshot", snapshot, "--every", rng.choice([0, 0.01]))
    for number in range(kills):
        before = out.stat().st_size if out.exists() else 0
        with place.start(*options, stdout=subprocess.DEVNULL) as process:
            if number % 8 == 7:  # also while it starts
                time.sleep(rng.uniform(0.0, 3.0))
            elif wait_for(lambda size=before: has_changed(out, size), process):
                at_work += 1
                time.sleep(rng.expovariate(30.0))
            process.kill()
    place.run(*options)
    assert out.read_bytes() == place.said
    return at_work


def test_killed_at_random_it_says_the_same(place, tmp_path):
    """Nothing is lost and nothing said twice, however often the process dies."""
    lanes = 2
    folders = [tmp_path / str(lane) for lane in range(lanes)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(lanes) as pool:
        at_work = list(
            pool.map(killed_lives, [place] * lanes, folders, [KILLS // lanes] * lanes, range(lanes))
        )
    assert sum(at_work) > KILLS / 2


def test_a_pipe_restarted_with_the_same_input(place, tmp_path):
    """Lines that were answered before are skipped; the two outputs together are the whole."""
    snapshot = tmp_path / "s.state"
    half = len(place.lines) // 2
    first, _ = place.run("--snapshot", snapshot, input=b"".join(place.lines[:half]))
    second, _ = place.run("--snapshot", snapshot, input=b"".join(place.lines))
    assert first + second == place.said
    # Nothing came, so nothing has changed: the whole input is still known.
    assert place.run("--snapshot", snapshot)[0] == b""
    assert place.run("--snapshot", snapshot, input=b"".join(place.lines))[0] == b""


def test_a_pipe_continued_with_what_comes_next(place, tmp_path):
    snapshot = tmp_path / "s.state"
    half = len(place.lines) // 2
    parts = [b"".join(place.lines[:half]), b"".join(place.lines[half:])]
    said = b"".join(place.run("--snapshot", snapshot, input=part)[0] for part in parts)
    # Errors count the lines of their own input.
    assert without_numbers(said) == without_numbers(place.said)
    # An input that begins as the last one did, and is another.
    begin, end = place.lines[half : half + 20], place.lines[half + 20 :]
    other = b"".join(begin) + b"".join(end).replace(b'"wind": ', b'"wind": 1')
    assert "another one by line" in place.refusal("--snapshot", snapshot, input=other)


def test_a_file_that_grows_in_the_middle_of_a_line(place, tmp_path):
    """The half line is left, and read whole by the next run; one that is whole but for its end is not."""
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    options = ("--in", source, "--out", out, "--snapshot", tmp_path / "s.state")
    data = b"".join(place.lines)
    for end in (2000, len(b"".join(place.lines[:25])) - 1, 4000):
        source.write_bytes(data[:end])
        _, errors = place.run(*options)
        begun = data[:end].count(b"\n") + 1
        assert (f"line {begun} is not whole yet" in errors) == (end % 1000 == 0)
    source.write_bytes(data)
    assert "skipped" in place.run(*options)[1]
    assert out.read_bytes() == place.said
    # Without a snapshot nobody comes again: the half line is answered.
    source.write_bytes(data[:2000])
    assert b'"error"' in place.run("--in", source)[0].splitlines()[-1]


def test_lines_that_do_not_say_which_step_are_new_in_a_pipe(place, tmp_path):
    """The same words again are the next event; in a file they are what was answered before."""
    timed, snapshot = place.lines[0], tmp_path / "s.state"
    plain = json.dumps({"x": json.loads(timed)["x"]}).encode() + b"\n"
    _, errors = place.run("--snapshot", snapshot, input=timed)
    said, errors = place.run("--snapshot", snapshot, input=timed)
    assert (said, errors) == (b"", "latenttrack: skipped 1 line that were answered before\n")
    for step in (1, 2, 3):
        said, errors = place.run("--snapshot", snapshot, input=plain)
        assert (json.loads(said)["step"], errors) == (step, "")
    (tmp_path / "in.jsonl").write_bytes(plain)
    said, errors = place.run("--snapshot", snapshot, "--in", tmp_path / "in.jsonl")
    assert (said, errors) == (b"", "latenttrack: skipped 1 line that were answered before\n")


def without_numbers(said):
    lines = [json.loads(line) for line in said.splitlines()]
    return [{name: value for name, value in line.items() if name != "line"} for line in lines]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_told_to_stop_it_keeps_all(place, tmp_path, number):
    """Busy or waiting for the next line: what was answered is in the snapshot, and the rest is not."""
    snapshot, out, half = tmp_path / "s.state", tmp_path / "out.jsonl", len(place.lines) // 2
    options = ("--snapshot", snapshot, "--every", 1000, "--out", out)
    with place.start(*options, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        process.stdin.write(b"".join(place.lines[:half]))
        process.stdin.flush()
        wait_for(lambda: has_changed(out, 0), process)
        process.send_signal(number)
        assert process.wait(FAR) == 0
        assert process.stderr.read() == b""
    # All that had been read is answered, so that a producer may go on where it was.
    said = out.read_bytes()
    assert place.said.startswith(said)
    assert said.count(b"\n") == sum(bool(line.strip()) for line in place.lines[:half])
    place.run(*options, input=b"".join(place.lines))
    assert out.read_bytes() == place.said


def test_a_redirected_output(place, tmp_path, whole):
    """`>` and then `>>`: the file holds all, once, and what others wrote before it."""
    out, snapshot = tmp_path / "out.jsonl", tmp_path / "s.state"
    out.write_bytes(b"a line of somebody else\n")
    half = b"".join(place.lines[: len(place.lines) // 2])
    with out.open("ab") as file:
        place.run("--snapshot", snapshot, input=half, stdout=file)
    with out.open("ab") as file:
        file.write(b'{"torn')  # as if killed while writing
    with out.open("ab") as file:
        place.run("--snapshot", snapshot, "--in", whole, stdout=file)
    assert out.read_bytes() == b"a line of somebody else\n" + place.said
    with (tmp_path / "plain.jsonl").open("wb") as file:
        place.run("--in", whole, stdout=file)
    assert (tmp_path / "plain.jsonl").read_bytes() == place.said


def test_a_closed_output_ends_quietly(place, tmp_path, whole):
    """As in `| head -1`; and what was not heard is said again."""
    snapshot = tmp_path / "s.state"
    with place.start("--in", whole, "--snapshot", snapshot, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == place.said.splitlines(keepends=True)[0]
        process.stdout.close()
        assert process.wait(FAR) == 0
        assert process.stderr.read() == b""
    said, _ = place.run("--in", whole, "--snapshot", snapshot)
    assert place.said.endswith(said)
    assert said.count(b"\n") > 1


def test_a_full_disk_is_one_sentence(place, tmp_path, whole):
    """The last good snapshot stays, and the run can go on from it."""
    assert "the disk is full" in place.refusal("--in", whole, "--out", "/dev/full")
    snapshot, out, half = tmp_path / "s.state", tmp_path / "out.jsonl", len(place.lines) // 2
    options = ("--snapshot", snapshot, "--out", out)
    place.run(*options, input=b"".join(place.lines[:half]))
    good, room = snapshot.read_bytes(), out.stat().st_size // 1024 + 2
    environment = {**place.environment, "LATENTTRACK_CACHE": str(tmp_path / "nowhere")}
    small = Place(place.model, place.lines, environment)
    assert "cannot write" in small.refusal(*options, "--in", whole, kibibytes=room)
    assert snapshot.read_bytes() == good
    place.run(*options, "--in", whole)
    assert out.read_bytes() == place.said


def test_a_snapshot_that_does_not_fit(place, tmp_path, whole):
    """The snapshot is larger than the disk has room for: known before the first answer."""
    options = ("--snapshot", tmp_path / "s.state", "--out", tmp_path / "out.jsonl", "--in", whole)
    environment = {**place.environment, "LATENTTRACK_CACHE": str(tmp_path / "nowhere")}
    sentence = Place(place.model, place.lines, environment).refusal(*options, kibibytes=2)
    assert "s.state" in sentence
    assert not (tmp_path / "s.state").exists()
    assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.fixture(scope="module")
def snapshot(place, tmp_path_factory):
    path = tmp_path_factory.mktemp("snapshot") / "s.state"
    lt.load(place.model).stream().snapshot(path)
    return path


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: b"", "is empty"),
        (lambda data: data[:-7], "cut short"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "damaged"),
        (lambda data: b"something else", "not a latenttrack file"),
    ],
    ids=["empty", "truncated", "flipped", "foreign"],
)
def test_a_broken_snapshot_is_refused_and_left_alone(place, tmp_path, whole, snapshot, spoil, words):
    path, out = tmp_path / "s.state", tmp_path / "out.jsonl"
    path.write_bytes(spoil(snapshot.read_bytes()))
    out.write_bytes(b"kept")
    before = path.read_bytes()
    assert words in place.refusal("--in", whole, "--snapshot", path, "--out", out)
    assert path.read_bytes() == before
    assert out.read_bytes() == b"kept"


def test_a_snapshot_of_another_model_or_with_other_choices(place, tmp_path, whole, snapshot):
    other = tmp_path / "other.lt"
    make_model(make_raw(LINES), features=2).save(other)
    path = Path(shutil.copy(snapshot, tmp_path / "s.state"))
    stranger = Place(other, place.lines, place.environment)
    assert "another model" in stranger.refusal("--in", whole, "--snapshot", path)
    assert "--gate hold" in place.refusal("--in", whole, "--snapshot", path, "--gate", "off")
    assert path.read_bytes() == snapshot.read_bytes()
    out = tmp_path / "out.jsonl"
    place.run("--snapshot", path, "--out", out, input=b"".join(place.lines[:9]))
    out.write_bytes(b"x" * 10_000)
    assert "does not hold" in place.refusal("--snapshot", path, "--in", whole, "--out", out)
    assert out.read_bytes() == b"x" * 10_000


def test_files_are_checked_before_the_stream_starts(place, tmp_path, whole):
    nowhere = tmp_path / "no" / "s.state"
    assert "not an existing directory" in place.refusal("--in", whole, "--snapshot", nowhere)
    assert "cannot read" in place.refusal("--in", tmp_path / "none.jsonl")
    assert "directory" in place.refusal("--in", tmp_path)
    assert "cannot write" in place.refusal("--in", whole, "--out", tmp_path / "no" / "out.jsonl")
    assert "different files" in place.refusal("--in", whole, "--out", whole)
    assert "different files" in place.refusal("--in", whole, "--out", place.model)
    assert "different files" in place.refusal("--in", whole, "--snapshot", place.model)
    assert whole.read_bytes() == b"".join(place.lines)


def test_strict_stops_at_the_line(place, tmp_path, whole):
    sentence = place.refusal("--in", whole, "--out", tmp_path / "out.jsonl", "--strict")
    number = place.lines.index(b"nonsense\n") + 1
    assert sentence.startswith(f"latenttrack: line {number}: the line is not JSON")
    assert place.said.startswith((tmp_path / "out.jsonl").read_bytes())


def test_an_idle_stream_is_kept(place, tmp_path):
    """A snapshot is not put off until the next line."""
    snapshot = tmp_path / "s.state"
    with place.start(
        "--snapshot", snapshot, "--every", 0.3, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.write(place.lines[0])
        process.stdin.flush()
        process.stdout.readline()
        wait_for(lambda: lt.resume(snapshot).extra["read"] == 1)
        process.kill()


def test_a_second_process_with_the_same_snapshot_is_refused(place, whole, tmp_path):
    """And does no harm to the first, which is killed at last: then there is nobody to wait for."""
    out, snapshot = tmp_path / "out.jsonl", tmp_path / "s.state"
    options = ("--out", out, "--snapshot", snapshot, "--every", 0)
    with place.start(*options, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as first:
        first.stdin.write(b"".join(place.lines[:20]))
        first.stdin.flush()
        assert wait_for(lambda: has_changed(out, 0) and snapshot.exists(), first)
        sentence = place.refusal("--in", whole, "--out", tmp_path / "other.jsonl", "--snapshot", snapshot)
        assert "in use by another process" in sentence
        first.kill()
    place.run("--in", whole, *options)
    assert out.read_bytes() == place.said
    assert not list(tmp_path.glob(".*"))
