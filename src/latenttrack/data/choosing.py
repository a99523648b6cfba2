"""Inputs that suit a stream, chosen from its training part: lags, seasons, calendar."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from latenttrack.data.cycles import is_irregular, usual_cycles, usual_step
from latenttrack.data.features import Pipeline
from latenttrack.data.known_label import KNOWN_LABEL, can_be_known, forget_unknown
from latenttrack.data.periods import find_periods
from latenttrack.data.series import Series
from latenttrack.data.stages import CYCLES

RECENT = 23  # consecutive earlier labels
_DIFFERENCES = ((1, 3), (1,), ())  # of the other inputs: the first that stays within the bound below
_MOST_INPUTS = 72  # except that no column of the user's is left out
_OFTEN_MISSING = 0.01  # of the rows: from then on it is worth a flag
_HARMONICS = {"day": 4, "week": 2, "year": 1, "season": 4}
_CLOSE = 0.02  # of its length: so near a season must be to the cycle it is named after
_LABELS_IN_CELL = 20  # and more, on average, make the mean of a step of a season known
_NAMES = {"day": "daily", "week": "weekly", "year": "yearly"}


class Inputs(NamedTuple):
    """What was chosen."""

    period: int | None  # steps in the main season
    features: dict[str, Any]  # for `Pipeline.fit`, on a series with this period
    season: int | None  # steps in the longest season whose mean course can be told from the labels
    words: tuple[str, ...]  # for people


def choose_inputs(train: Series) -> Inputs:
    """Lags of the label, differences of the other inputs and calendar waves that suit a training part.

    At step t the newest label that can be known is that of step t - D. Inputs are that label and its
    differences to the 23 before it and, for a season of P steps, to those of steps t - P and t - P - D: how
    the stream went on from the same place one season ago. Labels that are not known yet where the training
    part ends have no influence.

    Args:
        train: the training part, as it was loaded.
    """
    train = forget_unknown(train)
    periods = find_periods(train)
    train = replace(train, period=periods[0] if periods else train.period)
    lags = set(range(1, RECENT + 1)) | {lag for P in periods for lag in _seasonal(P, train.delay)}
    calendar = _waves(train, periods)
    # Columns that only repeat the known label, now or some steps ago, are left out by the pipeline.
    changes_of_label = {KNOWN_LABEL: sorted(lags)}
    choices: dict[str, Any] = {"labels": True, "missing": False, "standardise": False, "calendar": {}}
    kept = Pipeline.fit(train, differences=changes_of_label, **choices).names
    others = kept[: kept.index(KNOWN_LABEL)]
    season, elapsed = _longest(train, periods), is_irregular(train)
    taken = 1 + len(lags) + 2 * sum(calendar.values()) + len(others) + (0 if season is None else 2) + elapsed
    room = _MOST_INPUTS - taken
    plain = Pipeline.fit(train, **choices).transform(train)
    flags = _often_missing(plain, (*others, KNOWN_LABEL))[: max(room, 1)]
    room -= len(flags)
    changes = next((d for d in _DIFFERENCES if len(others) * len(d) <= room), ())
    features = {
        "labels": True,
        "differences": changes_of_label | {name: list(changes) for name in others if changes},
        "calendar": calendar,
        "clip": 6.0,
        "missing": flags,
        **({"elapsed": True} if elapsed else {}),
    }
    words = _words(train, periods, calendar, train.delay + max(lags))
    words += ("input: the time since the row before, as rows are not evenly spaced",) * elapsed
    return Inputs(train.period, features, season, words)


def _seasonal(period: int, delay: int) -> set[int]:
    """From the newest known label back to those of steps t - P and t - P - D; P made a multiple >= D."""
    season = period * -(-delay // period)
    return {season - delay, season} - {0}


def _waves(train: Series, periods: tuple[int, ...]) -> dict[str, int]:
    """Harmonics of the cycles that fit; of the week, or a season without a clock, only if it was found."""
    found = {_cycle(train, P) for P in periods}
    waves = {}
    for name, length in usual_cycles(train).items():
        if name in ("week", "season") and name not in found:
            continue
        # The sampling theorem: higher ones repeat the lower.
        distinct = int(np.ceil(length / max(usual_step(train), 1e-9) / 2.0)) - 1
        waves[name] = max(min(_HARMONICS[name], distinct), 1)
    return waves


def _longest(train: Series, periods: tuple[int, ...]) -> int | None:
    """The longest season with enough labels at each of its steps; one that is a calendar's, exactly."""
    known = np.count_nonzero(~np.isnan(train.y))
    for period in reversed(periods):
        steps, name = float(period), _cycle(train, period) if train.has_clock else None
        if name is not None:
            steps = CYCLES[name] / usual_step(train)
        if steps.is_integer() and known >= _LABELS_IN_CELL * steps:
            return int(steps)
    return None


def _often_missing(rows: Series, names: tuple[str, ...]) -> list[str]:
    """Which of these columns are worth a flag, the most often missing first; of several together, one."""
    void = np.isnan(rows.x[can_be_known(rows)][:, [rows.names.index(name) for name in names]])
    share = void.sum(axis=0) / max(len(void), 1)
    chosen: list[int] = []
    for i in np.argsort(-share, kind="stable").tolist():
        alike = any(np.mean(void[:, i] != void[:, j]) < 0.1 * _OFTEN_MISSING for j in chosen)
        if share[i] > _OFTEN_MISSING and not alike:
            chosen.append(i)
    return [names[i] for i in chosen]


def _cycle(train: Series, period: int) -> str | None:
    """The calendar cycle that a season is, if any."""
    if not train.has_clock:
        return "season" if period == train.period else None
    length = period * usual_step(train)
    return next((name for name, cycle in CYCLES.items() if abs(length - cycle) < _CLOSE * cycle), None)


def _words(
    train: Series, periods: tuple[int, ...], calendar: dict[str, int], longest: int
) -> tuple[str, ...]:
    seasons = [_NAMES.get(_cycle(train, P) or "", f"{P}-step") for P in periods]
    found = " and ".join(seasons) + " pattern found" if seasons else "no season found"
    waves = f"waves of the {_list(list(calendar))}" if calendar else "no calendar"
    return (found, f"inputs: labels up to {longest} steps back, {waves}")


def _list(names: list[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])
