"""The words and numbers of docs/results.md, made from what docs/results/ keeps of the benches."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from latenttrack.evaluation.paired import LEADING
from latenttrack.report.numbers import integer, number, percent
from latenttrack.training.presets import POOLED

# The order on the page; other tracks come after.
ORDER = (
    "next-hour", "six-hours", "paper-clean", "etth1-next-hour", "etth1-six-hours",
    "bike-next-hour", "bike-six-hours", "airports",
)  # fmt: skip
SCORES = {
    "nll_mean": "NLL",
    "crps_mean": "CRPS",
    "mse_mean": "MSE",
    "coverage_90": "90 %",
    "pit_ks": "PIT-KS",
}
PAIRED = {"nll": "NLL", "crps": "CRPS"}
MODELS = {
    LEADING: "LatentTrack; chooses its settings by itself, on the end of the training part",
    POOLED: "the seeds of `latent-track` mixed into one model, which is what `latenttrack fit` gives",
    "lt-deterministic": "control: the same hypernetwork, but the latent is a point and has no distribution",
    "gru": "control: the same memory, but a plain output layer and no hypernetwork",
    "lightgbm": "gradient-boosted trees, one for the mean and one for the scale, trained once",
    "rls-t": "recursive least squares, learned online, Student-t errors",
    "rls": "the same, normal errors",
    "seasonal-difference": "the last label, plus the change of a season ago",
    "climatology": "least squares on the clock alone",
    "seasonal-naive": "repeats the label of a season ago",
    "last-label": "repeats the last label",
}
CONTROL = "lt-deterministic"
AVERAGE = "average"
# Set beforehand, near what a prototype had reached on the same test parts.
AIMS: dict[str, dict[str, float]] = {
    "paper-clean": {"nll_mean": 0.755, "crps_mean": 0.318, "mse_mean": 0.425, "pit_ks": 0.010},
    "next-hour": {"nll_mean": 0.712, "crps_mean": 0.306, "mse_mean": 0.400, "pit_ks": 0.010},
    "six-hours": {"nll_mean": 1.857, "crps_mean": 0.907, "mse_mean": 2.91, "pit_ks": 0.016},
    "etth1-next-hour": {"nll_mean": 0.770},
    "etth1-six-hours": {"nll_mean": 1.644},
    "bike-next-hour": {"nll_mean": 4.65},
    "bike-six-hours": {"nll_mean": 5.16},
}
COVERAGE, PARAMETERS = (0.88, 0.92), 35_000
SURE = 2.0  # standard errors
Run = dict[str, Any]


def models(run: Run) -> list[str]:
    """The names of a table's rows: LatentTrack, then the others as they were run."""
    return [LEADING, *(name for name in run["models"] if name != LEADING)]


def mean(entry: Run, score: str) -> float:
    """The mean over seeds; infinite if one has no finite score."""
    values = [row[score] for row in entry["seeds"]]
    return math.inf if None in values else sum(values) / len(values)


def shown(value: float) -> str:
    """A score in about four digits."""
    return number(value, 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1)


def plus_minus(one: Run) -> str:
    """A difference with its standard error, +0.035 ± 0.004, with spaces at which no line breaks."""
    difference, error = one["difference"], one["standard_error"]
    if difference is None:
        return "infinite"
    if error is None:
        return f"{difference:+.3f}"
    decimals = 4 if error < 0.00095 else 3 if abs(difference) < 10 else 2
    return f"{difference:+.{decimals}f}&nbsp;±&nbsp;{error:.{decimals}f}"


def judged(one: Run) -> str:
    """A difference (other minus LatentTrack) in a word: ahead, level, behind, or unknown."""
    difference, error = one["difference"], one["standard_error"]
    if difference is None or error is None:
        return "unknown"
    if abs(difference) <= SURE * error:
        return "level"
    return "ahead" if difference > 0 else "behind"


def in_words(one: Run) -> str:
    """The same as a phrase about LatentTrack."""
    return {
        "ahead": "ahead",
        "behind": "behind",
        "level": "no difference beyond two standard errors",
        "unknown": "cannot be told",
    }[judged(one)]


def row(run: Run, name: str) -> list[str]:
    """The cells of a model in its track's table; the best of a column is bold."""
    entry = run["models"][name]
    cells = []
    for score in SCORES:
        text = _cell(entry, score)
        cells.append(f"**{text}**" if text == _best(run, score) else text)
    cells += [integer(entry["parameters"]["total"]), f"{entry['seconds']['train']:,.0f}"]
    paired = entry.get("paired")
    if paired is None:
        return [*cells, "", "", ""]
    return [
        *cells, plus_minus(paired["nll"]), percent(paired["nll"]["weeks_won"], 0), plus_minus(paired["crps"])
    ]  # fmt: skip


def _cell(entry: Run, score: str) -> str:
    value = mean(entry, score)
    return percent(value) if score == "coverage_90" else shown(value)


def _best(run: Run, score: str) -> str:
    """The best text of a column: lowest, or for coverage nearest to 90 %."""
    aim = 0.9 if score == "coverage_90" else -math.inf

    def distance(name: str) -> float:
        value = mean(run["models"][name], score)
        return abs(value - aim) if math.isfinite(aim) else value

    return _cell(run["models"][min(run["models"], key=distance)], score)


def seed_ranges(run: Run) -> str:
    """The lowest and the highest NLL of the seeds of every model that has several."""
    told = []
    for name in models(run):
        values = [row["nll_mean"] for row in run["models"][name]["seeds"]]
        if len(values) > 1 and None not in values:
            told.append(f"{name} {shown(min(values))} to {shown(max(values))}")
    return ", ".join(told)


def standing(run: Run, score: str) -> str:
    """Whom LatentTrack is ahead of in a score, and whom not."""
    found = {
        name: entry["paired"][score]
        for name, entry in run["models"].items()
        if "paired" in entry and name != POOLED
    }
    groups: dict[str, list[str]] = {"ahead": [], "level": [], "behind": [], "unknown": []}
    for name, one in found.items():
        groups[judged(one)].append(f"{name} ({plus_minus(one)})")
    ahead = len(groups["ahead"])
    if ahead == len(found):
        return "ahead of every other model by more than two standard errors."
    text = f"ahead of {ahead} of {len(found)} models by more than two standard errors"
    for outcome, told in (
        ("level", "no difference beyond that to"),
        ("behind", "behind"),
        ("unknown", "cannot be told from"),
    ):
        if groups[outcome]:
            text += f"; {told} {', '.join(groups[outcome])}"
    return text + "."


def in_short(track: str, run: Run) -> list[str]:
    """A track in a line: LatentTrack beside the best of its rivals."""
    lead = shown(mean(run["models"][LEADING], "nll_mean"))
    if not rivals(run):
        return [track, lead, "", "", "", "", "", "", ""]
    best = min(rivals(run), key=lambda name: mean(run["models"][name], "nll_mean"))
    entry = run["models"][best]
    one, mixed = entry["paired"]["nll"], entry.get("paired_pooled")
    pooled = ["", ""]
    if mixed is not None:
        pooled = [shown(mean(run["models"][POOLED], "nll_mean")), plus_minus(mixed["nll"])]
    return [
        track, lead, best, shown(mean(entry, "nll_mean")), plus_minus(one), percent(one["weeks_won"], 0),
        in_words(one), *pooled,
    ]  # fmt: skip


def file_row(run: Run) -> list[str]:
    """The same of somebody's file, with what it holds and the coverage."""
    track = run["track"]
    steps = f"{track['train_steps']:,} + {track['test_steps']:,}"
    name = f"{track['name']}, {track['target']}, {track['horizon']} ahead"
    return [*in_short(name, run), steps, _cell(run["models"][LEADING], "coverage_90"), str(run["looks"])]


def outcome_over_tracks(runs: Mapping[str, Run], called: str = "tracks") -> str:
    """On how many tracks LatentTrack is ahead of all its rivals, and whom it is behind, in sentences."""
    return _outcome(runs, called, f"`{LEADING}`", "paired")


def pooled_outcome(runs: Mapping[str, Run], called: str = "tracks") -> str:
    """The same of its pooled seeds, on the tracks that were run with them; "" without any."""
    found = {track: run for track, run in runs.items() if POOLED in run["models"]}
    if not found:
        return ""
    return _outcome(
        found, called, "With its seeds mixed, as `latenttrack fit` gives them, it", "paired_pooled"
    )


def _outcome(runs: Mapping[str, Run], called: str, subject: str, part: str) -> str:
    first: dict[str, list[str]] = {}
    behind: dict[str, list[str]] = {}
    for score, words in PAIRED.items():
        for track, run in runs.items():
            found = {name: judged(run["models"][name][part][score]) for name in rivals(run)}
            if all(word == "ahead" for word in found.values()):
                first.setdefault(words, []).append(track)
            for name, word in found.items():
                if word == "behind":
                    behind.setdefault(f"{name} on {track}", []).append(words)
    told = [f"in {words} on {len(first.get(words, []))} of {len(runs)} {called}" for words in PAIRED.values()]
    text = f"{subject} is ahead of every rival by more than two standard errors {', '.join(told)}. "
    if not behind:
        return text + "Nowhere is it behind a rival by as much."
    whom = [f"{what} ({' and '.join(by)})" for what, by in behind.items()]
    return text + f"It is behind {', '.join(whom)}."


def rivals(run: Run) -> list[str]:
    """What one would use instead: every model but LatentTrack, its seeds pooled, and its own control."""
    return [name for name in run["models"] if name not in (LEADING, POOLED, CONTROL)]


def period(run: Run) -> str:
    """The months of the test part."""
    ends = [str(run["track"][name])[:7] for name in ("first_test_time", "last_test_time")]
    return "&nbsp;to ".join(ends)


# Aims


def aims_row(track: str, run: Run) -> list[str]:
    """A track's line in the table of aims: every number beside its aim, and whether it was reached."""
    return [track, *(text for text, _ in _aims(track, run))]


def reached(runs: Mapping[str, Run]) -> tuple[int, int]:
    """How many aims were reached, and how many there are."""
    answers = [ok for track, run in runs.items() for _, ok in _aims(track, run) if ok is not None]
    return sum(answers), len(answers)


def _aims(track: str, run: Run) -> list[tuple[str, bool | None]]:
    entry = run["models"][LEADING]
    cells: list[tuple[str, bool | None]] = []
    for score in ("nll_mean", "crps_mean", "mse_mean", "pit_ks"):
        aim = AIMS.get(track, {}).get(score)
        if aim is None:
            cells.append(("", None))
            continue
        found = mean(entry, score)
        cells.append(_answer(f"{found:.4f} {'≤' if found <= aim else '>'} {aim:.3f}", found <= aim))
    covered = mean(entry, "coverage_90")
    inside = COVERAGE[0] <= covered <= COVERAGE[1]
    within = f"{'in' if inside else 'not in'} {percent(COVERAGE[0], 0)} to {percent(COVERAGE[1], 0)}"
    cells.append(_answer(f"{percent(covered)} {within}", inside))
    count = entry["parameters"]["total"]
    few = count <= PARAMETERS
    cells.append(_answer(f"{count:,} {'≤' if few else '>'} {PARAMETERS:,}", few))
    return cells


def _answer(text: str, ok: bool) -> tuple[str, bool]:
    return f"{text}: {'reached' if ok else '**not reached**'}", ok


# Controls and ablations


def control(runs: Mapping[str, Run]) -> Run | None:
    """What the distribution of the latent adds: a row for each track, and the verdict in a sentence."""
    found = {
        track: run["models"][CONTROL]["paired"]["nll"]
        for track, run in runs.items()
        if CONTROL in run["models"]
    }
    if not found:
        return None
    rows = [
        [
            track,
            *(shown(mean(runs[track]["models"][name], "nll_mean")) for name in (CONTROL, LEADING)),
            plus_minus(one),
            percent(one["weeks_won"], 0),
            in_words(one),
        ]
        for track, one in found.items()
    ]
    counts = {
        word: sum(judged(one) == word for one in found.values()) for word in ("ahead", "level", "behind")
    }
    verdict = (
        f"With the distribution, NLL is better by more than two standard errors on {counts['ahead']} of "
        f"{len(found)} tracks, not different beyond that on {counts['level']}, "
        f"and worse on {counts['behind']}"
    )
    gains = [one["difference"] for one in found.values() if one["difference"] is not None]
    if gains:
        ends = dict.fromkeys(f"{gain:+.3f}" for gain in (min(gains), max(gains)))
        verdict += f"; the gain is {' to '.join(ends)} nats"
    return {"rows": rows, "verdict": verdict + "."}


def ablation_table(ablations: Iterable[Run]) -> Run | None:
    """A row for each change, a column for each track; None without ablations."""
    cells: dict[str, dict[str, Run]] = {}
    for one in ablations:
        cells.setdefault(one["change"], {})[one["track"]] = one
    if not cells:
        return None
    found = {track for of in cells.values() for track in of}
    tracks = [*(t for t in ORDER if t in found), *sorted(found - set(ORDER))]
    unchanged = {c: of for c, of in cells.items() if all(one["difference"] is None for one in of.values())}
    return {
        "tracks": tracks,
        "unchanged": [
            [change, *(shown(of[t]["nll"]) if t in of else "" for t in tracks), _seeds(of), ""]
            for change, of in unchanged.items()
        ],
        "changes": [
            [change, *(plus_minus(of[t]) if t in of else "" for t in tracks), _seeds(of), _effect(of)]
            for change, of in cells.items()
            if change not in unchanged
        ],
    }


def _seeds(of: Mapping[str, Run]) -> str:
    counts = sorted({one["seeds"] for one in of.values()})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _effect(of: Mapping[str, Run]) -> str:
    """What a change does, in a few words; its difference is positive where it is worse."""
    words = {"ahead": "worse", "behind": "better"}
    found: dict[str, list[str]] = {}
    for track, one in of.items():
        if judged(one) in words:
            found.setdefault(words[judged(one)], []).append(track)
    if not found:
        return "no difference"
    if len(found) == 1:
        word, tracks = next(iter(found.items()))
        return word if len(tracks) == len(of) else f"{word} on {', '.join(tracks)}"
    return "; ".join(f"{word} on {', '.join(tracks)}" for word, tracks in found.items())
