"""A bench folder, read and checked before anything is drawn: a damaged one is refused in one sentence."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation import published
from latenttrack.evaluation.archive import read_records
from latenttrack.evaluation.records import Records
from latenttrack.report.curves import check_records

VERSION = 1
SUMMARY = "summary.json"

_OVER_TIME = ("mean", "trimmed", "median", "trimmed_median", "max")
_SCORES = (
    *(f"{score}_{name}" for score in ("nll", "mse") for name in _OVER_TIME),
    "crps_mean", "coverage_90", "pit_ks", "epistemic_share",
)  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """What `latenttrack bench` left in a folder.

    Attributes:
        folder: where it is.
        summary: the content of `summary.json`.
        models: the records of the representative seed, [1, N] each; the paper's models first, in its order.
        references: the same for the references.
    """

    folder: Path
    summary: dict[str, Any]
    models: list[Records]
    references: list[Records]

    @property
    def drawn(self) -> list[Records]:
        """Whose courses are drawn: the models; in a run of references alone, these."""
        return self.models or self.references

    @property
    def published(self) -> bool:
        """Whether the paper's numbers may stand beside ours: it has none for other tracks."""
        return self.summary["track"]["name"] in published.TRACKS


def load_bench(folder: str | Path) -> Bench:
    """Read a folder written by `latenttrack bench`.

    Args:
        folder: with `summary.json` and a Parquet file for each model.

    Raises:
        LatentTrackError: If it is no such folder, or damaged, or of another version.
    """
    folder = Path(folder)
    summary = read_summary(folder)
    entries = summary["models"]
    order = [name for name in published.MODELS if name in entries]
    order += [name for name in entries if name not in order]
    records = {}
    for name in order:
        seed = summary["representative_seed"] % len(entries[name]["seeds"])
        records[name] = read_records(folder / f"{name}.parquet", seed)
    check_records(list(records.values()))
    return Bench(
        folder,
        summary,
        [records[name] for name in order if not entries[name]["reference"]],
        [records[name] for name in order if entries[name]["reference"]],
    )


def read_summary(folder: Path) -> dict[str, Any]:
    """Read and check `summary.json` of a bench folder.

    Args:
        folder: written by `latenttrack bench`.
    """
    path = folder / SUMMARY
    if not folder.is_dir():
        raise LatentTrackError(
            f"there is no folder {folder}: give the folder that `latenttrack bench` wrote."
        )
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LatentTrackError(
            f"{folder} has no {SUMMARY}: give the folder of a bench that has finished "
            "(`latenttrack bench` goes on where it was stopped)."
        ) from None
    except (OSError, ValueError) as error:
        raise LatentTrackError(f"{path} cannot be read ({error}): run `latenttrack bench` again.") from None
    if isinstance(summary, dict) and summary.get("version", VERSION) != VERSION:
        raise LatentTrackError(
            f"{path} has version {summary['version']!r}, and this latenttrack reads version {VERSION}: "
            "run the bench again, or install the latenttrack that wrote it."
        )
    if (fault := _fault(summary)) is not None:
        raise LatentTrackError(f"{path} is damaged ({fault}): run `latenttrack bench` again.")
    return summary


def _fault(summary: Any) -> str | None:
    """What makes a summary unusable, in a few words; None if nothing does."""
    if not isinstance(summary, dict):
        return "it is no JSON object"
    for name, kind in (("version", int), ("track", dict), ("representative_seed", int), ("models", dict)):
        if not isinstance(summary.get(name), kind):
            return f"{name!r} is missing or of a wrong type"
    if not isinstance(summary["track"].get("name"), str):
        return "the track has no name"
    if not summary["models"]:
        return "it has no models"
    for name, entry in summary["models"].items():
        if (fault := _entry_fault(name, entry)) is not None:
            return fault
    return None


def _entry_fault(name: str, entry: Any) -> str | None:
    """The same for one model."""
    # Names become file names: none may lead out of the folder.
    if not re.fullmatch(r"\w[\w.+-]*", name):
        return f"{name!r} is no name of a model"
    if not isinstance(entry, dict) or not isinstance(entry.get("reference"), bool):
        return f"model {name!r} does not say whether it is a reference"
    rows = entry.get("seeds")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return f"model {name!r} has no seeds"
    for row in rows:
        for score in _SCORES:
            if score not in row or not (row[score] is None or _is_number(row[score])):
                return f"model {name!r} has no {score}"
    if not _is_number(entry.get("failure_rate")):
        return f"model {name!r} has no failure_rate"
    for ranks in ("ranks", "ranks_over_seeds"):
        # A network with fewer seeds than others is not ranked among them.
        if ranks in entry and not _are_ranks(entry[ranks]):
            return f"model {name!r} has no {ranks}"
    for part in ("largest_nll", "parameters", "settings", "training", "features", "seconds"):
        if not isinstance(entry.get(part) or {}, dict):
            return f"{part!r} of model {name!r} is of a wrong type"
    return None


def _are_ranks(ranks: Any) -> bool:
    return isinstance(ranks, dict) and all(
        isinstance(ranks.get(score), dict)
        and all(_is_number(ranks[score].get(share)) for share in ("first", "first_or_second"))
        for score in ("nll", "mse")
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def anomaly_rows(bench: Bench) -> np.ndarray:
    """Rows [M] of the records whose time is that of a sentinel; none if the data have none."""
    times = bench.summary.get("anomalies") or []
    records = bench.drawn[0]
    if not times or records.time.dtype.kind != "M":
        return np.arange(0)
    try:
        known = np.array(times, dtype="datetime64[ns]")
    except ValueError:
        raise LatentTrackError(
            f"{bench.folder / SUMMARY} is damaged ('anomalies' are no times): run `latenttrack bench` again."
        ) from None
    return np.flatnonzero(np.isin(records.time.astype("datetime64[ns]"), known))
