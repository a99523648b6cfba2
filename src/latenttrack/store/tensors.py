"""The one file format: named arrays and a JSON header, checked from the first byte to the last.

A file is plain safetensors, so any safetensors reader opens it. Its metadata has one entry, `latenttrack`,
a JSON object: `checksum`, `kind`, `schema`, `created_with`, then the caller's own header fields. The checksum
comes first and so always lies at the same place; it is the SHA-256 of the whole file with its own 64 digits
set to "0". Every schema, also a later one, keeps this beginning and this rule: an old reader can then
tell a newer file from a damaged one.
"""

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from latenttrack.errors import LatentTrackError
from latenttrack.store.atomic import write_bytes

SCHEMA = 1
MAX_HEADER_BYTES = 16 * 2**20
MAX_HEADER_DEPTH = 64
MAX_FILE_BYTES = 2**30

_DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U32": np.dtype("<u4"),
    "BOOL": np.dtype("bool"),
}
# What no longer parses as the structure expected; RecursionError is deep nesting.
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_SIZE_BYTES = 8  # safetensors: the header's length, little-endian
_BEGINNING = rb'{"__metadata__":{"latenttrack":"{\"checksum\":\"'
_BLANK = b"0" * 64
_CHECKSUM = slice(_SIZE_BYTES + len(_BEGINNING), _SIZE_BYTES + len(_BEGINNING) + len(_BLANK))


@dataclass(frozen=True)
class Stored:
    """All that a latenttrack file holds.

    Attributes:
        kind: What it is, such as "model" or "snapshot".
        schema: The version of the file format.
        created_with: The version of latenttrack that wrote it.
        header: The fields its writer gave.
        tensors: Arrays by name, of any shapes.
    """

    kind: str
    schema: int
    created_with: str
    header: dict[str, Any]
    tensors: dict[str, np.ndarray]


def write_tensors(
    path: str | os.PathLike[str], tensors: dict[str, np.ndarray], header: dict[str, Any], kind: str
) -> None:
    """Write arrays and a header atomically; equal contents give equal bytes.

    Args:
        path: Where the file shall be; its directory must exist.
        tensors: Arrays by name, of any shapes; float32, float64, int32, int64, uint32 or bool.
        header: What JSON can hold, without NaN or infinity; tuples come back as lists.
        kind: What the file is, such as "model" or "snapshot".

    Raises:
        LatentTrackError: If the contents cannot be stored, or the file cannot be written.
    """
    name = repr(str(path))
    arrays = {key: _storable(name, key, array) for key, array in tensors.items()}
    fields = {
        "checksum": _BLANK.decode(),
        "kind": kind,
        "schema": SCHEMA,
        "created_with": version("latenttrack"),
    }
    clash = sorted(fields.keys() & header.keys())
    if clash:
        raise LatentTrackError(f"cannot write {name}: the header field {clash[0]!r} is reserved; rename it")
    try:
        text = json.dumps(fields | header, separators=(",", ":"), allow_nan=False)
        too_deep = _is_too_deep(json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise LatentTrackError(
            f"cannot write {name}: the header is not plain JSON ({error}); give only finite numbers, text, "
            "booleans, None, lists and dicts"
        ) from error
    data = bytearray(save(arrays, metadata={"latenttrack": text}))
    if too_deep or _header_end(data) > _SIZE_BYTES + MAX_HEADER_BYTES:
        raise LatentTrackError(
            f"cannot write {name}: its header is over 16 MiB or nested over {MAX_HEADER_DEPTH} deep; "
            "move long lists into tensors"
        )
    if len(data) > MAX_FILE_BYTES:
        raise LatentTrackError(f"cannot write {name}: it would have more than {MAX_FILE_BYTES >> 30} GiB")
    data[_CHECKSUM] = _digest(data)
    write_bytes(path, data)


def read_tensors(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a file of one kind back, bit for bit.

    Args:
        path: A file that `write_tensors` wrote.
        kind: The kind it must be.

    Returns:
        The arrays by name, writable, and the header as it was given to `write_tensors`.

    Raises:
        LatentTrackError: If the file is missing, foreign, damaged, too new or of another kind.
    """
    stored = read_any(path)
    if stored.kind != kind:
        raise LatentTrackError(
            f"{str(path)!r} is a file of kind {stored.kind!r}, but {kind!r} is wanted here; "
            f"give a file of kind {kind!r}"
        )
    return stored.tensors, stored.header


def read_any(path: str | os.PathLike[str]) -> Stored:
    """Read a file of any kind, with every check that `read_tensors` makes but that of the kind.

    Args:
        path: A file that `write_tensors` wrote.

    Returns:
        Its whole contents.

    Raises:
        LatentTrackError: If the file is missing, foreign, damaged or too new.
    """
    if not isinstance(path, str | os.PathLike):
        raise LatentTrackError(
            f"a file is named by a text or a path, and this is of type {type(path).__name__}: give its name"
        )
    name = repr(str(path))
    data = _read_bytes(Path(path), name)
    if data[_CHECKSUM] != _digest(data):
        raise _truncated(name) if len(data) < _announced_size(data) else _damaged(name)
    fields = _fields(data, name)
    schema, kind, created_with = (fields.pop(key, None) for key in ("schema", "kind", "created_with"))
    if (
        type(schema) is not int
        or schema < 1
        or not isinstance(kind, str)
        or not isinstance(created_with, str)
    ):
        raise _damaged(name)
    if schema > SCHEMA:
        raise LatentTrackError(
            f"{name} was made by a newer latenttrack ({created_with!r}, file schema {schema}; "
            f"this one reads up to {SCHEMA}); upgrade latenttrack to read it"
        )
    return Stored(kind, schema, created_with, header=fields, tensors=_tensors(data, name))


def _storable(file: str, name: object, array: np.ndarray) -> np.ndarray:
    """The array laid out as safetensors wants it, or an error that names it."""
    # A lone surrogate has no UTF-8 form, and "__metadata__" is where safetensors keeps the header.
    if (
        not isinstance(name, str)
        or name == "__metadata__"
        or any("\ud800" <= letter <= "\udfff" for letter in name)
    ):
        raise LatentTrackError(f"cannot write {file}: {name!r} cannot name a tensor; rename it")
    dense = np.asarray(array, order="C")
    if dense.dtype.newbyteorder("<") not in _DTYPES.values():
        known = ", ".join(dtype.name for dtype in _DTYPES.values())
        raise LatentTrackError(
            f"cannot write {file}: the tensor {name!r} has dtype {dense.dtype}; convert it to one of {known}"
        )
    return dense


def _read_bytes(path: Path, name: str) -> bytes:
    """The content of a file that begins as a latenttrack file does; a foreign file is never read whole."""
    try:
        # Asked before opening, because opening a named pipe would wait for ever.
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise LatentTrackError(f"{name} is a directory; give the name of a file")
        if not stat.S_ISREG(mode):
            raise LatentTrackError(f"{name} is not a regular file; give a file that latenttrack wrote")
        with path.open("rb") as file:
            start = file.read(_CHECKSUM.start)
            if not start:
                raise LatentTrackError(f"{name} is empty; write it again or take a backup")
            beginning = start[_SIZE_BYTES:]
            if not beginning or not _BEGINNING.startswith(beginning):
                raise LatentTrackError(
                    f"{name} is not a latenttrack file; give a file that latenttrack wrote"
                )
            if _header_end(start) > _SIZE_BYTES + MAX_HEADER_BYTES:
                raise _damaged(name)
            if path.stat().st_size > MAX_FILE_BYTES:
                raise LatentTrackError(
                    f"{name} has more than {MAX_FILE_BYTES >> 30} GiB; give a file that latenttrack wrote"
                )
            return start + file.read()
    except FileNotFoundError as error:
        raise LatentTrackError(f"{name} does not exist; check its name and directory") from error
    except OSError as error:
        reason = error.strerror or error
        raise LatentTrackError(f"cannot read {name}: {reason}; check its name and permissions") from error


def _header_end(data: bytes | bytearray) -> int:
    return _SIZE_BYTES + int.from_bytes(data[:_SIZE_BYTES], "little")


def _digest(data: bytes | bytearray) -> bytes:
    """The SHA-256 of a file, as 64 hexadecimal digits, its own place counted as zeros."""
    view = memoryview(data)
    digest = hashlib.sha256(view[: _CHECKSUM.start])
    digest.update(_BLANK)
    digest.update(view[_CHECKSUM.stop :])
    return digest.hexdigest().encode()


def _announced_size(data: bytes) -> int:
    """How long the file should be by its own header; 0 if the header cannot be read."""
    end = _header_end(data)
    if len(data) < end:
        return end
    try:
        layout = json.loads(data[_SIZE_BYTES:end])
        return end + max(
            int(entry["data_offsets"][1]) for name, entry in layout.items() if name != "__metadata__"
        )
    except _MALFORMED:
        return 0


def _fields(data: bytes, name: str) -> dict[str, Any]:
    """The `latenttrack` entry without its checksum."""
    try:
        layout = json.loads(data[_SIZE_BYTES : _header_end(data)])
        fields: dict[str, Any] = json.loads(layout["__metadata__"]["latenttrack"])
        del fields["checksum"]
    except _MALFORMED as error:
        raise _damaged(name) from error
    if _is_too_deep(fields):
        raise _damaged(name)
    return fields


def _is_too_deep(value: object) -> bool:
    """Whether JSON data is nested deeper than its readers can recurse."""
    level = [value]
    for _ in range(MAX_HEADER_DEPTH):
        # One generation of children at a time: the check itself must not recurse.
        dicts = [child for item in level if isinstance(item, dict) for child in item.values()]
        lists = [child for item in level if isinstance(item, list) for child in item]
        level = dicts + lists
    return bool(level)


def _tensors(data: bytes, name: str) -> dict[str, np.ndarray]:
    """The arrays, sorted by name; safetensors itself refuses bad offsets and shapes."""
    try:
        entries = sorted(deserialize(data), key=lambda entry: entry[0])  # type: ignore[no-untyped-call]
        return {
            key: np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for key, entry in entries
        }
    except (SafetensorError, *_MALFORMED) as error:
        raise _damaged(name) from error


def _truncated(name: str) -> LatentTrackError:
    return LatentTrackError(f"{name} is cut short; copy it again or take a backup")


def _damaged(name: str) -> LatentTrackError:
    return LatentTrackError(f"{name} is damaged; copy it again or take a backup")
