"""Jena Climate: weather at the Max Planck Institute for Biogeochemistry in Jena, 2009 to 2016."""

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from latenttrack.data.cache import data_directories
from latenttrack.data.download import ReportBytes, download
from latenttrack.data.reading import to_series
from latenttrack.data.series import Series
from latenttrack.data.tables import Table, read_table
from latenttrack.errors import LatentTrackError
from latenttrack.store.atomic import make_folder, write_bytes

OFFICIAL_FILE = "jena_climate_2009_2016.csv"
FILES = (
    *(OFFICIAL_FILE + ending for ending in ("", ".gz", ".zip")),
    *("jena_hourly_2009_2016.csv" + ending for ending in (".gz", "")),
)
# The paper has nine measurements and does not name them; these stand in every copy of the data.
MEASUREMENTS = {
    "p": "air pressure (mbar)",
    "T": "temperature (°C)",
    "Tpot": "potential temperature (K)",
    "Tdew": "dew point (°C)",
    "rh": "relative humidity (%)",
    "VPmax": "saturation pressure (mbar)",
    "VPdef": "vapour deficit (mbar)",
    "rho": "air density (g/m³)",
    "wv": "wind speed (m/s)",
}
WIND = "wv"
SENTINEL = -9999.0
HOUR = np.timedelta64(1, "h")
TEN_MINUTES = np.timedelta64(10, "m")


@dataclass(frozen=True)
class Official:
    """The published file, and how to recognise it.

    Attributes:
        address: of a zip archive that holds the CSV file alone.
        size: bytes of the CSV file.
        rows: without the header.
        header: the names of its columns.
        first: time of the first row, as it is written.
        last: time of the last row.
    """

    address: str
    size: int
    rows: int
    header: tuple[str, ...]
    first: str
    last: str


OFFICIAL = Official(
    address="https://storage.googleapis.com/tensorflow/tf-keras-datasets/jena_climate_2009_2016.csv.zip",
    size=43_153_776,
    rows=420_551,
    header=(
        "Date Time",
        "p (mbar)",
        "T (degC)",
        "Tpot (K)",
        "Tdew (degC)",
        "rh (%)",
        "VPmax (mbar)",
        "VPact (mbar)",
        "VPdef (mbar)",
        "sh (g/kg)",
        "H2OC (mmol/mol)",
        "rho (g/m**3)",
        "wv (m/s)",
        "max. wv (m/s)",
        "wd (deg)",
    ),
    first="01.01.2009 00:10:00",
    last="01.01.2017 00:00:00",
)


def find_jena(data_dir: str | Path | None = None) -> Path:
    """Find the official 10-minute file, or else an hourly copy of it.

    Args:
        data_dir: the folder to look in; None: see `data_directories`.

    Returns:
        The file's path.
    """
    folders = data_directories(data_dir)
    for name in FILES:
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
    raise LatentTrackError(
        f"there is no Jena Climate file in {' or '.join(map(str, folders))}: "
        "run `latenttrack data fetch jena`, or point --data-dir or LATENTTRACK_DATA to a folder "
        f"that holds {OFFICIAL_FILE}."
    )


def load_jena(data_dir: str | Path | None = None, *, sentinels: Literal["keep", "missing"] = "keep") -> Table:
    """Load the hourly rows.

    The official file has a row every ten minutes, 327 of its 420,551 rows with a time that was there before:
    the whole of 1 July 2010, for one, stands there twice. Of each time the first row is kept, rows are put in
    order of time, and of these 420,224 every sixth is taken, beginning with the first. Sixth rows, not full
    hours: after a gap the minute of the hour changes. An hourly copy only loses its repeated times, if any.

    Args:
        data_dir: the folder to look in; None: see `data_directories`.
        sentinels: "keep" leaves the -9999 that stands for a failed wind sensor, "missing" makes it NaN.

    Returns:
        The columns `time` and those of `MEASUREMENTS`, 70,038 rows.
    """
    if sentinels not in ("keep", "missing"):
        raise LatentTrackError(f"sentinels is {sentinels!r}: give 'keep' or 'missing'.")
    raw = read_table(find_jena(data_dir))
    columns = _short_names(raw)
    time, first = np.unique(columns["time"], return_index=True)
    rows = first[:: _rows_per_hour(time, raw.source)]
    columns = {name: column[rows] for name, column in columns.items()}
    if sentinels == "missing":
        columns[WIND] = np.where(columns[WIND] == SENTINEL, np.nan, columns[WIND])
    return Table(columns, raw.source)


def jena_series(
    data_dir: str | Path | None = None,
    *,
    horizon: int = 6,
    delay: int = 1,
    sentinels: Literal["keep", "missing"] = "keep",
    features: Sequence[str] = tuple(MEASUREMENTS),
) -> Series:
    """Load the stream: predict the temperature some rows ahead from the nine measurements of now.

    The defaults are the paper's: six rows ahead, and the label known before the next row. Nobody has
    that label in production; `delay=horizon` is honest.

    Args:
        data_dir: the folder to look in; None: see `data_directories`.
        horizon: rows ahead, which are hours except across a gap.
        delay: steps until a label is known.
        sentinels: see `load_jena`.
        features: the measurements that are inputs.

    Returns:
        x [70038, 9], y [70038] with the last `horizon` missing, period 24.
    """
    series = to_series(
        load_jena(data_dir, sentinels=sentinels),
        target="T",
        time="time",
        features=tuple(features),
        horizon=horizon,
        delay=delay,
        period=24,
    )
    return replace(series, target=MEASUREMENTS["T"])


def fetch_jena(data_dir: str | Path | None = None, progress: ReportBytes | None = None) -> Path:
    """Download the official file, unless it is there already, and check that it is the right one.

    A file that is not the official one is refused before anything is written.

    Args:
        data_dir: the folder for it; None: see `data_directories`.
        progress: called with the bytes received so far and the bytes in all, if known.

    Returns:
        The path of the archive, which `load_jena` reads as it is.
    """
    path = data_directories(data_dir)[0] / f"{OFFICIAL_FILE}.zip"
    if path.is_file() and _fault(path) is None:
        return path
    # The archive is smaller than what it holds.
    archive = download(OFFICIAL.address, limit=OFFICIAL.size, progress=progress)
    fault = _fault(io.BytesIO(archive))
    if fault is not None:
        raise LatentTrackError(
            f"{OFFICIAL.address} does not give the official Jena Climate file (what came {fault}): "
            f"it was not kept; try again, or put {OFFICIAL_FILE} into {path.parent} by hand."
        )
    make_folder(path.parent)
    write_bytes(path, archive)
    return path


def _short_names(raw: Table) -> dict[str, np.ndarray]:
    """The time and the nine measurements, however the header spells (or mangles) their units."""
    time = next((c for c in raw.columns.values() if c.dtype.kind == "M"), None)
    if time is None or np.isnat(time).any():
        raise LatentTrackError(
            f"{raw.source} has no column with the time of every row (31.12.2016 23:50:00): fetch it again."
        )
    by_name: dict[str, np.ndarray] = {}
    for header, column in raw.columns.items():
        letters = re.match(r"[A-Za-z]+", header)
        if letters is not None:
            by_name.setdefault(letters[0], column)
    for name, meaning in MEASUREMENTS.items():
        if name not in by_name or by_name[name].dtype != np.float64:
            raise LatentTrackError(
                f"{raw.source} has no column of numbers {name!r}, {meaning}: fetch it again."
            )
    return {"time": time} | {name: by_name[name] for name in MEASUREMENTS}


def _rows_per_hour(time: np.ndarray, source: str) -> int:
    """6 for the official file, 1 for an hourly copy; time [N] is strictly increasing."""
    step = np.median(np.diff(time).astype(np.int64)) if len(time) > 1 else 0
    for rows, usual in ((6, TEN_MINUTES), (1, HOUR)):
        if step == usual.astype("timedelta64[ns]").astype(np.int64):
            return rows
    raise LatentTrackError(
        f"{source} has rows {step / 6e10:g} minutes apart: give the 10-minute file or an hourly copy of it."
    )


def _fault(archive: Path | io.BytesIO) -> str | None:
    """What is wrong with an archive that should hold the official file; None if it does."""
    try:
        content = _unzip(archive, limit=OFFICIAL.size + 1)
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError):
        # Damaged in its index, its header or its body; RuntimeError: encrypted; ValueError: impossible name.
        return "is not a readable zip archive"
    if content is None:
        return "is not an ordinary zip archive of one file"
    if len(content) != OFFICIAL.size:
        size = f"{len(content):,}" if len(content) < OFFICIAL.size else "more"
        return f"unzips to {size} bytes instead of {OFFICIAL.size:,}"
    return _content_fault(content.decode("latin-1").strip())


def _content_fault(text: str) -> str | None:
    rows = text.count("\n")
    if rows != OFFICIAL.rows:
        return f"has {rows:,} rows instead of {OFFICIAL.rows:,}"
    header, first = text.split("\n", 2)[:2]
    if tuple(header.strip().replace('"', "").split(",")) != OFFICIAL.header:
        return "has other columns"
    last = text.rsplit("\n", 1)[1]
    for what, row, time in (("begins", first, OFFICIAL.first), ("ends", last, OFFICIAL.last)):
        if row.split(",")[0] != time:
            return f"{what} at {row.split(',')[0][:30]!r} instead of {time}"
    return None


def _unzip(archive: Path | io.BytesIO, limit: int) -> bytes | None:
    """At most `limit` bytes of the only file in an archive, whatever size it claims; None if it has more."""
    with zipfile.ZipFile(archive) as opened:
        # macOS adds its own folder of resource forks to every archive.
        members = [m for m in opened.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
        usual = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if len(members) != 1 or members[0].compress_type not in usual:
            return None
        with opened.open(members[0]) as member:
            return member.read(limit)
