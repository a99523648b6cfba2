"""What stands around the network on docs/results.md: its safety net and its correction."""

from collections.abc import Mapping

from results_text import AVERAGE, Run, judged, plus_minus, shown

from latenttrack.evaluation.paired import LEADING
from latenttrack.report.numbers import percent


def net_table(runs: Mapping[str, Run]) -> Run | None:
    """Mean weights of the safety net's members, a row for each track; None where there is no net."""
    weights = {track: run["models"][LEADING].get("weights") for track, run in runs.items()}
    found = {track: of for track, of in weights.items() if of}
    if not found:
        return None
    members = list(dict.fromkeys(name for of in found.values() for name in of))
    rows = [[track, *(percent(of[m]) if m in of else "" for m in members)] for track, of in found.items()]
    return {"members": members, "rows": rows}


def members_table(runs: Mapping[str, Run], members: Mapping[str, Mapping[str, float]]) -> Run | None:
    """NLL of the average and of each of its members alone; None where nothing is known of them."""
    found = {track: members[track] for track in runs if track in members}
    if not found:
        return None
    names = list(dict.fromkeys(name for of in found.values() for name in of if name != AVERAGE))
    rows, behind = [], []
    for track, of in found.items():
        behind.append(of[AVERAGE] - min(of[name] for name in names if name in of))
        told = [shown(of[name]) if name in of else "" for name in (AVERAGE, *names)]
        rows.append([track, *told, f"{behind[-1]:+.3f}"])
    worst = max(behind)
    verdict = (
        f"Nowhere does it end more than {worst:.3f} nats behind the best of its members."
        if worst > 0
        else f"It ends ahead of the best of its members everywhere, by {-worst:.3f} nats at least."
    )
    return {"names": names, "rows": rows, "verdict": verdict}


def correction_table(runs: Mapping[str, Run], corrected: Mapping[str, Mapping[str, Run]]) -> Run | None:
    """What models gain by the correction, a row for each track, and how the others then compare."""
    found = {track: corrected[track] for track in runs if track in corrected}
    if not found:
        return None
    names = list(dict.fromkeys(name for of in found.values() for name in of))
    others = [name for name in names if name != LEADING]
    rows = [
        [
            track,
            *(plus_minus({"difference": of[name]["gain"], **of[name]}) for name in names),
            *(plus_minus(_behind(of[name])) for name in others),
        ]
        for track, of in found.items()
    ]
    groups: dict[str, list[str]] = {}
    for name in others:
        for track, of in found.items():
            groups.setdefault(f"{judged(_behind(of[name]))} {name}", []).append(track)
    told = [
        f"ahead of a corrected {name} on {len(groups.get(f'ahead {name}', []))} of {len(found)} tracks"
        + (f" and behind it on {', '.join(behind)}" if (behind := groups.get(f"behind {name}")) else "")
        for name in others
    ]
    return {"names": names, "others": others, "rows": rows, "verdict": "; ".join(told)}


def _behind(entry: Run) -> Run:
    return {"difference": entry["behind"], "standard_error": entry["behind_error"]}
