"""Which lags of which columns a user asked for, as numbers of columns."""

from collections.abc import Mapping, Sequence

from latenttrack.data.known_label import KNOWN_LABEL
from latenttrack.data.matching import unknown_name
from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError


def position(name: str, names: tuple[str, ...], train: Series) -> int:
    """Where a column stands among the names of a pipeline."""
    if name in names:
        return names.index(name)
    if name in train.names:
        raise LatentTrackError(f"column {name!r} only repeats the known label: name {KNOWN_LABEL!r} instead.")
    raise unknown_name("column", name, names)


def label_lags(*choices: Sequence[int] | Mapping[str, Sequence[int]]) -> list[int]:
    """The lags of the known label that are inputs, as themselves or as a difference."""
    chosen = [c.get(KNOWN_LABEL, ()) if isinstance(c, Mapping) else c for c in choices]
    return sorted({int(lag) for lags in chosen if not isinstance(lags, int) for lag in lags if lag > 0})


def lag_pairs(
    lags: Sequence[int] | Mapping[str, Sequence[int]], names: tuple[str, ...], train: Series
) -> tuple[tuple[int, int], ...]:
    """(column, steps back) of a choice of lags: for all columns, or for each that is named."""
    by_name = lags if isinstance(lags, Mapping) else dict.fromkeys(names, lags)
    columns = {name: position(name, names, train) for name in by_name}
    for name, steps in by_name.items():
        if isinstance(steps, int):
            raise LatentTrackError(
                f"lags of {name!r} are {steps}: give a list of steps back, as in [{steps}]."
            )
        if any(step < 1 for step in steps):
            raise LatentTrackError(f"lags of {name!r} are {list(steps)}: each must be at least 1 step back.")
    return tuple((columns[name], int(step)) for name, steps in by_name.items() for step in steps)
