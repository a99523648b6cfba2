"""From a fitted model and a series to records: filter and score."""

import jax

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.scores import score
from latenttrack.filtering.offline import filter_series
from latenttrack.training.model import Model


def evaluate(model: Model, series: Series, *, past: Series | None = None, seed: int = 0) -> Records:
    """Filter a series online with frozen weights and score every forecast.

    Args:
        model: a fitted model.
        series: the part to predict, prepared with the same pipeline as the training part.
        past: the rows before it, folded into the belief first.
        seed: for models that draw at random when they predict.
    """
    if series.names != model.task.names:
        raise LatentTrackError(
            f"the series has features {', '.join(series.names)}, but {model.name} was fitted on "
            f"{', '.join(model.task.names)}: prepare it with the model's own pipeline"
        )
    if series.delay != model.task.delay:
        raise LatentTrackError(
            f"the series has a label delay of {series.delay}, but {model.name} was fitted with "
            f"{model.task.delay}: give the same delay, or fit again"
        )
    scores = filter_series(model.stack, series, jax.random.key(seed), past=past, record=score)
    return Records(
        model=model.name,
        time=series.time,
        key=series.key,
        keys=series.keys,
        target=series.target,
        y=series.y_loc + series.y_scale * series.y,
        steps=scores._asdict(),
        parameters=model.parameters,
    )
