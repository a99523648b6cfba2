"""`Pipeline`: from measurements to model inputs, in batch and one row at a time, with the same numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from latenttrack.data.cycles import chosen_cycles, usual_step
from latenttrack.data.known_label import (
    KNOWN_LABEL,
    check_labels,
    due_labels,
    unlike_label,
)
from latenttrack.data.lag_choices import label_lags, lag_pairs, position
from latenttrack.data.profile import Profile
from latenttrack.data.row_checks import check_row, check_series, check_time
from latenttrack.data.series import Series
from latenttrack.data.stages import (
    Bend,
    Calendar,
    Keep,
    Lags,
    MissingIndicator,
    Sentinels,
    Stage,
    Standardise,
    Ticks,
    elapsed_stages,
)
from latenttrack.errors import LatentTrackError

_KINDS: dict[str, Callable[..., Stage]] = {
    "keep": Keep,
    "bend": Bend,
    "sentinels": Sentinels,
    "missing": MissingIndicator,
    "lags": Lags,
    "ticks": Ticks,
    "profile": Profile,
    "standardise": Standardise,
    "calendar": Calendar,
}
# The live memory of a pipeline: for each key, for each stage, the [depth, F] rows it may still look at.
PipelineState = dict[int, tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Pipeline:
    """Stages fitted on a training part, frozen ever after.

    Attributes:
        inputs: names of the F columns it takes.
        clock: whether it expects dates and times (True) or step numbers (False).
        stages: what is done to a row, in order.
        labels: whether the label that becomes due at a step is an input of that step, `KNOWN_LABEL`.
    """

    inputs: tuple[str, ...]
    clock: bool
    stages: tuple[Stage, ...]
    labels: bool = False

    @classmethod
    def fit(
        cls,
        train: Series,
        *,
        labels: bool = False,
        bend: Mapping[str, Any] | None = None,
        sentinels: float | Sequence[float] = (),
        missing: bool | Sequence[str] = True,
        lags: Sequence[int] | Mapping[str, Sequence[int]] = (),
        differences: Sequence[int] | Mapping[str, Sequence[int]] = (),
        elapsed: bool = False,
        profile: int | None = None,
        calendar: Mapping[str, int] | None = None,
        standardise: bool = True,
        clip: float | None = None,
        target: bool = True,
    ) -> "Pipeline":
        """Fit on the training part, and on nothing else.

        Args:
            train: the training part.
            labels: make the label that becomes due at each step (that of step t - delay) an input, called
                `known_label`; lags and differences may name it. A column that only repeats it, or one of
                its lags, is left out.
            bend: {"kind", "low", "offset"} of the square root or logarithm of it that is the input instead.
            sentinels: the value, or values, that mean "missing" in any column.
            missing: add a 0/1 column for each column with missing values in the training part, or for those
                named.
            lags: steps back, for all columns, or for each column named.
            differences: the same, for the change since then instead of the value then.
            elapsed: make the logarithm of the time since the row before an input: for irregular streams.
            profile: steps of the season whose mean course is an input, with its change since the step whose
                label is due; None for none.
            calendar: number of harmonics for each of "day", "week", "year" (with a clock) or "season"
                (without one; needs `train.period`). {} for none; None chooses those whose
                cycle is longer than two steps and fits twice into the training part.
            standardise: centre and scale columns; without it missing values stay NaN.
            clip: bound of the standardised columns, in standard deviations.
            target: standardise the labels too.

        Returns:
            The pipeline.
        """
        if clip is not None and not clip > 0:
            raise LatentTrackError(f"clip is {clip}: it must be a positive number of standard deviations.")
        check_labels(labels, bend, train.names)
        pipeline = cls(train.names, train.has_clock, (), labels)
        if np.size(sentinels):
            pipeline = pipeline._then(Sentinels(tuple(float(v) for v in np.atleast_1d(sentinels))))
        if labels:
            pipeline = pipeline._with_known_label(train, label_lags(lags, differences), bend)
        columns = pipeline.names
        if missing is True:
            found = MissingIndicator.fit(pipeline._rows(train))
            pipeline = pipeline._then(found) if found.columns else pipeline
        elif missing:
            pipeline = pipeline._then(MissingIndicator(tuple(position(n, columns, train) for n in missing)))
        flags = range(len(columns), len(pipeline.names))
        back = ((lag_pairs(lags, columns, train), False), (lag_pairs(differences, columns, train), True))
        pipeline = pipeline._then(*(Lags(pairs, difference) for pairs, difference in back if pairs))
        if elapsed:
            pipeline = pipeline._then(
                *elapsed_stages(len(pipeline.names), usual_step(train), train.has_clock)
            )
        if profile is not None:
            pipeline = pipeline._then(Profile.fit(train, profile, bend))
        if standardise:
            pipeline = pipeline._then(Standardise.fit(pipeline._rows(train), train.y, flags, clip, target))
        cycles = chosen_cycles(calendar, train)
        return pipeline._then(Calendar(cycles)) if cycles else pipeline

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the F' columns it gives."""
        return self._named[-1]

    @cached_property
    def _named(self) -> list[tuple[str, ...]]:
        """Names of the columns before the first stage and after each."""
        named = [(*self.inputs, KNOWN_LABEL) if self.labels else self.inputs]
        for stage in self.stages:
            named.append(stage.names(named[-1]))
        return named

    @cached_property
    def _room(self) -> int:
        """Columns between two stages, at most."""
        return max(map(len, self._named))

    @property
    def y_loc(self) -> float:
        """The mean that is taken from a label."""
        return next((s.y_loc for s in self.stages if isinstance(s, Standardise)), 0.0)

    @property
    def y_scale(self) -> float:
        """The standard deviation that a label is divided by."""
        return next((s.y_scale for s in self.stages if isinstance(s, Standardise)), 1.0)

    def transform(self, series: Series, history: Series | None = None) -> Series:
        """Transform a whole series.

        Args:
            series: [N] rows with this pipeline's input columns.
            history: the rows just before, so that the first lags are known; same columns and keys.

        Returns:
            The series with [N, F'] features and, if labels are standardised, with `y_loc` and `y_scale` set.
        """
        check_series(series, self.inputs, self.clock)
        if history is not None:
            check_series(history, self.inputs, self.clock)
            if history.keys != series.keys:
                raise LatentTrackError(
                    f"history has keys {history.keys} and the series has {series.keys}: give the same."
                )
        return replace(
            series,
            x=self._rows(series, history),
            names=self.names,
            y=(series.y - self.y_loc) / self.y_scale,
            y_loc=series.y_loc + series.y_scale * self.y_loc,
            y_scale=series.y_scale * self.y_scale,
        )

    def start(self) -> PipelineState:
        """Return the memory before any row: empty."""
        return {}

    def memory(self, series: Series) -> PipelineState:
        """The memory after the rows of a series: `step` goes on from there."""
        check_series(series, self.inputs, self.clock)
        state = self.start()
        for k in np.unique(series.key).tolist():
            here = series.key == k
            rows = self._with_labels(series.x[here], series.y[here], np.zeros(0), series.delay)
            state[k] = self._run(rows, series.time[here], None)[1]
        return state

    def step(
        self,
        state: PipelineState,
        time: np.datetime64 | float,
        row: np.ndarray,
        key: int = 0,
        label: float = math.nan,
    ) -> tuple[np.ndarray, PipelineState]:
        """Transform one row, with the same result as `transform` on the whole stream.

        The state is not changed but returned anew, and copying it takes time linear in the number of keys:
        for thousands of streams keep one state for each.

        Args:
            state: the memory, from `start` or the previous step.
            time: of this row: datetime64 with a clock, else the step number.
            row: [F] the measurements, NaN where missing.
            key: which stream the row belongs to.
            label: the label that becomes due at this step, that of `delay` steps ago; NaN if it is missing.
                Of no effect for a pipeline without `labels`.

        Returns:
            ([F'] features, new state).
        """
        x = check_row(row, self.inputs, label if self.labels else 0.0)
        check_time(time, self.clock)
        ticks = int(np.asarray(time, "datetime64[ns]").astype(np.int64)) if self.clock else float(time)
        return self.follow(state, ticks, x, key, label)

    def steps(
        self, state: PipelineState, time: np.ndarray, rows: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, list[PipelineState]]:
        """`step` for N consecutive rows of stream 0 at once, checked already, with the same result.

        Args:
            state: see `step`.
            time: [N].
            rows: [N, F].
            labels: [N] that become due at each.

        Returns:
            ([N, F'] features, the N + 1 states before each row and after the last).
        """
        x, past = np.column_stack([rows, labels]) if self.labels else rows, state.get(0)
        memories: list[list[np.ndarray]] = [[] for _ in range(len(rows) + 1)]
        for i, stage in enumerate(self.stages):
            before = np.full((stage.depth, x.shape[1]), np.nan) if past is None else past[i]
            known = np.vstack([before, x]) if stage.depth else before
            for t, memory in enumerate(memories):
                memory.append(known[t : t + stage.depth] if stage.depth else before)
            x = stage.apply(x, time, before)
        return x, [{**state, 0: tuple(memory)} for memory in memories]

    def follow(
        self,
        state: PipelineState,
        ticks: int | float,
        row: np.ndarray,
        key: int = 0,
        label: float = math.nan,
    ) -> tuple[np.ndarray, PipelineState]:
        """`step` for a row of floats that was checked already; the time is a plain number.

        Args:
            state: see `step`.
            ticks: nanoseconds since 1970 with a clock, else the step number.
            row: see `step`.
            key: see `step`.
            label: see `step`.
        """
        past, memory = state.get(key), []
        # One array for all stages, each in place: arrays of their own would take longer.
        x, width = np.empty(self._room), len(row)
        x[:width] = row
        if self.labels:
            x[width] = label
            width += 1
        for i, stage in enumerate(self.stages):
            before = np.full((stage.depth, width), np.nan) if past is None else past[i]
            after = before
            if len(before):
                after = np.empty_like(before)
                after[:-1] = before[1:]
                after[-1] = x[:width]
            memory.append(after)
            width = stage.follow(x, width, ticks, before)
        return x[:width], {**state, key: tuple(memory)}

    def to_dict(self) -> dict[str, Any]:
        """Describe the pipeline in plain JSON values; `from_dict` gives back an equal pipeline."""
        kinds = {cls: kind for kind, cls in _KINDS.items()}
        return {
            "inputs": list(self.inputs),
            "clock": self.clock,
            "labels": self.labels,
            "stages": [{"kind": kinds[type(s)], **_lists(asdict(s))} for s in self.stages],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Pipeline":
        """Rebuild a pipeline from what `to_dict` gave.

        Args:
            values: the description, as from `to_dict`, before or after a trip through JSON.

        Returns:
            The pipeline.
        """
        try:
            stages = []
            for description in values["stages"]:
                fields = {name: _tuples(v) for name, v in description.items() if name != "kind"}
                stages.append(_KINDS[description["kind"]](**fields))
            inputs, clock, labels = tuple(values["inputs"]), values["clock"], values.get("labels", False)
            pipeline = cls(inputs, bool(clock), tuple(stages), bool(labels))
            # What does not fit together is noticed here, not at the first row.
            now = np.array([0], "datetime64[ns]" if pipeline.clock else np.float64)
            row = np.full((1, len(inputs) + pipeline.labels), math.nan)
            if pipeline._run(row, now, None)[0].shape != (1, len(pipeline.names)):
                raise KeyError("its columns")
            return pipeline
        except LatentTrackError:
            raise
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise LatentTrackError(
                f"the description of the feature pipeline is damaged at {error}: save the model again."
            ) from None

    def _with_known_label(
        self, train: Series, lags: Sequence[int], bend: Mapping[str, Any] | None
    ) -> "Pipeline":
        """Without columns that only repeat the known label, and with that bent."""
        pipeline, keep = self, unlike_label(self._rows(train), train, lags)
        if len(keep) < len(self.names):
            pipeline = pipeline._then(Keep(keep))
        if bend is not None:
            pipeline = pipeline._then(Bend(len(keep) - 1, bend["kind"], bend["low"], bend["offset"]))
        return pipeline

    def _then(self, *stages: Stage) -> "Pipeline":
        return replace(self, stages=(*self.stages, *stages))

    def _rows(self, series: Series, history: Series | None = None) -> np.ndarray:
        """Transform stream by stream, [N, F] -> [N, F']."""
        parts = []
        for k in np.unique(series.key):
            here = series.key == k
            x, y, past = series.x[here], series.y[here], None
            before = np.zeros(0)
            if history is not None and np.any(history.key == k):
                earlier = history.key == k
                if history.time[earlier][-1] >= series.time[here][0]:
                    raise LatentTrackError(
                        "history does not end before the series starts: give earlier rows."
                    )
                before = history.y[earlier]
                old = self._with_labels(history.x[earlier], before, np.zeros(0), series.delay)
                past = self._run(old, history.time[earlier], None)[1]
            parts.append(self._run(self._with_labels(x, y, before, series.delay), series.time[here], past)[0])
        return np.concatenate(parts)

    def _with_labels(self, x: np.ndarray, y: np.ndarray, before: np.ndarray, delay: int) -> np.ndarray:
        """Rows [M, F] of one stream, with the label that is due at each if that is an input."""
        return np.column_stack([x, due_labels(y, before, delay)]) if self.labels else x

    def _run(
        self, x: np.ndarray, time: np.ndarray, past: tuple[np.ndarray, ...] | None
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Pass consecutive rows of one stream through all stages; also give what each must remember."""
        memory = []
        for i, stage in enumerate(self.stages):
            before = np.full((stage.depth, x.shape[1]), np.nan) if past is None else past[i]
            memory.append(np.vstack([before, x])[len(x) :] if stage.depth else before)
            x = stage.apply(x, time, before)
        return x, tuple(memory)


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists(v) for name, v in value.items()}
    return [_lists(v) for v in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list | tuple) else value
