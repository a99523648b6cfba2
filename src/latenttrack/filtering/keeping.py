"""The whole state of a live filter as plain arrays and JSON, and back: what a snapshot keeps.

A belief at the beginning of the log, and the log itself: the beliefs after it follow, bit for bit.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latenttrack.data.matching import short
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.log import Entry

if TYPE_CHECKING:
    from latenttrack.filtering.live import LiveFilter

_NUMBERS = ("label", "stand_in", "pit", "log_score")
_MARKS = ("asked", "held")
_WORDS = ("belief", "origin", "said")
_BEFORE = "before."  # what was known before a leap in time, a state of its own


class LiveState(NamedTuple):
    """What a file keeps of a live filter: arrays by name, and JSON-safe fields."""

    tensors: dict[str, np.ndarray]
    header: dict[str, Any]


def keep(live: "LiveFilter") -> LiveState:
    """The state of a live filter."""
    live.settle()
    live.leaps.forget()
    log, base = live.log, _base(live)
    entries = log.entries
    belief, memory = (live.belief, live.memory) if base is None else (base.belief, base.memory)
    split, earlier = live.program.split, live.leaps.before
    tensors = {
        "belief": split(belief)[0],
        "origin": split(live.origin)[0],
        **{f"memory.{i}": rows for i, rows in enumerate(memory.get(0, ()))},
        **{name: np.array([getattr(e, name) for e in entries], np.float64) for name in _NUMBERS},
        **{name: np.array([getattr(e, name) for e in entries], bool) for name in _MARKS},
        "time": np.array([e.time for e in entries], np.int64 if live.feed.clock else np.float64),
        "row": np.array([e.row for e in entries], np.float64),
        "came": np.array([e.row if e.came is None else e.came for e in entries], np.float64),
        "gated": np.array([e.came is not None for e in entries], bool),
        "features": np.array([e.features for e in entries], np.float32),
        "given": np.array([e.forecast is not None for e in entries], bool),
        "said": _stacked([None if e.forecast is None else split(e.forecast)[1] for e in entries]),
        **{_BEFORE + name: array for name, array in (earlier.tensors if earlier else {}).items()},
    }
    header = {
        "first": log.first,
        "base": None if base is None else base.number,
        "ids": [e.id for e in entries],
        "also": {str(i): list(e.also) for i, e in enumerate(entries) if e.also},
        "flags": [e.flags for e in entries],
        "begins": [e.begin for e in entries],
        "begin": live.begin,
        "leaps": {**live.leaps.to_dict(), "before": earlier and earlier.header},
        "surprise": None if math.isnan(live.surprise) else live.surprise,
        "counts": live.counts,
        "gate": live.gate.to_dict(),
        "alarm": live.alarm.to_dict(),
    }
    return LiveState(tensors, header)


def restore(live: "LiveFilter", state: LiveState, source: str) -> None:
    """Put a fresh live filter into a state that `keep` gave.

    Args:
        live: of the same model and settings.
        state: what was kept.
        source: where it comes from, for the error message.
    """
    try:
        _restore(live, *state)
    except LatentTrackError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise LatentTrackError(
            f"{source} does not fit this model ({type(error).__name__}: {short(str(error))}): it is "
            "damaged, or of another version of latenttrack, so start the stream anew."
        ) from None


def _restore(live: "LiveFilter", tensors: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    # A model of an earlier version begins without leaps.
    leaps = header.get("leaps") or {**live.leaps.to_dict(), "before": None}
    before = None
    if leaps["before"] is not None:
        own = {n[len(_BEFORE) :]: array for n, array in tensors.items() if n.startswith(_BEFORE)}
        before = LiveState(own, leaps["before"])
        # It may be needed: that it fits is known now.
        _restore(live, *before)
        live.log.clear()
    _check(live, tensors, header)
    belief, origin = (live.program.join(tensors[name], None) for name in ("belief", "origin"))
    count = sum(name.startswith("memory.") for name in tensors)
    memory = {0: tuple(tensors[f"memory.{i}"] for i in range(count))} if count else {}
    entries = [_entry(live, i, tensors, header) for i in range(len(tensors["time"]))]
    base = header["base"]
    if base is not None:
        entries[base - header["first"]].belief = belief
        entries[base - header["first"]].memory = memory
    live.resume(entries, belief, origin, memory, base)
    live.begin = str(header["begin"])
    live.leaps.restore(leaps, before)
    live.surprise = math.nan if header["surprise"] is None else float(header["surprise"])
    live.counts.update({name: int(header["counts"][name]) for name in live.counts})
    live.gate.restore(header["gate"])
    live.alarm.restore(header["alarm"])


def _check(live: "LiveFilter", tensors: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    """Whether all that is kept of the log fits together and to the model."""
    count, first, base = len(tensors["time"]), header["first"], header["base"]
    if type(first) is not int or first < 0 or count > live.log.capacity:
        raise ValueError(f"its log has {count} steps from {first}")
    runs_from = live.log.runs_from(live.feed.delay, first)
    if base is not None and (type(base) is not int or not max(first, runs_from) <= base < first + count):
        raise ValueError(f"it begins again at {base}")
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*_NUMBERS, *_MARKS, "gated", "given"), (count,))
    if count:
        shapes |= {name: (count, len(live.feed.inputs)) for name in ("row", "came")}
        shapes["features"] = (count, len(live.pipeline.names))
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise ValueError(f"{name} has shape {tensors[name].shape}")
    for name in _WORDS:  # their length is checked where they are joined
        if tensors[name].dtype != np.float32:
            raise ValueError(f"{name} is of {tensors[name].dtype}")
    for name in ("ids", "flags", "begins"):
        if not isinstance(header[name], list) or len(header[name]) != count:
            raise ValueError(f"it has not as many {name} as steps")
    further = [id for ids in header.get("also", {}).values() for id in ids]
    if not all(id is None or isinstance(id, str | int) for id in (*header["ids"], *further)):
        raise ValueError("an id is neither text nor a number")


def _base(live: "LiveFilter") -> Entry | None:
    """The first step from which on all can be run again."""
    begin = live.log.runs_from(live.feed.delay)
    return next((e for e in live.log.entries if e.belief is not None and e.number >= begin), None)


def _entry(live: "LiveFilter", i: int, tensors: dict[str, np.ndarray], header: dict[str, Any]) -> Entry:
    track = live.program.join(None, tensors["said"][i]) if tensors["given"][i] else None
    return Entry(
        header["first"] + i,
        tensors["time"][i].item(),
        tensors["row"][i],
        header["ids"][i],
        asked=bool(tensors["asked"][i]),
        label=float(tensors["label"][i]),
        held=bool(tensors["held"][i]),
        stand_in=float(tensors["stand_in"][i]),
        came=tensors["came"][i] if tensors["gated"][i] else None,
        begin=str(header["begins"][i]),
        flags=[str(flag) for flag in header["flags"][i]],
        features=tensors["features"][i],
        report=None if track is None else live.program.report(track),
        forecast=track,
        pit=float(tensors["pit"][i]),
        log_score=float(tensors["log_score"][i]),
        also=tuple(header.get("also", {}).get(str(i), ())),
    )


def _stacked(rows: list[np.ndarray | None]) -> np.ndarray:
    """[N, ...], zeros where there is none."""
    like = next((row for row in rows if row is not None), np.zeros(0, np.float32))
    return np.array([np.zeros_like(like) if row is None else row for row in rows], np.float32)
