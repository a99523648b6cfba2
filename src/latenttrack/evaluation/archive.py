"""Records on disk: one Parquet file for each model, one row for each step of each seed."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import FIELDS, PLACES, Records
from latenttrack.store.atomic import open_atomic

_FACTS = b"latenttrack"
_VERSION = 1
_EXACT = dict.fromkeys(PLACES, np.float64)  # of the rest, single precision is all there is


def write_records(path: str | Path, records: Records) -> None:
    """Write the records of one model, atomically.

    Columns: `seed`, `step` (row of the series), `time`, `key`, `y`, and those of `FIELDS`. The rest (model,
    target, parameters, ...) stands as JSON in the file's metadata.
    """
    pa, pq = _pyarrow()
    seeds, n = records.steps["nll"].shape
    names = np.asarray(records.keys, dtype=object)
    columns = {
        "seed": np.repeat(np.arange(seeds, dtype=np.int16), n),
        "step": np.tile(np.arange(n, dtype=np.int32), seeds),
        "time": np.tile(records.time, seeds),
        "key": pa.array(np.tile(names[records.key], seeds)).dictionary_encode(),
        "y": np.tile(records.y, seeds),
    } | {name: records.steps[name].astype(_EXACT.get(name, np.float32)).ravel() for name in FIELDS}
    facts = {
        "version": _VERSION,
        "model": records.model,
        "target": records.target,
        "keys": list(records.keys),
        "seeds": seeds,
        "parameters": records.parameters,
        "microseconds": None if math.isnan(records.microseconds) else records.microseconds,
    }
    table = pa.table(columns).replace_schema_metadata({_FACTS: json.dumps(facts).encode()})
    with open_atomic(path) as file:
        # Byte-stream splitting suits floating-point noise: a third smaller than dictionaries.
        floats = [name for name in FIELDS if name in columns]
        pq.write_table(
            table,
            file,
            compression="zstd",
            use_dictionary=["seed", "key"],
            use_byte_stream_split=floats,
            row_group_size=max(n, 1),
        )


def read_records(path: str | Path, seed: int | None = None) -> Records:
    """Read the records of one model.

    Args:
        path: written by `write_records`.
        seed: read this seed alone, which is quicker; None reads all.

    Returns:
        Records with arrays [seeds, N] ([1, N] for a single seed).
    """
    pa, pq = _pyarrow()
    try:
        with pq.ParquetFile(path) as file:
            facts = json.loads((file.schema_arrow.metadata or {})[_FACTS])
            if facts["version"] != _VERSION:
                raise LatentTrackError(
                    f"{path} was written by another version of latenttrack: run the bench again"
                )
            if seed is not None and not 0 <= seed < facts["seeds"]:
                raise LatentTrackError(f"{path} has no seed {seed}: it has {facts['seeds']}, counted from 0")
            # One row group for each seed, in order.
            table = file.read() if seed is None else file.read_row_group(seed)
    except FileNotFoundError:
        raise LatentTrackError(f"there is no file {path}: run `latenttrack bench` first") from None
    except (pa.ArrowException, KeyError, ValueError, OSError, IndexError) as error:
        raise LatentTrackError(f"{path} cannot be read as records of a bench ({error})") from None
    seeds = facts["seeds"] if seed is None else 1
    first = table.slice(0, len(table) // seeds)
    keys = tuple(facts["keys"])
    index = {name: i for i, name in enumerate(keys)}
    return Records(
        model=facts["model"],
        time=first["time"].to_numpy(),
        key=np.array([index[k] for k in first["key"].to_pylist()], dtype=np.int32),
        keys=keys,
        target=facts["target"],
        y=first["y"].to_numpy(),
        steps={name: table[name].to_numpy().reshape(seeds, -1) for name in FIELDS},
        parameters=facts["parameters"],
        microseconds=float("nan") if facts["microseconds"] is None else facts["microseconds"],
    )


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise LatentTrackError(
            'records are kept as Parquet, which needs pyarrow: run pip install "latenttrack[data]".'
        ) from None
    return pa, pq
