"""Forges model files and snapshots, and reads them with little memory; run by test_hostile_files.py.

Arguments: a folder with `m.lt` and `s.state`. Prints one JSON object: case -> [seconds, what was said].
"""

import copy
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

import latenttrack as lt
from latenttrack.errors import LatentTrackError
from latenttrack.store import read_tensors, write_tensors

MEMORY = 4 * 2**30
HUGE = (10**9, 10**12, 10**30, -1, 0, True, 1.5, "3", None, [], {})


def set_at(place, path, value):
    *way, last = path
    for step in way:
        place = place[step]
    place[last] = value


def model_cases(header):
    stages = header["pipeline"]["stages"]
    kinds = [stage["kind"] for stage in stages]
    paths = [
        ("seeds",),
        ("task", "delay"),
        ("task", "names"),
        ("settings", "K"),
        ("settings", "hidden_size"),
        ("settings", "predictor"),
        ("settings", "pool"),
        ("settings", "latent_size"),
        ("feed", "delay"),
        ("feed", "horizon"),
        ("feed", "limits"),
        ("feed", "interval"),
        ("pipeline", "stages"),
        ("pipeline", "inputs"),
        ("pipeline", "stages", kinds.index("lags"), "pairs", 0, 1),
        ("pipeline", "stages", kinds.index("standardise"), "loc"),
        ("model",),
        ("task",),
        ("feed",),
        ("settings",),
    ]
    cases = [(path, value) for path in paths for value in HUGE]
    cases += [
        (("settings", "predictor"), [4] * 10**6),
        (("settings", "anchor"), "rls"),
        (("settings", "safety_net"), ["seasonal-naive"]),
        (("task", "period"), 10**9),
        (("pipeline", "stages", 0), {"kind": "calendar", "cycles": [["day", 10**9, 10**9]]}),
        (("pipeline", "stages", 0), {"kind": "calendar", "cycles": [["day", 0, 1]]}),
        (("pipeline", "stages", 0), {"kind": "lags", "pairs": [[10**9, 1]]}),
    ]
    return cases


def snapshot_cases(header):
    paths = [
        ("settings", "buffer"),
        ("settings", "alarm"),
        ("settings", "levels"),
        ("settings", "gate", "patience"),
        ("settings", "gate", "policy"),
        ("live", "first"),
        ("live", "base"),
        ("live", "ids"),
        ("live", "also"),
        ("live", "flags"),
        ("live", "leaps"),
        ("live", "leaps", "before"),
        ("live", "leaps", "doubted"),
        ("live", "leaps", "since"),
        ("live", "gate"),
        ("live", "gate", "runs"),
        ("live", "alarm"),
        ("live", "alarm", "capital"),
        ("live", "counts"),
        ("live",),
        ("settings",),
        ("of",),
        ("of", "seeds"),
        ("of", "task", "delay"),
        ("fingerprint",),
    ]
    return [(path, value) for path in paths for value in HUGE] + [(("settings", "levels"), [0.5] * 10**5)]


def tensor_cases(tensors):
    for name in sorted(tensors):
        if name.startswith("live."):
            array = tensors[name]
            yield name, None
            yield name, np.zeros((0,), array.dtype)
            yield name, np.zeros((3, 3, 3), array.dtype)
            yield name, array.astype(np.int32)
            yield name, np.concatenate([array, array]) if array.ndim else array


def attempt(read, path):
    begin = time.perf_counter()
    try:
        stream = read(path)
        for hour in range(3):
            stream.predict({"level": 1.0, "wind": 0.0}, time=f"2030-01-01T0{hour}:00:00")
        said = "ok"
    except LatentTrackError as error:
        said = str(error)
    except BaseException as error:
        said = f"BUG {type(error).__name__}: {error}"
    return time.perf_counter() - begin, said


def main():
    folder = Path(sys.argv[1])
    lt.load(folder / "m.lt").stream().predict({"level": 1.0}, time="2030-01-01")  # all is imported
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found, path = {}, folder / "hostile"

    def load(file):
        return lt.load(file).stream()

    for kind, name, cases, read in (
        ("model", "m.lt", model_cases, load),
        ("snapshot", "s.state", snapshot_cases, lt.resume),
    ):
        tensors, header = read_tensors(folder / name, kind)
        for way, value in cases(header):
            forged = copy.deepcopy(header)
            set_at(forged, way, value)
            write_tensors(path, tensors, forged, kind)
            found[f"{kind} {way} {str(value)[:60]}"] = attempt(read, path)
    for n, (which, array) in enumerate(tensor_cases(tensors)):
        forged = {key: value for key, value in tensors.items() if key != which}
        if array is not None:
            forged[which] = array
        write_tensors(path, forged, header, "snapshot")
        found[f"tensor {which} {n}"] = attempt(lt.resume, path)
    with path.open("r+b") as file:  # a file of terabytes that takes no room on the disk
        file.truncate(2**42)
    found["sparse"] = attempt(lt.load, path)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
