"""`latent-track` chooses for itself: what it tries, what it tells, and what an interruption costs."""

import dataclasses
import functools
import json

import jax
import numpy as np
import pytest

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.evaluate import evaluate
from latenttrack.evaluation.weights import mean_weights
from latenttrack.fitted.fit import fit, fit_chosen
from latenttrack.fitted.model import load
from latenttrack.models.capacity import capacity
from latenttrack.models.registry import build
from latenttrack.models.task import Task
from latenttrack.training import automatic
from latenttrack.training import setup as setups
from latenttrack.training.automatic import MOST_PARAMETERS, Trial, choose_settings
from latenttrack.training.setup import Setup
from latenttrack.training.suit import suit

ROWS = 600


@pytest.fixture(scope="module")
def stream():
    """A daily pattern, one useful input, noise; two hours ahead."""
    rng = np.random.default_rng(0)
    t = np.arange(ROWS)
    x = rng.normal(size=ROWS)
    y = 10 + 3 * np.sin(2 * np.pi * t / 24) + x + 0.3 * rng.normal(size=ROWS)
    time = np.datetime64("2024-01-01T00", "h") + t
    return Series(x=x[:, None], y=y, time=time, names=("wind",), delay=2, period=None)


@pytest.fixture(scope="module")
def suited(stream):
    return suit(stream)


@pytest.fixture
def quick(monkeypatch):
    """A few updates are enough to see what is done."""
    monkeypatch.setattr(automatic, "_EPOCHS", 1)
    monkeypatch.setattr(automatic, "_LEAST_UPDATES", 4)


@pytest.fixture
def long(monkeypatch):
    """The stream counts as a long one."""
    monkeypatch.setattr(setups, "SHORT", ROWS - 1)
    monkeypatch.setattr(automatic, "SHORT", ROWS - 1)


@pytest.fixture
def tried(monkeypatch):
    """No training: a table of made-up results takes its place."""

    def use(table):
        def one(self, setup):
            blocks = tuple(table(setup) + 0.01 * np.cos(np.arange(20)))
            self._tried[setup] = Trial(setup, table(setup), blocks)
            return self._tried[setup]

        monkeypatch.setattr(automatic._Search, "_try", one)

    return use


def search(suited, stream):
    prepared, _ = suited.prepare(stream)
    return automatic._Search("latent-track", suited, prepared, 0, 10**6, None, None)


def test_the_default_stays_unless_another_is_clearly_better(suited, stream, tried):
    tried(lambda setup: 1.0 - 0.0015 * (setup.anchor == "rls") - 0.0015 * (setup.dropout == "strong"))
    found = search(suited, stream).run()
    assert found == Setup("last-label", "usual", "usual", found.updates)


def test_of_two_heads_the_better_one_is_taken_even_if_that_may_be_chance(suited, stream, monkeypatch):
    """Of what is otherwise simpler or proven the default stays."""

    def noisy(self, setup):
        nll = 1.0 - 0.004 * (setup.head == "student-t-pair") - 0.004 * (setup.dropout == "strong")
        blocks = nll + 0.1 * np.cos(len(str(setup)) + np.arange(20.0))
        return Trial(setup, nll, tuple(blocks))

    monkeypatch.setattr(automatic._Search, "_try", noisy)
    found = search(suited, stream).run()
    assert (found.head, found.dropout) == ("student-t-pair", "usual")


def test_the_best_of_each_choice_is_taken(suited, stream, tried):
    def table(setup):
        gains = {
            "seasonal-difference": 0.1,
            "rls": 0.2,
            "small": 0.05,
            "strong": 0.1,
            "lru": 0.04,
            "student-t-pair": 0.03,
        }
        return 1.0 - sum(gains.get(part, 0.0) for part in setup) + 0.001 * setup.updates

    found = search(suited, stream)
    usual = found.usual_updates
    tried(table)
    assert found.run() == Setup("rls", "small", "strong", usual // 2, "lru", "student-t-pair")
    assert len(found.trials) == 3 + 3 + 2 + 1 + 2 + 2


def test_size_and_head_are_tried_together(suited, stream, tried):
    tried(lambda setup: 1.0 - 0.05 * ((setup.size, setup.head) == ("small", "student-t-pair")))
    found = search(suited, stream).run()
    assert (found.size, found.head) == ("small", "student-t-pair")


def test_the_gru_keeps_its_plain_head(suited, stream, tried):
    tried(lambda setup: 1.0 - 0.05 * (setup.head == "student-t-pair") - 0.05 * (setup.memory == "lru"))
    prepared, _ = suited.prepare(stream)
    tries = automatic._Search("gru", suited, prepared, 0, 10**6, None, None)
    found = tries.run()
    assert (found.head, found.memory) == ("student-t", "gru")


def test_a_network_may_see_the_label_and_the_clock_alone(suited, stream, tried, quick, long):
    tried(lambda setup: 1.0 - 0.05 * (setup.sight == "own"))
    assert search(suited, stream).run().sight == "own"
    setup = Setup("last-label", "usual", "usual", 4, sight="own")
    prepared, _ = suited.prepare(stream)
    chosen = choose_settings("latent-track", suited, prepared, setup=setup)
    assert "wind" in prepared.names
    assert set(prepared.names) - set(chosen.settings["shown"]) == {
        name for name in prepared.names if name.startswith("wind")
    }
    assert any("the label and the clock alone" in words for words in chosen.words)


def test_two_networks_may_see_different_inputs(suited, stream, tried, quick, long):
    """Half as large, at the pace that suits them; together they keep the bound."""
    tried(lambda setup: 1.0 - 0.05 * (setup.sight == "both") - 0.05 * (setup.pace == "fast"))
    found = search(suited, stream).run()
    assert (found.sight, found.pace) == ("both", "fast")
    prepared, _ = suited.prepare(stream)
    for name in ("latent-track", "lt-deterministic", "gru"):
        setup = Setup("last-label", "usual", "usual", 4, sight="both")
        chosen = choose_settings(name, suited, prepared, setup=setup)
        task = Task.of(prepared)
        assert list(chosen.settings["second_shown"]) == list(task.own)
        build_it = functools.partial(build, name, task, **chosen.settings)
        assert capacity(build_it, task.size).total <= MOST_PARAMETERS
        assert any("each label moves weight to the better one" in words for words in chosen.words)


def test_a_network_that_sees_less_may_want_another_anchor(suited, stream, tried, long):
    def table(setup):
        return 1.0 - {("rls", "all"): 0.05, ("last-label", "own"): 0.1}.get((setup.anchor, setup.sight), 0.0)

    tried(table)
    found = search(suited, stream).run()
    assert (found.anchor, found.sight) == ("last-label", "own")


def test_a_small_network_may_want_another_anchor(suited, stream, tried):
    def table(setup):
        gains = {("rls", "usual"): 0.05, ("rls", "small"): 0.06, ("last-label", "small"): 0.1}
        return 1.0 - gains.get((setup.anchor, setup.size), 0.0)

    tried(table)
    found = search(suited, stream).run()
    assert (found.anchor, found.size) == ("last-label", "small")


def test_on_short_streams_nothing_is_hidden(suited, stream, tried):
    tried(lambda setup: 1.0 - 0.05 * (setup.sight == "own") - 0.05 * (setup.pace == "fast"))
    found = search(suited, stream).run()
    assert (found.sight, found.pace) == ("all", "usual")


def test_where_there_are_no_other_columns_nothing_is_hidden(stream, tried, long):
    alone = dataclasses.replace(stream, x=stream.x[:, :0], names=())
    suited = suit(alone)
    tries = search(suited, alone)
    tried(lambda setup: 1.0)
    tries.run()
    assert {trial.setup.sight for trial in tries.trials} == {"all"}


@pytest.mark.parametrize(
    ("gains", "found"),
    [
        ({"fast": 0.05}, ("fast", 1)),
        ({"long": 0.05}, ("usual", 2)),
        ({"fast": 0.05, "both": 0.05}, ("fast", 2)),
        ({"both": 0.05}, ("usual", 1)),  # not tried
    ],
)
def test_more_is_learned_by_more_updates_or_larger_ones(stream, tried, gains, found):
    """Both together only where one of them was better."""
    alone = dataclasses.replace(stream, x=stream.x[:, :0], names=())
    tries = search(suit(alone), alone)
    usual = tries.usual_updates

    def table(setup):
        fast, long = setup.pace == "fast", setup.updates > usual
        gain = gains.get("fast", 0.0) * fast + gains.get("long", 0.0) * long * (not fast)
        return 1.0 - gain - gains.get("both", 0.0) * (fast and long)

    tried(table)
    best = tries.run()
    assert (best.pace, best.updates) == (found[0], found[1] * usual)
    assert tries.training(best._replace(pace="fast")).learning_rate > 0.003


def test_long_streams_try_no_small_networks(suited, stream, tried, long):
    tried(lambda setup: 1.0 - 0.05 * (setup.size == "small") - 0.03 * (setup.head == "student-t-pair"))
    tries = search(suited, stream)
    found = tries.run()
    assert (found.size, found.head) == ("usual", "student-t-pair")
    assert {trial.setup.size for trial in tries.trials} == {"usual"}


@pytest.mark.parametrize(
    ("light", "none", "found"), [(0.05, 0.1, "no"), (0.05, 0.04, "light"), (0.05, -0.2, "light")]
)
def test_dropout_is_lessened_as_long_as_that_is_better(suited, stream, tried, light, none, found):
    gains = {"light": light, "no": none, "strong": 9.0}
    tried(lambda setup: 1.0 - gains.get(setup.dropout, 0.0))
    tries = search(suited, stream)
    assert tries.run().dropout == found
    assert "strong" not in {trial.setup.dropout for trial in tries.trials}


def test_chance_does_not_decide(suited, stream, monkeypatch):
    """A gain that comes from one block of time alone is within its standard error."""

    def one(self, setup):
        blocks = np.ones(20)
        blocks[3] -= 2.0 * (setup.anchor == "rls")
        return Trial(setup, float(blocks.mean()), tuple(blocks))

    monkeypatch.setattr(automatic._Search, "_try", one)
    assert search(suited, stream).run().anchor == "last-label"


def test_choices_are_told_and_kept(suited, stream, quick, tmp_path):
    seen = []
    model = fit_chosen("latent-track", stream, suited=suited, budget=0, progress=seen.append)
    assert model.record["choices"][0] == "daily pattern found"
    assert any(words.startswith("anchor: ") for words in model.record["choices"])
    assert any(words.startswith("recalibration: ") for words in model.record["choices"])
    assert {p.stage for p in seen if p.stage != "training"} == {f"trial: {Setup(*model.record['setup'])}"}
    model.save(tmp_path / "m.lt")
    back = load(tmp_path / "m.lt")
    assert back.record == model.record
    # Rows as they were loaded go through the model's own pipeline.
    past, future = stream.split(0.7)
    scores = evaluate(back, future, past=past)
    assert np.isfinite(scores.steps["nll"][0, ~np.isnan(scores.y)]).all()
    weights = mean_weights(back, back.pipeline.transform(future, history=past))
    assert list(weights) == ["latent-track", "rls-t", "seasonal-naive", "last-label"]
    assert sum(weights.values()) == pytest.approx(1.0, abs=1e-5)


def test_fit_without_settings_chooses(stream, monkeypatch):
    def asked(name, series, **_):
        raise RuntimeError(f"{name}, {len(series)} rows")

    monkeypatch.setattr("latenttrack.fitted.fit.fit_chosen", asked)
    with pytest.raises(RuntimeError, match=f"latent-track, {ROWS} rows"):
        fit("latent-track", stream)


def test_an_interrupted_search_goes_on(suited, stream, quick, tmp_path):
    """What was tried is not tried again, and the notes of another stream are refused."""
    prepared, _ = suited.prepare(stream)
    notes = tmp_path / "m.checkpoint.trials"
    stages = []

    def stop_after_two(progress):
        stages.append(progress.stage)
        if len(set(stages)) > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        choose_settings("latent-track", suited, prepared, budget=16, notes=notes, progress=stop_after_two)
    assert len(json.loads(notes.read_bytes())["trials"]) == 2
    again = []
    resumed = choose_settings(
        "latent-track", suited, prepared, budget=16, notes=notes, progress=lambda p: again.append(p.stage)
    )
    whole = choose_settings("latent-track", suited, prepared, budget=16)
    assert len(whole.trials) >= 4
    assert resumed.setup == whole.setup
    assert [trial.nll for trial in resumed.trials] == [trial.nll for trial in whole.trials]
    # The winner is trained once more if it was tried before the interruption: its weights were lost.
    assert set(stages[:2]) - {f"trial: {whole.setup}"} <= set(stages) - set(again)
    other = dataclasses.replace(prepared, y=prepared.y + 0.1)
    with pytest.raises(LatentTrackError, match="another run"):
        choose_settings("latent-track", suited, other, notes=notes)


@pytest.mark.parametrize("columns", [1, 60])
def test_parameters_are_bounded(columns):
    rng = np.random.default_rng(1)
    series = Series(
        x=rng.normal(size=(400, columns)),
        y=rng.normal(size=400),
        time=np.arange(400.0),
        names=tuple(f"c{i}" for i in range(columns)),
    )
    suited = suit(series)
    prepared, _ = suited.prepare(series)
    for size in ("usual", "small"):
        settings = automatic._Search("latent-track", suited, prepared, 0, 0, None, None).settings(
            Setup("last-label", size, "usual", 1)
        )
        task = automatic.Task.of(prepared)
        drawn = functools.partial(build, "latent-track", task, **settings)
        assert capacity(drawn, task.size).total <= MOST_PARAMETERS


def test_the_first_weights_and_counts_come_from_unseen_data(suited, stream, quick):
    prepared, _ = suited.prepare(stream)
    choices = choose_settings("latent-track", suited, prepared, budget=0)
    start = choices.settings["safety_net_start"]
    assert sum(start) == pytest.approx(1.0, abs=1e-3)
    tracker = build("latent-track", automatic.Task.of(prepared), jax.random.key(0), **choices.settings)
    state = tracker.init()
    net = state.inner if choices.settings["recalibrate"] else state
    np.testing.assert_allclose(np.exp(net.log_weights), start, atol=2e-3)


@pytest.mark.parametrize("text", ["", "[]", '{"fingerprint": 1}', '{"fingerprint": 1, "trials": [[1]]}'])
def test_damaged_notes_are_refused_in_a_sentence(suited, stream, tmp_path, text):
    notes = tmp_path / "m.trials"
    notes.write_text(text)
    prepared, _ = suited.prepare(stream)
    with pytest.raises(LatentTrackError, match="is damaged"):
        choose_settings("latent-track", suited, prepared, notes=notes)


def test_without_newest_labels_nothing_can_be_chosen(suited, stream):
    y = stream.y.copy()
    y[int(0.8 * ROWS) :] = np.nan
    prepared, _ = suited.prepare(dataclasses.replace(stream, y=y))
    with pytest.raises(LatentTrackError, match="no label"):
        choose_settings("latent-track", suited, prepared)
