"""`Stream`: a fitted model at work on a live stream, and its snapshot."""

import hashlib
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from latenttrack.data.clocks import read_clock
from latenttrack.data.matching import shown
from latenttrack.data.reading import Table, choose_time, read_table, require_columns
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.filtering.alarm import PERIOD
from latenttrack.filtering.batch import Events, run_events
from latenttrack.filtering.forecasting import Forecast
from latenttrack.filtering.gate import GateSettings
from latenttrack.filtering.keeping import LiveState, keep, restore
from latenttrack.filtering.live import BUFFER, LiveFilter
from latenttrack.filtering.program import LEVELS, Program, Units
from latenttrack.fitted.model import Model, from_parts, to_parts
from latenttrack.store.tensors import read_tensors, write_tensors

_KIND = "snapshot"
_LIVE = "live."
_MOST_LEVELS = 1000


class Stream(LiveFilter):
    """A model's live filter: `predict(x)`, `observe(y)`, `snapshot(path)`.

    It begins where the model's own data end, if the model was advanced to there (`Model.advance`), and else
    from nothing, or from `past`.

    Args:
        model: with one seed; pool several (`lt.pool`).
        past: what came before, as it was loaded.
        gate: a policy ("hold", "clip", "reset", "off"), or all its settings.
        buffer: steps that a label may be late and still be taken in.
        levels: of the quantiles that are reported.
        alarm: labels between two false drift alarms, at least, on average; 0 for no alarm.

    Attributes:
        choices: policy of the gate, buffer and alarm.
        counts: events, labels, too-late, unmatched, held, gaps and drift so far.
        extra: JSON-safe fields of the user's own, kept in snapshots.
    """

    def __init__(
        self,
        model: Model,
        past: Series | None = None,
        *,
        gate: GateSettings | str = "hold",
        buffer: int = BUFFER,
        levels: tuple[float, ...] = LEVELS,
        alarm: int | float = PERIOD,
    ):
        if model.pipeline is None or model.feed is None:
            raise LatentTrackError(
                f"this {model.name} was fitted without a pipeline, and cannot read raw rows: "
                "fit it with pipeline=... and a series that was prepared by it."
            )
        if len(model.stack) > 1:
            raise LatentTrackError(
                f"this {model.name} has {len(model.stack)} seeds, and a stream runs one model: "
                "mix them with lt.pool(model), or fit with seeds=1."
            )
        settings = GateSettings(gate) if isinstance(gate, str) else gate
        program = compiled(model, _checked(levels))
        super().__init__(program, model.pipeline, model.feed, gate=settings, buffer=buffer, alarm=alarm)
        self.model, self.extra = model, dict[str, Any]()
        self.choices = {"gate": settings.policy, "buffer": buffer, "alarm": alarm}
        self._settings = {**self.choices, "gate": asdict(settings), "levels": list(levels)}
        self._fingerprint = fingerprint(model)
        if past is not None:
            self.absorb(past, trained=model.trained_on(past))
        elif model.start is not None:
            # The model may have kept more steps than this buffer does: they leave when all is run.
            capacity, kept = self.log.capacity, np.size(model.start.tensors.get("time", ()))
            self.log.resize(max(capacity, kept))
            restore(self, model.start, "the model's own start")
            self.log.resize(capacity)

    def run(self, table: object, time: str | None = None) -> dict[str, np.ndarray]:
        """Predict all rows of a table, in compiled passes, with the numbers of event by event.

        No row is refused because it comes long after the one before. One that cannot be taken in, as it
        comes too late, has NaN in place of numbers and the flag "error:" with the reason. Columns that the
        model does not use are left out, and not flagged: a table usually has some.

        Args:
            table: a dataframe, a dict of columns or a file: the model's inputs by name and, where labels do
                not come from one of them, the target, which is told after each row.
            time: the column of times; None: the columns that made the time in the model's own file, the only
                column of times, or else rows follow on each other.

        Returns:
            Columns [N]: time, mean, std, q0.05, ..., aleatoric, epistemic, surprise, flags (a list each).
        """
        found = run_events(self, _events(self, read_table(table), time))
        columns: dict[str, list[Any]] = {
            "time": [p.time for p in found],
            "mean": [p.mean for p in found],
            "std": [p.std for p in found],
            **{f"q{level}": [p.quantiles[level] for p in found] for level in self.levels},
            "aleatoric": [p.aleatoric for p in found],
            "epistemic": [p.epistemic for p in found],
            "surprise": [p.surprise for p in found],
        }
        flags = np.empty(len(found), object)
        flags[:] = [list(p.flags) for p in found]
        times = np.array(columns.pop("time"), "datetime64[ns]" if self.feed.clock else float)
        return {"time": times, **{name: np.array(c, float) for name, c in columns.items()}, "flags": flags}

    def copy(self) -> "Stream":
        """A stream in the same state, bit for bit, that goes its own way."""
        twin = _fresh(self.model, self._settings)
        restore(twin, keep(self), "the stream")
        twin.model, twin.extra = self.model, dict(self.extra)
        return twin

    def forecast(
        self,
        steps: int,
        recent: object = None,
        covariates: object = None,
        *,
        samples: int = 200,
        seed: int = 0,
    ) -> Forecast:
        """The target at each of the steps to come, from the newest row whose target is known.

        The stream stays as it is. Sampled paths go on as it would, each with its own belief and its own
        labels (filtering/forecasting.py). For a model with a horizon of h steps the first h are what it has
        given out already, at h rows one after another, narrowed by the labels that came since.

        Args:
            steps: H, how many.
            recent: rows since the newest one: a file, a dataframe or a dict of columns, as `lt.read_table`
                reads it. Older rows are skipped. In rows after the last known target the other columns are
                taken for the known future.
            covariates: what is known of the steps to come, likewise; without a column of times, row k is the
                k-th of them. For measurements that are not known (`Forecast.unknown`) those at the same time
                of earlier seasons stand in.
            samples: S, how many paths.
            seed: of the draws; the same seed gives the same forecast.

        Returns:
            Mean, standard deviation and quantiles [H], and the paths themselves [S, H].
        """
        from latenttrack.fitted.forecast import forecast

        return forecast(self.copy(), steps, recent, covariates, samples=samples, seed=seed)

    def snapshot(self, path: str | Path) -> None:
        """Write all that `lt.resume` needs to go on, bit for bit, atomically.

        Args:
            path: a file; if it exists it is replaced, whole or not at all.
        """
        tensors, header = to_parts(self.model)
        state = keep(self)
        write_tensors(
            path,
            {**tensors, **{_LIVE + name: array for name, array in state.tensors.items()}},
            {
                "of": header,
                "settings": self._settings,
                "fingerprint": self._fingerprint,
                "live": state.header,
                "extra": self.extra,
            },
            _KIND,
        )


def resume(path: str | Path, model: Model | None = None) -> Stream:
    """The stream that a snapshot was taken of, as it was.

    Args:
        path: what `Stream.snapshot` wrote.
        model: if given, the model that the snapshot must be of.
    """
    tensors, header = read_tensors(path, _KIND)
    try:
        own = {name: array for name, array in tensors.items() if not name.startswith(_LIVE)}
        live = {name[len(_LIVE) :]: array for name, array in tensors.items() if name.startswith(_LIVE)}
        settings, mark = header["settings"], header["fingerprint"]
        if model is not None and fingerprint(model) != mark:
            raise LatentTrackError(
                f"{path} is a snapshot of another model: delete it to begin anew, or give its own model."
            )
        model = from_parts(own, header["of"], str(path)) if model is None else model
        stream = _fresh(model, settings)
        restore(stream, LiveState(live, header["live"]), str(path))
        stream.model, stream.extra = model, dict(header["extra"])
        return stream
    except LatentTrackError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise LatentTrackError(
            f"{path} is no snapshot that this version can read ({error}): delete it to begin anew."
        ) from None


def _events(live: Stream, table: Table, time: str | None) -> Events:
    """The rows of a table as events."""
    feed, columns, count = live.feed, table.columns, len(table)
    stamps = _stamps(live, table, time)
    read = [name for name in dict.fromkeys((*feed.columns, *feed.inputs, feed.source)) if name in columns]
    values = zip(*(columns[name].tolist() for name in read), strict=True) if read else [()] * count
    found = [feed.row(dict(zip(read, row, strict=True))) for row in values]
    rows = np.array([row for row, _, _ in found]).reshape(count, len(feed.inputs))
    source, flags = np.array([label for _, label, _ in found]), [flags for _, _, flags in found]
    label = np.full(count, math.nan)
    if feed.source is None and feed.target in columns:
        label = np.array([feed.number(y, feed.target)[0] for y in columns[feed.target].tolist()], float)
    times = np.array(stamps, np.int64 if feed.clock else float)
    return Events(times, rows, label, source, flags, [None] * count)


def _stamps(live: Stream, table: Table, time: str | None) -> list[int | float]:
    """When each row of a table was, as `Feed.time` gives it."""
    feed, parts = live.feed, live.model.file.get("time", ())
    if time is None and feed.clock and parts and all(name in table.columns for name in parts):
        return [feed.time(value) for value in read_clock(table, parts)]
    clock = choose_time(table, time, exclude=()) if feed.clock else time
    if clock is not None:
        require_columns(table, [clock])
        return [feed.time(value) for value in table.columns[clock]]
    newest, interval = live.log.newest, live.interval or 1
    if newest is None and feed.clock:
        raise LatentTrackError(f"{table.source} has no column of times: name it, as in time='ts'.")
    first = 0 if newest is None else newest.time + interval
    return [first + i * interval for i in range(len(table))]


def _checked(levels: tuple[float, ...]) -> tuple[float, ...]:
    """Probabilities, or an error."""
    known = 0 < len(levels) <= _MOST_LEVELS and all(
        isinstance(level, int | float) and not isinstance(level, bool) and 0 < level < 1 for level in levels
    )
    if not known:
        raise LatentTrackError(
            f"levels are {shown(levels)}: give up to {_MOST_LEVELS} numbers between 0 and 1."
        )
    return levels


def _fresh(model: Model, settings: dict[str, Any]) -> Stream:
    """A stream that begins from nothing, with the settings of another one."""
    return Stream(
        replace(model, start=None),
        gate=GateSettings(**settings["gate"]),
        buffer=settings["buffer"],
        levels=tuple(settings["levels"]),
        alarm=settings["alarm"],
    )


def compiled(model: Model, levels: tuple[float, ...]) -> Program:
    """The model's program: made once, and shared by all its streams."""
    assert model.pipeline is not None
    if levels not in model.programs:
        units = Units(model.pipeline.y_loc, model.pipeline.y_scale)
        model.programs[levels] = Program(model.stack[0], len(model.pipeline.names), units, levels)
    return model.programs[levels]


def advanced(model: Model, series: Series) -> Model:
    """See `Model.advance`."""
    if model.start is None:
        stream = model.stream(series)
    else:
        stream = model.stream()
        for i in range(len(series)):
            stream.predict_row(*stream.feed.row(series.x[i]), time=series.time[i], trusted=True)
            # Known only later, but its step waits for it: `observe` is causal.
            stream.observe(float(series.y[i]), time=series.time[i])
    # Its streams count from their own beginning.
    stream.counts = dict.fromkeys(stream.counts, 0)
    return replace(model, start=keep(stream))


def fingerprint(model: Model) -> str:
    """A digest of all that decides what a stream of the model says."""
    tensors, header = to_parts(replace(model, start=None, record={}))
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
