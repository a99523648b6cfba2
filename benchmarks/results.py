"""docs/results.md from the summaries of benches: LatentTrack beside what one would use instead.

    .venv/bin/python benchmarks/results.py --add runs/next-hour   # keep what the page needs of a bench
    .venv/bin/python benchmarks/results.py                        # the page and its figure

Kept are docs/results/TRACK.json (made by `--add`; of a bench of somebody's file it is files/NAME-H.json,
H steps ahead), docs/results/safety_net.json (made by safety_net.py: for each track the NLL of the average and
of its members), docs/results/correction.json (made by correction.py: models with and without it) and
docs/results/ablations.json (made by ablations.py), a list of

    {"track": "next-hour", "change": "no anchor", "nll": 0.979, "difference": 0.182, "standard_error": 0.004,
     "seeds": 1}

with scores on the validation part: `nll` is the mean over seeds, `difference` is `nll` minus that of the
unchanged preset on the same track, compared by week. The unchanged preset itself has null for the difference
and its standard error. The words are in results.md.jinja; every word that depends on numbers is made in
results_text.py.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
import results_parts as parts
import results_text as text
from results_text import CONTROL, MODELS, ORDER, SCORES, Run

from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.archive import read_records
from latenttrack.evaluation.calibration import Calibration, calibration
from latenttrack.evaluation.paired import LEADING
from latenttrack.report import canvas
from latenttrack.report.loading import read_summary
from latenttrack.report.reliability import calibration_grid

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "results.md"
FIGURE = ROOT / "docs" / "images" / "calibration.png"
TEMPLATE = Path(__file__).with_name("results.md.jinja")
ABLATIONS, SAFETY_NET, CORRECTION = "ablations.json", "safety_net.json", "correction.json"
DRAWN = (LEADING, "rls-t", "gru", "lightgbm")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--add", type=Path, metavar="FOLDER", help="a finished bench, to be kept for the page"
    )
    parser.add_argument(
        "--looks",
        type=int,
        metavar="N",
        help="how often the test part of that track has been looked at; by default one more than before if "
        f"the scores of {LEADING} have changed",
    )
    arguments = parser.parse_args()
    try:
        if arguments.add is not None:
            print(add(arguments.add, RESULTS, arguments.looks))
        found = load(RESULTS)
    except LatentTrackError as error:
        raise SystemExit(f"error: {error}") from None
    FIGURE.write_bytes(figure(found.runs))
    PAGE.write_text(page(*found), encoding="utf-8")
    print(FIGURE, PAGE, sep="\n")


# What is kept of a bench


def add(folder: Path, results: Path, looks: int | None = None) -> Path:
    """Keep what the page needs of a finished bench; returns the file."""
    summary = read_summary(folder)
    if LEADING not in summary["models"]:
        raise LatentTrackError(f"{folder} has no {LEADING}: run the bench with it.")
    if {"--rows", "--epochs"} & set(str(summary.get("command")).replace("=", " ").split()):
        raise LatentTrackError(f"{folder} is a quick look (--rows or --epochs): run the whole bench.")
    if any("paired" not in entry for name, entry in summary["models"].items() if name != LEADING):
        raise LatentTrackError(
            f"{folder} was summarised without {LEADING}: call its bench again, which takes seconds."
        )
    name = summary["track"]["name"]
    if summary["track"]["dataset"] == "file":
        results, name = results / "files", f"{name}-{summary['track']['horizon']}"
    results.mkdir(exist_ok=True, parents=True)
    path = results / f"{name}.json"
    kept = {
        "looks": 1,
        **{name: summary[name] for name in ("track", "seeds", "versions", "machine", "seconds")},
        "models": {name: _kept(folder, name, entry) for name, entry in summary["models"].items()},
    }
    if path.exists():
        before = json.loads(path.read_bytes())
        kept["looks"] = before["looks"] + (_scores(before) != _scores(kept))
    if looks is not None:
        kept["looks"] = looks
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return path


def _kept(folder: Path, name: str, entry: Run) -> Run:
    """One model's part, with its calibration."""
    found = calibration(read_records(folder / f"{name}.parquet"))
    return {
        "reference": entry["reference"],
        "seeds": [{score: row[score] for score in SCORES} for row in entry["seeds"]],
        **{part: entry[part] for part in ("parameters", "seconds")},
        **{part: entry[part] for part in ("paired", "paired_pooled", "choices", "weights") if part in entry},
        "calibration": {
            "histogram": [round(float(v), 4) for v in found.histogram],
            "coverage": [round(float(v), 4) for v in found.coverage],
            "steps": found.steps,
        },
    }


def _scores(run: Run) -> Any:
    return run["models"][LEADING]["seeds"]


class Results(NamedTuple):
    """The kept runs, in the order of the page, the ablations, the runs on files; and what two scripts found.

    These are members of the safety net by track, and models with and without the correction by track.
    """

    runs: dict[str, Run]
    ablations: list[Run]
    files: dict[str, Run]
    members: dict[str, dict[str, float]]
    corrected: dict[str, dict[str, dict[str, float]]]


def load(results: Path) -> Results:
    """All that is kept."""
    found, files = (
        {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
        for folder in (results, results / "files")
    )
    ablations, members = found.pop("ablations", []), found.pop("safety_net", {})
    corrected = found.pop("correction", {})
    for one in ablations:
        if missing := {"track", "change", "nll", "difference", "standard_error", "seeds"} - set(one):
            raise LatentTrackError(f"an entry of {ABLATIONS} has no {', '.join(sorted(missing))}: {one}")
    if not found:
        raise LatentTrackError(f"{results} has no results: run `results.py --add FOLDER` with a bench first.")
    order = [*(name for name in ORDER if name in found), *(name for name in found if name not in ORDER)]
    return Results({name: found[name] for name in order}, ablations, files, members, corrected)


# The page


def figure(runs: Mapping[str, Run]) -> bytes:
    """Calibration on all tracks, as a PNG."""
    drawn = {
        track: {name: _calibration(run["models"][name]) for name in DRAWN if name in run["models"]}
        for track, run in runs.items()
    }
    return canvas.png(calibration_grid(drawn))


def _calibration(entry: Run) -> Calibration:
    kept = entry["calibration"]
    return Calibration(np.array(kept["histogram"]), np.array(kept["coverage"]), kept["steps"])


def page(
    runs: dict[str, Run],
    ablations: list[Run],
    files: dict[str, Run],
    members: dict[str, dict[str, float]],
    corrected: dict[str, dict[str, dict[str, float]]],
) -> str:
    """The whole page."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    present = {name for run in runs.values() for name in run["models"]}
    rendered = template.render(
        runs=runs,
        leading=LEADING,
        described={name: words for name, words in MODELS.items() if name in present},
        drawn=[name for name in DRAWN if name in present],
        scores=SCORES,
        early=[name for name, run in runs.items() if run["track"]["delay"] < run["track"]["horizon"]],
        short=[text.in_short(name, run) for name, run in runs.items()],
        outcome=text.outcome_over_tracks(runs),
        pooled_outcome=text.pooled_outcome(runs),
        pooled_name=text.POOLED,
        aims=[text.aims_row(track, run) for track, run in runs.items()],
        reached=text.reached(runs),
        control=text.control(runs),
        net=parts.net_table(runs),
        alone=parts.members_table(runs, members),
        corrected=parts.correction_table(runs, corrected),
        ablations=text.ablation_table(ablations),
        files=[text.file_row(run) for run in files.values()],
        files_outcome=text.outcome_over_tracks(files, "files") if files else "",
        files_pooled=text.pooled_outcome(files, "files") if files else "",
        models=text.models,
        row=text.row,
        standing=text.standing,
        seed_ranges=text.seed_ranges,
        period=text.period,
        paired=text.PAIRED,
        control_name=CONTROL,
    )
    return rendered.rstrip() + "\n"


if __name__ == "__main__":
    main()
