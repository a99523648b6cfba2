"""Forecasts of a model or a stream: recent rows are taken in, what is known of the future is laid out."""

import math
from dataclasses import replace

import numpy as np

from latenttrack.data.recent import Rows, read_covariates, read_rows
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.forecasting import Forecast, Future, newest_step, roll
from latenttrack.fitted.model import Model
from latenttrack.fitted.stream import Stream


def require_one_stream(model: Model) -> None:
    """Refuse a model of several streams: none of them is where a forecast could begin."""
    key = model.file.get("key")
    if key is not None and model.start is None:
        raise LatentTrackError(
            f"this model was fitted on several streams (one for each {key!r}), and a forecast is of one: "
            "fit a model to the rows of one of them."
        )


def forecast(
    stream: Stream, steps: int, recent: object, covariates: object, *, samples: int, seed: int
) -> Forecast:
    """See `Stream.forecast`.

    Args:
        stream: goes on through the recent rows: give a copy of one that is still needed.
        steps: H.
        recent: see there.
        covariates: see there.
        samples: S.
        seed: of the draws.
    """
    for name, value in {"steps": steps, "samples": samples}.items():
        if not isinstance(value, int | np.integer) or value < 1:
            raise LatentTrackError(f"{name} is {value!r}: give a whole number, 1 or more.")
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise LatentTrackError(f"seed is {seed!r}: give a whole number, 0 or more.")
    file, known = stream.model.file, list[Rows]()
    clock = tuple(file.get("time", ()))
    if recent is not None:
        known.append(take_in(stream, read_rows(recent, stream.feed, clock=clock, key=file.get("key"))))
    if covariates is not None:
        known.append(read_covariates(covariates, stream.feed, clock=clock))
    future = _future(stream, int(steps), known)
    found = roll(stream, future, samples=int(samples), seed=int(seed))
    return replace(found, notes=tuple(note for rows in known for note in rows.notes))


def take_in(stream: Stream, rows: Rows) -> Rows:
    """Let a stream hear of new rows, up to the last whose target is known; give back those after it."""
    feed, newest = stream.feed, stream.log.newest
    if rows.time is not None and newest is not None:
        if rows.time[-1] < newest.time:
            raise LatentTrackError(
                f"the recent rows end at {feed.show(rows.time[-1])}, before the model's own data do "
                f"({feed.show(newest.time)}): give later rows, or none to forecast from there."
            )
        rows = rows.select(np.array([time > newest.time for time in rows.time], bool))
    known = np.flatnonzero(~np.isnan(rows.y))
    count = int(known[-1]) + 1 if len(known) else 0
    for i in range(count):
        x = dict(zip(feed.inputs, rows.x[i].tolist(), strict=True))
        if feed.source is not None:
            x[feed.source] = float(rows.y[i])
        when = None if rows.time is None else feed.stamp(rows.time[i])
        stream.predict_row(*feed.row(x), time=when, trusted=True)
        if feed.source is None:
            stream.observe(float(rows.y[i]), time=feed.stamp(newest_step(stream).time))
    return rows.select(np.arange(len(rows)) >= count)


def _future(stream: Stream, steps: int, known: list[Rows]) -> Future:
    """Times of the H steps to come, and what the tables say about them; the last table that does counts."""
    feed, now = stream.feed, newest_step(stream).time
    times = _times(stream, steps, known)
    rows = np.full((steps, len(feed.inputs)), math.nan)
    for table in known:
        places = np.arange(len(table))
        if table.time is not None and feed.interval is not None:
            places = np.array([round((time - now) / feed.interval) - 1 for time in table.time], int)
            if len(places) and places.max() < 0:
                raise LatentTrackError(
                    f"the covariates end at {feed.show(table.time[-1])}, before the first step to forecast "
                    f"({feed.show(times[0])}): give those of later steps."
                )
        inside = (places >= 0) & (places < steps)
        rows[places[inside]] = np.where(np.isnan(table.x[inside]), rows[places[inside]], table.x[inside])
    return Future(times, rows, stream.model.task.period or 1)


def _times(stream: Stream, steps: int, known: list[Rows]) -> list[int | float]:
    """Times of the H steps to come, as `Feed.time` gives them."""
    feed, now = stream.feed, newest_step(stream).time
    if not feed.clock:
        return [now + k for k in range(1, steps + 1)]
    if feed.interval is not None:
        return [now + k * feed.interval for k in range(1, steps + 1)]
    # No regular grid: the times of rows that are known, and then on as the stream usually goes.
    passed = np.diff([entry.time for entry in stream.log.entries])
    usual = int(np.median(passed)) if len(passed) else 1
    times: list[int | float] = next((list(t.time[:steps]) for t in known if t.time), [])
    while len(times) < steps:
        times.append((times[-1] if times else now) + usual)
    return times
