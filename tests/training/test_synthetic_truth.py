"""On a stream whose truth is known, a fitted model comes close to it."""

import jax
import numpy as np
import pytest

from latenttrack.data.synthetic import drift
from latenttrack.filtering.offline import filter_series
from latenttrack.models.registry import build
from latenttrack.models.task import Task
from latenttrack.training.fit import train
from latenttrack.training.settings import Training


@pytest.mark.slow
def test_on_a_drifting_stream_the_nll_approaches_the_truths():
    """The excess over the truth's NLL is less than a third of that of models that do not track.

    The excess is the mean of three seeds. Its standard error over the 4000 test steps is given by the paired
    differences; the claim must hold by five of them.
    """
    stream = drift()
    past, late = stream.series.split(0.75)
    truth = stream.truth_nll()[len(past) :]
    task = Task.of(past)

    def excess(name, training, **settings):
        """NLL minus the truth's, for each test step."""
        trained = train(
            lambda key: build(name, task, key, **settings), past, training, jax.random.key(0), seeds=3
        )
        records = filter_series(trained.stack, late, jax.random.key(1), past=past)
        return -records.log_prob.mean(axis=0) - truth

    common = {"window": 64, "sequences": 16, "recency": 1.0, "learning_rate": 1e-2, "cosine": True}
    sizes = {"hidden_size": 32, "latent_size": 4, "features": 8, "predictor": ()}
    lt = excess(
        "lt-unstructured", Training(objective="prior-predictive", epochs=60, **common), train_K=8, **sizes
    )
    static = excess("deep-ensemble", Training(objective="nll", epochs=15, **common), members=2, hidden=(16,))
    climatology = excess("climatology", Training())
    assert lt.mean() > -5 * lt.std() / np.sqrt(len(lt))  # nothing beats the truth
    for other in (static, climatology):
        margin = other / 3 - lt
        assert margin.mean() > 5 * margin.std() / np.sqrt(len(margin))
