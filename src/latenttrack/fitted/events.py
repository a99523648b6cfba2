"""Events and answers as lines of JSON.

    event     {"id"?, "time"?, "x": {...}, "y"?}     answered by a prediction
    label     {"id" or "time", "y"}                  answered by what became of it
    else      answered by {"line", "error"}

One line in, one line out. NaN does not exist in JSON: what is not known is null.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latenttrack.data.matching import short, shown
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.answers import Observed, Prediction, rounded
from latenttrack.filtering.batch import Events, run_piece
from latenttrack.filtering.ids import as_id
from latenttrack.fitted.stream import Stream

LONGEST_LINE = 2**20  # bytes


def answer(stream: Stream, line: bytes) -> dict[str, Any]:
    """What a stream says to one line; a line that makes no sense raises an error, and changes nothing."""
    event = _parse(line)
    id, time = as_id(event.get("id")), event.get("time")
    if "x" not in event:
        if "y" not in event:
            raise LatentTrackError('the line has neither "x" (an event) nor "y" (a label): give one of them.')
        return {**_given(id, time), **_observed(stream.observe(event["y"], time=time, id=id))}
    x, label = _event(stream, event)
    prediction = stream.predict(x, time=time, id=id)
    said = _predicted(prediction)
    if label is not None:
        # Only now: the prediction is made.
        said["flags"] += stream.observe(label, time=prediction.time).flags
    return said


def answer_many(stream: Stream, lines: Sequence[bytes]) -> list[dict[str, Any]] | None:
    """What it says to `PIECE` lines, in one compiled pass, with the numbers of line by line.

    Returns:
        An answer for each; None, and no change, if one of them is not an ordinary event with its time.
    """
    rows, times, labels, ids = [], [], [], []
    try:
        for line in lines:
            event = _parse(line)
            if "x" not in event or event.get("time") is None:
                return None
            x, label = _event(stream, event)
            rows.append(stream.feed.row(x))
            times.append(stream.feed.time(event["time"]))
            labels.append(math.nan if label is None else label)
            ids.append(as_id(event.get("id")))
    except LatentTrackError:
        return None  # and said when its turn comes
    events = Events(
        np.array(times),
        np.array([row for row, _, _ in rows]),
        np.array(labels),
        np.array([source for _, source, _ in rows]),
        [flags for _, _, flags in rows],
        ids,
    )
    # Labels that are a measurement, and come a second time under a name of their own, take their turns.
    both = stream.feed.source is not None and not np.isnan(events.label).all()
    answers = None if both else run_piece(stream, events)
    if answers is None:
        return None
    said = [_predicted(prediction) for prediction, _ in answers]
    if stream.feed.source is None:
        for one, (_, observed) in zip(said, answers, strict=True):
            one["flags"] += observed.flags
    return said


def _event(stream: Stream, event: Mapping[str, Any]) -> tuple[Mapping[str, Any], float | None]:
    """Measurements by name, and the label if the event brings it."""
    x = event["x"]
    if not isinstance(x, Mapping):
        raise LatentTrackError(f'"x" is {shown(x)}: give an object of measurements by name.')
    return x, stream.feed.label(event["y"]) if event.get("y") is not None else None


def _parse(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise LatentTrackError(f"the line has more than {LONGEST_LINE} bytes: split it.")
    try:
        event = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_unique)
    except LatentTrackError:
        raise
    except (ValueError, RecursionError) as error:
        raise LatentTrackError(
            f"the line is not JSON ({short(str(error))}): write one object a line."
        ) from None
    if not isinstance(event, dict):
        raise LatentTrackError(f"the line is {shown(event)}, not an object: write one object a line.")
    return event


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are all different: of two values nobody knows which one is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise LatentTrackError(f"the line names {shown(twice)} twice: give one value.")
    return found


def _predicted(prediction: Prediction) -> dict[str, Any]:
    said: dict[str, Any] = {} if prediction.id is None else {"id": prediction.id}
    return {
        **said,
        "time": prediction.time,
        "step": prediction.number,
        "mean": _rounded(prediction.mean, prediction.std),
        "std": _rounded(prediction.std),
        "quantiles": {str(level): _rounded(v, prediction.std) for level, v in prediction.quantiles.items()},
        "aleatoric": _rounded(prediction.aleatoric),
        "epistemic": _rounded(prediction.epistemic),
        "surprise": _rounded(prediction.surprise),
        "flags": list(prediction.flags),
    }


def _observed(observed: Observed) -> dict[str, Any]:
    return {
        "label": observed.status,
        "step": observed.number,
        "surprise": _rounded(observed.surprise),
        "log_score": _rounded(observed.log_score),
        "flags": ["drift"] if observed.drift else [],
    }


def _given(id: str | int | None, time: object) -> dict[str, Any]:
    return {"time": time} if id is None else {"id": id}


def _rounded(value: float, std: float = 0.0) -> float | None:
    """See `rounded`; null for what is not a number."""
    return rounded(value, std) if math.isfinite(value) else None
