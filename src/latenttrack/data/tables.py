"""Files and dataframes in, one plain table of typed columns out."""

import codecs
import csv
import gzip
import io
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from latenttrack.data.columns import from_text, from_texts, from_values, has_offset, to_nanoseconds
from latenttrack.errors import LatentTrackError

MOST_BYTES = 2**32  # of a table, unpacked
_CHUNK = 2**20
_MOST_COLUMNS = 100_000
# Text shrinks to a twentieth, a table of few different values to a hundredth; what is made to fill the memory
# to a thousandth. Below so many bytes it does no harm.
_MOST_RATIO, _SUSPICIOUS = 300, 2**25
FORMATS = ".csv, .tsv or .txt, .jsonl or .ndjson (all of them also with .gz), .csv.zip or .parquet"
_DELIMITED = tuple(f"{name}{packed}" for name in (".csv", ".tsv", ".txt") for packed in ("", ".gz", ".zip"))
_DELIMITERS = ",;\t|"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length N.

    Attributes:
        columns: name -> [N] array of float64 (missing: NaN), datetime64[ns] (missing: NaT)
            or object holding str (missing: "").
        source: where the table came from, for messages.
        places: [N] where each row stands in the source, from 0; None: as they stand here.
        utc: the columns of times that had an offset, and are in UTC now.
        doubtful: in columns where a point may mark thousands, such a number as the file has it.
    """

    columns: dict[str, np.ndarray]
    source: str = "table"
    places: np.ndarray | None = None
    utc: tuple[str, ...] = ()
    doubtful: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.columns:
            raise LatentTrackError(f"{self.source} has no columns: give at least a target column.")
        (first, column), *others = self.columns.items()
        for name, other in others:
            if len(other) != len(column):
                raise LatentTrackError(
                    f"{self.source}: column {first!r} has {len(column)} rows and column {name!r} has "
                    f"{len(other)}: make them equally long."
                )
        if len(column) == 0:
            raise LatentTrackError(f"{self.source} has columns but no rows: give at least one row of data.")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def number(self, row: int | np.integer) -> int:
        """The number of a row in the source, from 1, for messages: rows may have been put in order since."""
        return int(row if self.places is None else self.places[row]) + 1

    @property
    def numbers(self) -> np.ndarray:
        """[N] the numbers of all rows; see `number`."""
        return 1 + (np.arange(len(self)) if self.places is None else self.places)


def read_table(source: object) -> Table:
    """Read a table from a file, a dataframe or a dict.

    Args:
        source: a path (.csv, .tsv or .txt, separated by commas, semicolons, tabs or bars, .jsonl or .ndjson,
            also with .gz; .csv.zip with one member; .parquet), a dataframe (pandas, polars, pyarrow, anything
            narwhals understands), or a dict of columns.
            A pandas DatetimeIndex becomes a column.

    Returns:
        The table; text columns that hold only numbers or only times are converted.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, str | Path):
        return _read_path(Path(source))
    if isinstance(source, Mapping):
        columns = {str(name): _from_array(str(name), values) for name, values in source.items()}
        given = {str(name): values for name, values in source.items() if not isinstance(values, np.ndarray)}
        return Table(columns, "the dict", utc=_in_utc(columns, given))
    return _read_frame(source, f"the {type(source).__name__}")


def _read_path(path: Path) -> Table:
    name = path.name.lower()
    if path.is_dir():
        raise LatentTrackError(f"{path} is a directory: give the path of one file.")
    if not path.exists():
        raise LatentTrackError(f"there is no file {path}: check the path.")
    if name.endswith(".parquet"):
        return _read_parquet(path)
    if name.endswith(_DELIMITED):
        return _read_csv(_decode(_read_bytes(path)), str(path))
    if name.endswith((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")):
        return _read_json_lines(_decode(_read_bytes(path)), str(path))
    raise LatentTrackError(f"{path} has a format that is not known: give a file ending in {FORMATS}.")


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as disk:
            if path.suffix.lower() == ".gz":
                raw = _read_bounded(gzip.GzipFile(fileobj=disk), disk, path)
            elif path.suffix.lower() == ".zip":
                raw = _unzip(disk, path)
            else:
                raw = _read_bounded(disk, disk, path)
    except (gzip.BadGzipFile, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError):
        raise LatentTrackError(
            f"{path} is not a readable compressed file (broken, cut off or encrypted): fetch it again."
        ) from None
    except OSError as error:
        raise LatentTrackError(f"{path} cannot be read ({error.strerror}): check its permissions.") from None
    if not raw.strip():
        raise LatentTrackError(f"{path} is empty: give a file with a header and rows.")
    return raw


def _read_bounded(file: IO[bytes] | gzip.GzipFile, disk: IO[bytes], path: Path) -> bytes:
    """What `file` unpacks from `disk`, but no more than a table can have, by itself or for its size there."""
    parts, length = [], 0
    while part := file.read(_CHUNK):
        parts.append(part)
        length += len(part)
        if length > max(_SUSPICIOUS, min(MOST_BYTES, _MOST_RATIO * disk.tell())):
            raise LatentTrackError(
                f"{path} unpacks to more than {length >> 20} MiB from {disk.tell()} bytes on disk, which no "
                f"table would: give a file of at most {MOST_BYTES >> 30} GiB."
            )
    return b"".join(parts)


def _unzip(disk: IO[bytes], path: Path) -> bytes:
    with zipfile.ZipFile(disk) as archive:
        # macOS adds its own folder of resource forks to every archive.
        members = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX/")]
        if len(members) != 1:
            raise LatentTrackError(f"{path} holds {len(members)} files: give an archive with exactly one.")
        with archive.open(members[0]) as file:
            return _read_bounded(file, disk, path)


def _decode(raw: bytes) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", errors="replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:  # latin-1 accepts every byte: units such as "µmol/m²" in older files
        return raw.decode("latin-1")


def _read_csv(text: str, source: str) -> Table:
    head = text.lstrip().split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=head.count)  # the first of those that are as frequent
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    places: list[int] = []
    place = -1  # of a row in the file; the header's comes before the first
    try:
        for row in reader:
            if not row:
                continue
            place += bool(rows)
            if rows and len(rows[0]) > 1 and not any(map(str.strip, row)):
                continue  # spreadsheets leave such rows behind
            _check_fields(row, rows[:1], f"{source}, line {reader.line_num},")
            rows.append(row)
            places.append(place)
    except csv.Error as error:
        raise LatentTrackError(f"{source}, line {reader.line_num}, is not CSV ({error}): mend it.") from None
    names = [name.strip() or f"column_{i + 1}" for i, name in enumerate(rows[0])]
    if len(set(names)) < len(names):
        repeated = next(n for n, count in Counter(names).items() if count > 1)
        raise LatentTrackError(f"{source} has two columns named {repeated!r}: rename one of them.")
    if len(rows) == 1:
        raise LatentTrackError(f"{source} has a header but no rows: give at least one row of data.")
    # Some programs fill fields up with spaces.
    stripped = ([field.strip() for field in row] for row in rows[1:])
    texts = dict(zip(names, zip(*stripped, strict=True), strict=True))
    if delimiter == ",":
        columns, doubtful = {name: from_text(column) for name, column in texts.items()}, dict[str, str]()
    else:
        columns, doubtful = from_texts(texts)
    skipped = len(places) <= place + 1
    return Table(
        columns, source, np.array(places[1:]) if skipped else None, _in_utc(columns, texts), doubtful
    )


def _check_fields(row: list[str], header: list[list[str]], where: str) -> None:
    """Refuse a row that is too long for any table, or not as long as the header, if that was read."""
    if len(row) > _MOST_COLUMNS:
        raise LatentTrackError(f"{where} has {len(row)} fields: give at most {_MOST_COLUMNS}.")
    if header and len(row) != len(header[0]):
        raise LatentTrackError(
            f"{where} has {len(row)} fields and the header has {len(header[0])}: mend the line."
        )


def _read_json_lines(text: str, source: str) -> Table:
    records: list[dict[str, object]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise LatentTrackError(
                f"{source}, line {number}, is not a JSON object: write one object per line."
            )
        nested = next((k for k, v in record.items() if isinstance(v, list | dict)), None)
        if nested is not None:
            raise LatentTrackError(
                f"{source}, line {number}: {nested!r} holds a list or an object: give numbers or text."
            )
        records.append(record)
    names = dict.fromkeys(name for record in records for name in record)
    values = {name: [record.get(name) for record in records] for name in names}
    columns = {name: from_values(column) for name, column in values.items()}
    return Table(columns, source, utc=_in_utc(columns, values))


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise LatentTrackError(
            f'{path} is a Parquet file and pyarrow is not installed: pip install "latenttrack[data]".'
        ) from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
        # Told before anything is unpacked: a few bytes can stand for billions of equal values.
        if file.metadata.num_rows * max(file.metadata.num_columns, 1) > MOST_BYTES // 8:
            raise LatentTrackError(
                f"{path} says it has {file.metadata.num_rows} rows of {file.metadata.num_columns} columns: "
                f"give a table of at most {MOST_BYTES >> 30} GiB."
            )
        frame = file.read()
    except (pyarrow.ArrowException, OSError):
        raise LatentTrackError(f"{path} is not a readable Parquet file: write or fetch it again.") from None
    return _read_frame(frame, str(path))


def _read_frame(native: Any, source: str) -> Table:
    import narwhals as nw  # here, because it would double the time to import this room

    try:
        lazy = nw.from_native(native)
    except nw.exceptions.DuplicateError as error:
        raise LatentTrackError(
            f"{source} has columns of the same name ({' '.join(str(error).split())}): rename them."
        ) from None
    except TypeError:
        raise LatentTrackError(
            f"{source} cannot be read as a table: give a path, a dataframe or a dict of columns."
        ) from None
    frame = lazy.collect() if isinstance(lazy, nw.LazyFrame) else lazy
    index = nw.maybe_get_index(frame)
    if index is not None and str(index.dtype).startswith("datetime64"):
        frame = nw.from_native(frame.to_native().reset_index(names=index.name or "time"), eager_only=True)
    columns = {str(name): _from_narwhals(frame.get_column(name)) for name in frame.columns}
    zoned = [n for n, dtype in frame.schema.items() if isinstance(dtype, nw.Datetime) and dtype.time_zone]
    texts = {n: frame.get_column(n).to_list() for n, t in frame.schema.items() if t in (nw.String, nw.Object)}
    return Table(columns, source, utc=(*map(str, zoned), *_in_utc(columns, texts)))


def _in_utc(columns: Mapping[str, np.ndarray], given: Mapping[str, Iterable[object]]) -> tuple[str, ...]:
    """Which columns of times were given with offsets."""
    times = [name for name, column in columns.items() if column.dtype.kind == "M" and name in given]
    return tuple(name for name in times if any(has_offset(str(value)) for value in given[name]))


def _from_narwhals(column: Any) -> np.ndarray:
    import narwhals as nw

    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return np.array(column.cast(nw.Float64).to_numpy(), np.float64)
    if isinstance(column.dtype, nw.Datetime):
        if column.dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return to_nanoseconds(np.asarray(column.to_numpy(), "datetime64"), column.name)
    return from_values(column.to_list())


def _from_array(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise LatentTrackError(f"column {name!r} has shape {array.shape}: give one value per row.")
    if array.dtype.kind == "M":
        return to_nanoseconds(array, name)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    return from_values(array.tolist())
