"""docs/reproduction.md from the summaries of five benches: the paper's experiment, and what explains it.

    .venv/bin/python benchmarks/reproduction.py --run     # all benches (resumable), then the page
    .venv/bin/python benchmarks/reproduction.py           # only the page, from docs/reproduction/*.json

With `--run`, benches are kept in runs/ and their summaries are copied to docs/reproduction/. The words are in
reproduction.md.jinja.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import jinja2

from latenttrack.evaluation.claims import judge, seed_row
from latenttrack.evaluation.published import MODELS, PARAMETERS, TABLE
from latenttrack.report.numbers import number, percent

ROOT = Path(__file__).resolve().parents[1]
SUMMARIES = ROOT / "docs" / "reproduction"
PAGE = ROOT / "docs" / "reproduction.md"
TEMPLATE = Path(__file__).with_name("reproduction.md.jinja")
# Track -> seeds. The last three ask which reading comes near the paper's rows: a few seeds tell.
BENCHES = {"paper": 25, "paper-clean": 25, "paper-no-temperature": 3, "paper-raw-target": 3, "paper-raw": 3}
READINGS = {
    "paper": "all standardised (as above)",
    "paper-no-temperature": "inputs without T, Tpot and VPmax",
    "paper-raw-target": "target not standardised",
    "paper-raw": "neither inputs nor target standardised",
}
BASELINES = tuple(name for name in MODELS if not name.startswith("lt-"))
Run = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", action="store_true", help="run what is missing of the benches first")
    parser.add_argument("--data-dir", help="folder of the Jena file, as for `latenttrack bench`")
    arguments = parser.parse_args()
    if arguments.run:
        run_benches(arguments.data_dir)
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


def run_benches(data_dir: str | None) -> None:
    """Every bench, one after another; what is done already is not done again."""
    SUMMARIES.mkdir(exist_ok=True)
    for track, seeds in BENCHES.items():
        folder = ROOT / "runs" / track
        command = [sys.executable, "-m", "latenttrack", "bench", track, "--seeds", str(seeds)]
        command += ["-o", str(folder)] + (["--data-dir", data_dir] if data_dir else [])
        subprocess.run(command, check=True)
        kept = json.loads((folder / "summary.json").read_bytes())
        kept["command"] = f"latenttrack bench {track} --seeds {seeds}"  # wherever the data were
        (SUMMARIES / f"{track}.json").write_text(json.dumps(kept, indent=1))


def page() -> str:
    """The whole page, from the summaries in docs/reproduction."""
    runs = {track: json.loads((SUMMARIES / f"{track}.json").read_bytes()) for track in BENCHES}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    by_nll = sorted(MODELS, key=lambda name: TABLE[name]["nll_trimmed"])
    text = template.render(
        runs=runs,
        names=MODELS,
        readings=READINGS,
        nearest=[nearest(runs, name) for name in BASELINES],
        claims=judge(runs["paper"]),
        verdict={True: "holds", False: "does not hold", None: "not judged"},
        published_pairs=[pair(TABLE[name]) for name in MODELS],
        ranked_published=[f"{name} {number(TABLE[name]['nll_trimmed'])}" for name in by_nll],
        parameters=PARAMETERS,
        number=number,
        percent=percent,
        seed_row=seed_row,
        min=min,
        listed=listed,
        networks=networks,
        over=over,
        spread=spread,
        theirs=theirs,
        first=first,
        ranked=ranked,
        place=place,
        worst_failure=worst_failure,
        extreme=extreme,
        pairs=pairs,
    )
    return text.rstrip() + "\n"


def networks(run: Run) -> list[str]:
    """The paper's models, in its order."""
    return [name for name in MODELS if name in run["models"]]


def listed(run: Run) -> list[str]:
    """The paper's models, then the references."""
    return networks(run) + [name for name, entry in run["models"].items() if entry["reference"]]


def values(entry: Run, score: str) -> list[float]:
    """One score of every seed; what is not finite counts as infinite."""
    return [float("inf") if row[score] is None else row[score] for row in entry["seeds"]]


def over(entry: Run, score: str) -> float:
    return median(values(entry, score))


def spread(entry: Run, score: str) -> str:
    found = values(entry, score)
    if len(found) == 1:
        return number(found[0])
    return f"{number(median(found))} ({number(min(found))} to {number(max(found))})"


def theirs(name: str, score: str) -> str:
    if name not in TABLE:
        return ""
    value = TABLE[name][score]
    return f" [{percent(value) if score.endswith('_first') else number(value)}]"


def first(entry: Run, score: str) -> str:
    return "" if entry["reference"] else percent(entry["ranks"][score]["first"])


def _order(run: Run) -> list[str]:
    return sorted(networks(run), key=lambda name: over(run["models"][name], "nll_trimmed"))


def ranked(run: Run) -> list[str]:
    return [f"{name} {number(over(run['models'][name], 'nll_trimmed'))}" for name in _order(run)]


def place(run: Run, name: str) -> int:
    return _order(run).index(name) + 1


def worst_failure(run: Run) -> float:
    return max(run["models"][name]["failure_rate"] for name in networks(run))


def extreme(run: Run, score: str, choose: Callable[[Iterable[float]], float]) -> float:
    return choose(over(run["models"][name], score) for name in networks(run))


def pairs(run: Run) -> list[str]:
    """Trimmed NLL / trimmed MSE of the paper's models, medians over seeds."""
    scores = ("nll_trimmed", "mse_trimmed")
    return [pair({score: over(run["models"][name], score) for score in scores}) for name in MODELS]


def nearest(runs: dict[str, Run], name: str) -> str:
    """The reading whose trimmed MSE of a model has the smallest ratio to the paper's, in words."""
    paper = TABLE[name]["mse_trimmed"]
    found = {track: over(runs[track]["models"][name], "mse_trimmed") for track in READINGS}
    track = min(found, key=lambda track: abs(math.log(found[track] / paper)))
    return f"{name} {number(found[track])} against {number(paper)} ({READINGS[track]})"


def pair(row: Any) -> str:
    return f"{number(row['nll_trimmed'])} / {number(row['mse_trimmed'])}"


if __name__ == "__main__":
    main()
