"""From a fitted model and a series to records: filter and score."""

import jax

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.scores import score
from latenttrack.filtering.offline import filter_series
from latenttrack.fitted.model import Model


def evaluate(model: Model, series: Series, *, past: Series | None = None, seed: int = 0) -> Records:
    """Filter a series online with frozen weights and score every forecast.

    Args:
        model: a fitted model.
        series: the part to predict, prepared with the same pipeline as the training part, or as it was
            loaded if the model has a pipeline of its own.
        past: the rows before it, folded into the belief first.
        seed: for models that draw at random when they predict.
    """
    series, past = _prepared(model, series, past)
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
    trained = past is not None and model.trained_on(past)
    key = jax.random.key(seed)
    scores = filter_series(model.stack, series, key, past=past, trained=trained, record=score)
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


def _prepared(model: Model, series: Series, past: Series | None) -> tuple[Series, Series | None]:
    """Through the model's pipeline, if they are not yet."""
    if model.pipeline is None or series.names == model.task.names or series.names != model.pipeline.inputs:
        return series, past
    prepared = model.pipeline.transform(series, history=past)
    return prepared, None if past is None else model.pipeline.transform(past)
