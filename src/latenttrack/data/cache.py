"""Where the package keeps what it can make or fetch again, and where it looks for datasets by name."""

import os
import sys
from pathlib import Path


def cache_directory() -> Path:
    """Where this platform keeps an application's cache; `LATENTTRACK_CACHE` points elsewhere."""
    chosen = os.environ.get("LATENTTRACK_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "latenttrack"


def data_directories(data_dir: str | Path | None = None) -> list[Path]:
    """Where datasets are looked for by name; a dataset that is fetched goes to the first.

    Args:
        data_dir: the folder to use; None takes `LATENTTRACK_DATA` if that is set, else a folder in the cache.

    Returns:
        The folders, which need not exist, in order of preference.
    """
    if data_dir is not None:
        return [Path(data_dir)]
    chosen = os.environ.get("LATENTTRACK_DATA")
    return [Path(chosen) if chosen else cache_directory() / "data"]
