"""Model files and snapshots that were forged, checksum and all: refused soon, in little memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_streams import make_model, make_raw

SECONDS = 20.0  # on a busy machine; building and compiling the true model takes a few


@pytest.mark.slow
def test_forged_files_are_refused_or_harmless(tmp_path):
    raw = make_raw(60)
    model = make_model(raw)
    model.save(tmp_path / "m.lt")
    stream = model.stream(buffer=20)
    for t in range(50):
        stream.predict(raw.x[t], time=raw.time[t], id=t)
    stream.snapshot(tmp_path / "s.state")
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    script = Path(__file__).with_name("hostile_files.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) > 450
    bugs = {case: said for case, (_, said) in found.items() if said.startswith("BUG")}
    assert not bugs
    assert not {case: seconds for case, (seconds, _) in found.items() if seconds > SECONDS}
    for _, said in found.values():
        assert "\n" not in said
        assert len(said) < 600
    harmless = [case for case, (_, said) in found.items() if said == "ok"]
    # An interval of 1e9 or 1e12 nanoseconds is a second or a quarter of an hour.
    assert not [case for case in harmless if "10000" in case and "interval" not in case], harmless
