"""What was run and what came out, in sentences and short lists computed from `summary.json`."""

from collections.abc import Iterator, Mapping
from typing import Any

from latenttrack.evaluation import published
from latenttrack.evaluation.claims import STRUCTURED, Claim, median_over_seeds, seed_row
from latenttrack.report.loading import Bench
from latenttrack.report.numbers import clock, duration, integer, number

_SCORES = {"nll_trimmed": "trimmed NLL", "mse_trimmed": "trimmed MSE"}


def headline(bench: Bench) -> str:
    """The title of the page."""
    kinds = (("model", bench.models), ("reference", bench.references))
    parts = [_count(len(records), kind) for kind, records in kinds if records]
    return f"Track {bench.summary['track']['name']}: {' and '.join(parts)}, {_count(_seeds(bench), 'seed')}"


def what_was_run(bench: Bench) -> list[str]:
    """The task, the protocol and the effort, a sentence each."""
    track = bench.summary["track"]
    sentences = []
    if track.get("target"):
        ahead = f", {_count(track['horizon'], 'step')} ahead" if isinstance(track.get("horizon"), int) else ""
        sentences.append(f"Predicted is {track['target']}{ahead}.")
    if isinstance(track.get("train_steps"), int) and isinstance(track.get("test_steps"), int):
        period = " to ".join(clock(str(track.get(name))) for name in ("first_test_time", "last_test_time"))
        sentences.append(
            f"The models were trained on the first {integer(track['train_steps'])} steps and then predicted "
            f"the next {integer(track['test_steps'])} ({period}) one by one, without further training."
        )
    if isinstance(track.get("delay"), int):
        sentences.append(f"Each label became known {_count(track['delay'], 'step')} after its prediction.")
    if isinstance(bench.summary.get("seconds"), int | float):
        cores = (bench.summary.get("machine") or {}).get("cores")
        on = f" on {_count(cores, 'core')}" if isinstance(cores, int) else ""
        sentences.append(f"The whole run took {duration(float(bench.summary['seconds']))}{on}.")
    return sentences


def what_came_out(bench: Bench) -> list[str]:
    """Who is best, beside the paper's best; which references beat every model."""
    rows = {
        name: seed_row(entry, bench.summary["representative_seed"])
        for name, entry in bench.summary["models"].items()
    }
    models = {entry.model: rows[entry.model] for entry in bench.models}
    sentences = []
    if models:
        seed = f" (seed {bench.summary['representative_seed']})" if _seeds(bench) > 1 else ""
        sentences.append(f"Best of the models{seed}: {_lowest(models)}.")
        if bench.published:
            sentences.append(f"Best in the paper: {_lowest(published.TABLE)}.")
        sentences += _over_seeds(bench)
        sentences += _better_references(bench, rows, models)
    return sentences


def _over_seeds(bench: Bench) -> Iterator[str]:
    """The medians over seeds of LT-structured, which one seed says little about."""
    entry = bench.summary["models"].get(STRUCTURED)
    if entry is not None and len(entry["seeds"]) > 1:
        told = [f"{words} {number(median_over_seeds(entry, score))}" for score, words in _SCORES.items()]
        yield f"{STRUCTURED}, median over {len(entry['seeds'])} seeds: {', '.join(told)}."


def _better_references(
    bench: Bench, rows: Mapping[str, Mapping[str, float]], models: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """Which references have lower scores than every model."""
    ahead = []
    for entry in bench.references:
        row = rows[entry.model]
        told = [
            f"{words} {number(row[score])}"
            for score, words in _SCORES.items()
            if row[score] < min(other[score] for other in models.values())
        ]
        if told:
            ahead.append(f"{entry.model} ({', '.join(told)})")
    if ahead:
        yield f"References ahead of every model: {'; '.join(ahead)}."


def verdict(claims: list[Claim]) -> str:
    """How many claims hold, in a sentence."""
    counts = [sum(claim.holds is answer for claim in claims) for answer in (True, False, None)]
    hold, fail, unknown = counts
    text = (
        f"The paper's claims, as {len(claims)} statements: {hold} hold{'s' * (hold == 1)} in this run, "
        f"{fail} do{'es' * (fail == 1)} not"
    )
    return f"{text}, {unknown} cannot be judged." if unknown else f"{text}."


def run_facts(bench: Bench) -> list[tuple[str, str]]:
    """Names and values of what one needs to run this again."""
    summary = bench.summary
    facts = [("command", str(summary.get("command", "")))]
    facts += [
        (name.replace("_", " "), _value(value)) for name, value in summary["track"].items() if name != "name"
    ]
    facts += [("seeds", str(_seeds(bench))), ("representative seed", str(summary["representative_seed"]))]
    facts += [("sentinel rows in the test part", str(len(summary.get("anomalies") or [])))]
    facts += [(str(name), _value(value)) for name, value in (summary.get("machine") or {}).items()]
    facts += [(str(name), _value(value)) for name, value in (summary.get("versions") or {}).items()]
    return [(name, value) for name, value in facts if value]


def settings(bench: Bench) -> list[tuple[str, list[str]]]:
    """Model and its settings, training and features, as text."""
    rows = []
    for entry in (*bench.models, *bench.references):
        parts = bench.summary["models"][entry.model]
        texts = [_value(parts.get(part) or {}) for part in ("settings", "training", "features")]
        if any(texts):
            rows.append((entry.model, texts))
    return rows


def _lowest(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Who has the lowest scores."""
    told: dict[str, list[str]] = {}
    for score, words in _SCORES.items():
        name = min(rows, key=lambda name: rows[name][score])
        told.setdefault(name, []).append(f"{words} {number(rows[name][score])}")
    return "; ".join(f"{name}, {', '.join(scores)}" for name, scores in told.items())


def _seeds(bench: Bench) -> int:
    return max(len(entry["seeds"]) for entry in bench.summary["models"].values())


def _count(number_of: int, thing: str) -> str:
    return f"{number_of} {thing}{'s' * (number_of != 1)}"


def _value(value: Any) -> str:
    """JSON as short text."""
    if isinstance(value, dict):
        return "; ".join(f"{str(name).replace('_', ' ')} {_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(_value(item) for item in value) if value else "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return (
        f"{value:g}"
        if isinstance(value, float)
        else integer(value)
        if isinstance(value, int)
        else clock(str(value))
    )
