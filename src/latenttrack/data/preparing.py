"""From a series as it was loaded to the two parts that a model is trained and judged on."""

from typing import Any

from latenttrack.data.features import Pipeline
from latenttrack.data.known_label import forget_unknown
from latenttrack.data.series import Series


def prepare(series: Series, fraction: float = 0.7, **choices: Any) -> tuple[Series, Series, Pipeline]:
    """Split in time, fit a pipeline on the training part only, and transform both parts.

    Labels that were not known yet at the cut (the last `delay - 1` of each stream in the training part) have
    no influence on the pipeline. The test part's first lags reach back into the training part, as they would
    live.

    Args:
        series: everything there is.
        fraction: share of the rows before the cut.
        **choices: passed on to `Pipeline.fit`.

    Returns:
        (train, test, pipeline).
    """
    past, future = series.split(fraction)
    pipeline = Pipeline.fit(forget_unknown(past), **choices)
    return pipeline.transform(past), pipeline.transform(future, history=past), pipeline
