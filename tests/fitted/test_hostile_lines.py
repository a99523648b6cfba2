"""Ten thousand lines that are wrong in every way: one answer each, strict JSON, numbers throughout."""

import json
import os
import random
import subprocess
import sys

import pytest
from tiny_streams import make_model, make_raw, without_source

from latenttrack.cli.lines import Lines, Output, Stop
from latenttrack.cli.session import Session
from latenttrack.errors import LatentTrackError
from latenttrack.fitted.events import LONGEST_LINE, answer

COUNT = 10_000
WRONG = [
    "null",
    "true",
    "NaN",
    "-Infinity",
    "1e400",
    "-1e308",
    "3e38",
    "1" * 400,
    "1" * 5000,
    '""',
    '"x"',
    '"\\ud800"',
    '"1_0"',
    "[]",
    "{}",
    "[" * 900 + "]" * 900,
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 500 + "1" + "}" * 500,
    '"9999-12-31T23:59:59"',
    '"0001-01-01"',
    '"2026-13-45"',
    '"2026-01-01T00:00:00+99:99"',
    '"' + "y" * 5000 + '"',
    "-0.0",
    "9223372036854775808",
    "8.9e9",
]


def event(raw, i):
    when = str(raw.time[i].astype("datetime64[s]"))
    return {"id": f"e{i}", "time": when, "x": {"level": raw.x[i, 0], "wind": raw.x[i, 1]}, "y": raw.x[i, 0]}


def mutate(rng, line):
    """A line that is wrong in some way, or just unusual."""
    data = bytearray(line)
    kind = rng.randrange(10)
    if kind == 0:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 3:
        data.insert(rng.randrange(len(data)), 0)
    elif kind == 4:
        data = data * rng.randint(2, 4)
    elif kind <= 8:
        fields = json.loads(line)
        inner = fields["x"] if "x" in fields and rng.random() < 0.5 else fields
        name = rng.choice([*inner, "x", "y", "time", "id", "level"])
        inner[name] = "@"
        text = json.dumps(fields).replace('"@"', rng.choice(WRONG))
        if kind == 8:  # a name twice
            text = text[:-1] + f', "{name}": {rng.choice(WRONG)}}}'
        data = bytearray(text.encode())
    else:
        data = bytearray(
            rng.choice([b"", b"  ", b"\xff\xfe", b"\xef\xbb\xbf" + line, b'"' * 50, b"[1]", b"nan"])
        )
    return bytes(data).replace(b"\n", b" ")


def hostile_lines(raw, count, seed=0):
    rng, lines, i = random.Random(seed), [], 0
    while len(lines) < count:
        good = event(raw, i % len(raw))
        if rng.random() < 0.3:
            del good["x"]
        line = json.dumps(good).encode()
        if rng.random() < 0.03:
            lines.append(line)
            i += 1
        else:
            lines.append(mutate(rng, line))
    # Too long, within and beyond what is read at once.
    lines[100] = b'{"x": {"level": ' + b" " * LONGEST_LINE + b"1}}"
    lines[200] = b"[" * (3 * LONGEST_LINE)
    lines[300] = json.dumps({**event(raw, 5), "x": {f"name {n}": n for n in range(20_000)}}).encode()
    return lines


def strict(line):
    def refuse(word):
        raise AssertionError(f"{word} in {line[:200]}")

    return json.loads(line, parse_constant=refuse)


def check(lines, said):
    """One answer a line, errors with its number and one short sentence, forecasts all of numbers."""
    numbers = [n for n, line in enumerate(lines, 1) if line.strip()]
    assert len(said) == len(numbers)
    errors = 0
    for number, line in zip(numbers, said, strict=True):
        found = strict(line)
        assert len(line) < 3000
        if "error" in found:
            errors += 1
            assert found["line"] == number
            assert "\n" not in found["error"]
            assert len(found["error"]) < 400
        elif "mean" in found:
            assert None not in (found["mean"], found["std"], *found["quantiles"].values())
        else:
            assert found["label"]
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["hold", "off"])
def test_every_line_has_one_answer(tmp_path, gate):
    raw = make_raw(120)
    lines = hostile_lines(raw, COUNT if gate == "hold" else COUNT // 5, seed=len(gate))
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"\n".join(lines) + b"\n")
    stream, stop = without_source(make_model(raw)).stream(gate=gate, buffer=20), Stop()
    into, out_of = os.open(source, os.O_RDONLY), os.open(out, os.O_RDWR | os.O_CREAT)
    try:
        Session(stream, Lines(into, LONGEST_LINE + 1, stop), Output(out_of, "out", False), stop).run(False)
    finally:
        os.close(into)
        os.close(out_of)
    assert check(lines, out.read_bytes().splitlines()) > len(lines) / 2
    stream.snapshot(tmp_path / "s.state")
    assert (tmp_path / "s.state").stat().st_size < 200_000


def test_a_line_that_is_refused_changes_nothing():
    raw = make_raw(60)
    model = without_source(make_model(raw))
    plain, disturbed = model.stream(), model.stream()
    lines = hostile_lines(raw, 310, seed=3)
    rng = random.Random(0)
    for i in range(20):
        good = json.dumps(event(raw, i)).encode()
        assert answer(plain, good) == answer(disturbed, good)
        for line in rng.sample(lines, 10):
            before = (len(disturbed.log), disturbed.counts["labels"], disturbed.counts["events"])
            try:
                answer(disturbed, line)
            except LatentTrackError:
                assert before == (len(disturbed.log), disturbed.counts["labels"], disturbed.counts["events"])
            else:  # it made sense: both shall hear it
                answer(plain, line)


@pytest.mark.slow
def test_in_a_process_of_its_own(tmp_path):
    raw = make_raw(120)
    lines = hostile_lines(raw, 320, seed=9)
    without_source(make_model(raw)).save(tmp_path / "m.lt")
    command = [
        sys.executable,
        "-c",
        "from latenttrack.cli.main import main; main()",
        "stream",
        tmp_path / "m.lt",
    ]
    environment = {**os.environ, "LATENTTRACK_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        command, input=b"\n".join(lines), capture_output=True, timeout=120, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, b"")
    check(lines, done.stdout.splitlines())
