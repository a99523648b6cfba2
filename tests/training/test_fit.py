"""`train`: seeds, early stopping, dropout, and what needs no training."""

import dataclasses
import logging

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from latenttrack.errors import LatentTrackError
from latenttrack.filtering.offline import filter_series
from latenttrack.models.registry import REFERENCES, build
from latenttrack.models.task import Task
from latenttrack.training.fit import train
from latenttrack.training.settings import Training

EPS = float(np.finfo(np.float32).eps)
# vmap sums in another order, and Adam divides by the square root of small second moments: a rounding of the
# gradient moves an update by about as many roundings of the learning rate. 20 updates of 0.05 on numbers of
# size one:
TOLERANCE = 20 * 0.05 * 1e3 * EPS
QUICK = Training(objective="nll", window=16, epochs=4, recency=1.0, learning_rate=0.05)


@pytest.fixture(scope="module")
def series(make_series):
    return make_series((100,))


def _seeds(trained, flat):
    return [flat(trained.stack[i]) for i in range(len(trained.stack))]


def test_seeds_do_not_depend_on_one_another(level, series, flat):
    """Side by side == one after another == each alone, in any order."""
    key = jax.random.key(7)
    together = _seeds(train(level, series, QUICK, key, seeds=3, together=True), flat)
    in_turn = _seeds(train(level, series, QUICK, key, seeds=3, together=False), flat)
    alone = _seeds(train(level, series, QUICK, key, seeds=[2]), flat)
    other = _seeds(train(level, series, QUICK, key, seeds=[2, 0]), flat)
    np.testing.assert_allclose(together, in_turn, atol=TOLERANCE)
    np.testing.assert_allclose(together[2], alone[0], atol=TOLERANCE)
    np.testing.assert_allclose([together[2], together[0]], other, atol=TOLERANCE)
    assert np.abs(together[0] - together[1]).max() > 100 * TOLERANCE


def test_the_same_key_gives_the_same_bits(level, series, same_bits):
    runs = [train(level, series, QUICK, jax.random.key(7)).stack.params for _ in range(2)]
    same_bits(*runs)


def test_training_lowers_the_loss_and_reports_it(level, series):
    seen = []
    trained = train(level, series, QUICK, jax.random.key(0), seeds=2, progress=seen.append)
    assert [p.epoch for p in seen] == [1, 2, 3, 4]
    assert {p.epochs for p in seen} == {4}
    assert seen[-1].loss < seen[0].loss
    assert seen[-1].loss == pytest.approx(np.mean(trained.history[-1]["loss"]))
    assert np.isnan(seen[-1].validation)
    assert trained.epochs == [4, 4]


def test_an_optimiser_of_ones_own_is_used(level, series, flat):
    still = dataclasses.replace(QUICK, optimiser=optax.sgd(0.0), epochs=1)
    moved = dataclasses.replace(QUICK, optimiser=optax.sgd(0.1), epochs=1)
    start = flat(level(jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 0), 0)))
    np.testing.assert_array_equal(_seeds(train(level, series, still, jax.random.key(0)), flat)[0], start)
    assert np.abs(_seeds(train(level, series, moved, jax.random.key(0)), flat)[0] - start).max() > 1e-3


@pytest.mark.parametrize("together", [True, False], ids=["together", "in-turn"])
def test_early_stopping_keeps_the_best_epoch(level, series, flat, together):
    """With a rate so high that weights swing, validation is best somewhere in between; each seed keeps its
    own best.
    """
    settings = dataclasses.replace(QUICK, validation=0.2, patience=2, epochs=12, optimiser=optax.sgd(0.6))
    trained = train(level, series, settings, jax.random.key(1), seeds=3, together=together)
    scores = np.array([h["validation"] for h in trained.history])  # [epochs, seeds]
    for seed, best in enumerate(trained.epochs):
        ran = _epochs_run(scores[:, seed], patience=2)
        assert best == np.nanargmin(scores[:ran, seed]) + 1
        # the weights are those of a run that ends there
        short = dataclasses.replace(settings, epochs=best, patience=100)
        again = train(level, series, short, jax.random.key(1), seeds=[seed])
        assert again.epochs == [best]
        np.testing.assert_allclose(flat(trained.stack[seed]), flat(again.stack[0]), atol=10 * TOLERANCE)
    ran = [_epochs_run(scores[:, seed], patience=2) for seed in range(3)]
    assert len(trained.history) == max(ran)
    assert min(ran) < 12  # so that this test is about stopping


def _epochs_run(scores, patience):
    """How many epochs a seed runs: until `patience` epochs in a row are not better than the best."""
    best, since = np.inf, 0
    for epoch, score in enumerate(scores):
        best, since = (score, 0) if score < best else (best, since + 1)
        if since >= patience:
            return epoch + 1
    return len(scores)


def test_progress_is_about_the_seeds_that_still_run(level, series):
    """A seed that has stopped no longer counts in the reported means, side by side or not."""
    settings = dataclasses.replace(QUICK, validation=0.2, patience=2, epochs=12, optimiser=optax.sgd(0.6))
    for together in (True, False):
        seen = []
        trained = train(
            level, series, settings, jax.random.key(1), seeds=3, together=together, progress=seen.append
        )
        scores = np.array([h["validation"] for h in trained.history])
        ran = np.array([_epochs_run(scores[:, seed], patience=2) for seed in range(3)])
        assert len(set(ran)) > 1  # so that there is something to leave out
        for epoch, report in enumerate(seen):
            assert report.validation == pytest.approx(scores[epoch, ran > epoch].mean(), rel=1e-5)


def test_validation_is_the_filters_own_score(level, series):
    """With weights that stay (rate 0) the validation score is the filter's mean NLL over the newest part."""
    settings = dataclasses.replace(QUICK, validation=0.25, epochs=1, optimiser=optax.sgd(0.0))
    trained = train(level, series, settings, jax.random.key(0))
    past, late = series.split(0.75)
    records = filter_series(trained.stack, late, jax.random.key(0), past=past)
    assert trained.history[0]["validation"][0] == pytest.approx(-records.log_prob.mean(), rel=1e-4)


def test_validation_scores_the_mixture_that_predicts(series):
    """Also when training draws once: the score that stops a run is that of the K draws in use.

    With one draw the score is E[log p] and noisy; log E[p] is larger. It would favour weights without
    epistemic uncertainty.
    """
    settings = dataclasses.replace(QUICK, validation=0.25, epochs=1, optimiser=optax.sgd(0.0))
    trained = train(
        lambda key: build("mc-dropout", Task.of(series), key, hidden=(8,), rate=0.5, K=16, train_K=1),
        series,
        settings,
        jax.random.key(0),
    )
    past, late = series.split(0.75)
    records = filter_series(trained.stack, late, jax.random.key(0), past=past)
    assert trained.history[0]["validation"][0] == pytest.approx(-records.log_prob.mean(), rel=1e-4)


def _small_lt(series, **settings):
    sizes = {"hidden_size": 4, "latent_size": 2, "encoder_size": 3, "features": 3, "predictor": (3,), "K": 8}
    return lambda key: build("lt-unstructured", Task.of(series), key, **(sizes | settings))


@pytest.mark.slow
def test_dropout_is_on_in_training_and_off_elsewhere(series, as_stack):
    """The same weights with and without dropout give the same forecasts and validation, but other training
    terms.
    """
    dry = _small_lt(series)(jax.random.key(0))
    wet = _small_lt(series, summary_dropout=0.5, hidden_dropout=0.5)(jax.random.key(0))
    forecasts = [filter_series(as_stack(t), series, jax.random.key(1)) for t in (dry, wet)]
    np.testing.assert_allclose(forecasts[0].mean, forecasts[1].mean, rtol=1e3 * EPS, atol=1e2 * EPS)

    settings = Training(
        objective="prior-predictive", window=20, epochs=1, validation=0.25, optimiser=optax.sgd(0.0)
    )
    runs = [
        train(_fixed(tracker), series, settings, jax.random.key(0)).history[0]
        for tracker in (_sobol(dry), _sobol(wet))
    ]
    assert runs[0]["validation"][0] == pytest.approx(runs[1]["validation"][0], rel=1e3 * EPS)
    assert abs(runs[0]["loss"][0] - runs[1]["loss"][0]) > 1e-4


def _sobol(tracker):
    """Fixed draws in training too: then dropout is the only thing random."""
    return eqx.tree_at(lambda t: t.train_draws, tracker, tracker.draws)


def _fixed(tracker):
    """A builder that always gives this tracker."""
    return lambda key: jax.tree.map(lambda leaf: jnp.asarray(leaf) if eqx.is_array(leaf) else leaf, tracker)


@pytest.mark.parametrize("name", REFERENCES)
def test_references_need_no_training(series, name):
    trained = train(lambda key: build(name, Task.of(series), key), series, QUICK, jax.random.key(0), seeds=2)
    assert jax.tree.leaves(trained.stack.params) == []
    assert trained.history == []
    assert trained.epochs == [0, 0]
    assert len(trained.stack) == 2
    records = filter_series(trained.stack, series, jax.random.key(0))
    assert records.mean.shape == (2, 100)
    np.testing.assert_array_equal(records.mean[0], records.mean[1])


def test_several_keys_train_one_model(level, make_series):
    """Streams of unequal length, with holes and delay; every label known by the end counts once."""
    y = make_series((50, 40)).y.copy()
    y[10:15] = np.nan
    series = make_series((50, 40), y=y, delay=3)
    trained = train(level, series, QUICK, jax.random.key(0))
    assert np.isfinite(trained.history[-1]["loss"]).all()
    assert trained.history[-1]["loss"][0] < trained.history[0]["loss"][0]


def test_the_epoch_is_compiled_once(level, series, caplog, monkeypatch):
    """Whatever an epoch returns is what the next one takes: a second compilation would double the waiting."""
    jax.config.update("jax_log_compiles", True)  # in all threads, unlike jax.log_compiles()
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    try:
        with caplog.at_level(logging.WARNING, logger="jax"):
            train(level, series, dataclasses.replace(QUICK, validation=0.2), jax.random.key(0), seeds=3)
    finally:
        jax.config.update("jax_log_compiles", False)
    finished = [r.getMessage() for r in caplog.records if "Finished XLA compilation" in r.getMessage()]
    assert sum("_epoch" in message for message in finished) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.select(np.arange(30)), ["30", "64"]),
        (lambda s: dataclasses.replace(s, y=np.full(100, 2.0)), ["constant"]),
        (lambda s: dataclasses.replace(s, y=np.full(100, np.nan)), ["missing"]),
    ],
)
def test_series_that_teach_nothing_are_refused(level, series, change, words):
    with pytest.raises(LatentTrackError) as caught:
        train(level, change(series), QUICK, jax.random.key(0))
    assert all(word in str(caught.value) for word in words)
