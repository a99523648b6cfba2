"""An interrupted run goes on from its checkpoint and ends with the same bits; a checkpoint of another run is
refused.
"""

import dataclasses
import subprocess
import sys

import jax
import numpy as np
import optax
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.models.registry import build
from latenttrack.models.task import Task
from latenttrack.training.fit import train
from latenttrack.training.settings import Training

RUN = Training(
    objective="nll", window=16, epochs=5, recency=1.0, learning_rate=0.05, validation=0.2, weight_ema=0.5
)
KEY = jax.random.key(3)


class _PlugPulledError(Exception):
    """Somebody pulled the plug."""


def _interrupt_after(epoch):
    def progress(report):
        if report.epoch == epoch:
            raise _PlugPulledError

    return progress


@pytest.fixture(scope="module")
def series(make_series):
    return make_series((90,))


@pytest.mark.parametrize("together", [True, False], ids=["together", "in-turn"])
def test_a_resumed_run_ends_with_the_same_bits(level, series, same_bits, tmp_path, together):
    path = tmp_path / "run.checkpoint"
    how = {"seeds": 2, "together": together}
    whole = train(level, series, RUN, KEY, **how)
    with pytest.raises(_PlugPulledError):
        train(level, series, RUN, KEY, checkpoint=path, progress=_interrupt_after(2), **how)
    seen = []
    resumed = train(level, series, RUN, KEY, checkpoint=path, progress=seen.append, **how)
    assert [p.epoch for p in seen] == [3, 4, 5]
    same_bits(whole.stack.params, resumed.stack.params)
    assert whole.history == resumed.history
    assert whole.epochs == resumed.epochs
    # a finished run is not run again
    again = train(level, series, RUN, KEY, checkpoint=path, progress=seen.append, **how)
    assert len(seen) == 3
    same_bits(whole.stack.params, again.stack.params)


@pytest.fixture(scope="module")
def checkpoint(level, series, tmp_path_factory):
    path = tmp_path_factory.mktemp("resume") / "run.checkpoint"
    train(level, series, dataclasses.replace(RUN, epochs=1), KEY, checkpoint=path)
    return path


def _other_labels(series):
    y = series.y.copy()
    y[3] += 0.5
    return dataclasses.replace(series, y=y)


@pytest.mark.parametrize(
    "other",
    [
        lambda series: {"series": _other_labels(series)},
        lambda series: {"series": dataclasses.replace(series, delay=3)},
        lambda series: {"series": dataclasses.replace(series, time=series.time**2)},
        lambda series: {"training": dataclasses.replace(RUN, epochs=1, learning_rate=0.01)},
        lambda series: {"training": dataclasses.replace(RUN, epochs=1, optimiser=optax.sgd(0.05))},
        lambda series: {"key": jax.random.key(4)},
        lambda series: {"seeds": [1]},
        lambda series: {"seeds": 2},
    ],
    ids=["labels", "delay", "times", "settings", "optimiser", "key", "seed", "number-of-seeds"],
)
def test_a_checkpoint_of_another_run_is_refused(level, series, checkpoint, other):
    """Everything that decides the result of a run is part of its identity."""
    run = {"series": series, "training": dataclasses.replace(RUN, epochs=1), "key": KEY} | other(series)
    with pytest.raises(LatentTrackError, match="another run") as caught:
        train(level, checkpoint=checkpoint, **run)
    assert str(checkpoint) in str(caught.value)


def test_optimisers_of_ones_own_are_told_apart(level, series, tmp_path):
    run = lambda rate: dataclasses.replace(RUN, epochs=1, optimiser=optax.sgd(rate))  # noqa: E731
    for _ in range(2):  # made anew, it is still the same run
        train(level, series, run(0.05), KEY, checkpoint=tmp_path / "c")
    with pytest.raises(LatentTrackError, match="another run"):
        train(level, series, run(0.06), KEY, checkpoint=tmp_path / "c")


def test_a_run_without_validation_can_be_resumed(level, series, same_bits, tmp_path):
    """There is no validation score then, and NaN must not keep the checkpoint from being written."""
    settings = dataclasses.replace(RUN, validation=0.0, epochs=2)
    whole = train(level, series, settings, KEY)
    with pytest.raises(_PlugPulledError):
        train(level, series, settings, KEY, checkpoint=tmp_path / "c", progress=_interrupt_after(1))
    resumed = train(level, series, settings, KEY, checkpoint=tmp_path / "c")
    same_bits(whole.stack.params, resumed.stack.params)
    assert len(resumed.history) == 2


def _small_lt(series, name="lt-unstructured", **settings):
    sizes = {"hidden_size": 3, "latent_size": 2, "encoder_size": 2, "features": 2, "predictor": (2,), "K": 4}
    return lambda key: build(name, Task.of(series), key, **(sizes | settings))


@pytest.fixture(scope="module")
def model_checkpoint(series, tmp_path_factory):
    path = tmp_path_factory.mktemp("resume") / "model.checkpoint"
    train(_small_lt(series), series, dataclasses.replace(RUN, epochs=1), KEY, checkpoint=path)
    return path


@pytest.mark.parametrize(
    "other",
    [{"train_K": 2}, {"hidden_dropout": 0.1}, {"activation": "relu"}, {"name": "lt-structured"}],
    ids=lambda other: next(iter(other)),
)
def test_a_checkpoint_of_another_model_is_refused(series, model_checkpoint, other):
    """Also where the weights have the same shapes: these models are trained differently."""
    with pytest.raises(LatentTrackError):
        train(
            _small_lt(series, **other),
            series,
            dataclasses.replace(RUN, epochs=1),
            KEY,
            checkpoint=model_checkpoint,
        )


_SCRIPT = """
import sys, time
import jax, numpy as np
from latenttrack.data.synthetic import drift
from latenttrack.models.leaves import named_arrays
from latenttrack.models.registry import build
from latenttrack.models.task import Task
from latenttrack.training.fit import train
from latenttrack.training.settings import Training

checkpoint, result, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
series = drift(n=200).series
settings = Training(objective="nll", window=20, epochs=4, learning_rate=1e-2, validation=0.2)

def progress(report):
    print(report.epoch, flush=True)
    time.sleep(pause)

trained = train(
    lambda key: build("mc-dropout", Task.of(series), key, hidden=(4,)), series, settings, jax.random.key(0),
    checkpoint=None if checkpoint == "none" else checkpoint, progress=progress,
)
np.savez(result, **named_arrays(trained.stack.params))
"""


@pytest.mark.slow
def test_a_killed_process_is_resumed_by_another_one(tmp_path):
    """Nothing survives but the file: SIGKILL after the first epoch, then a new process, the same command."""
    script, path = tmp_path / "run.py", tmp_path / "run.checkpoint"
    script.write_text(_SCRIPT)

    def start(checkpoint, result, pause):
        command = [sys.executable, str(script), str(checkpoint), str(tmp_path / result), str(pause)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    uninterrupted, victim = start("none", "whole.npz", 0), start(path, "never.npz", 600)
    try:
        assert victim.stdout.readline().strip() == "1"
        victim.kill()  # SIGKILL: no handler, no clean-up
        victim.communicate()
        assert not (tmp_path / "never.npz").exists()
        resumed = start(path, "resumed.npz", 0)
        output, errors = resumed.communicate()
        assert resumed.returncode == 0, errors
        assert output.split() == ["2", "3", "4"]
    finally:
        victim.kill()
        uninterrupted.communicate()
    whole, again = np.load(tmp_path / "whole.npz"), np.load(tmp_path / "resumed.npz")
    assert set(whole.files) == set(again.files)
    for name in whole.files:
        assert whole[name].tobytes() == again[name].tobytes()
