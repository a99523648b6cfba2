"""The contract, as one matrix: every tracker x every invariant.

To add a model: one line in `TRACKERS`. All tests of a tracker share its compiled functions, because compiling
takes far longer than running: one live step (`Case.step`), one `filter_series` of two streams of at most `T`
steps.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.filtering.offline import filter_series
from latenttrack.models.anchored import Anchored
from latenttrack.models.averaged import SAFETY_NET, Averaged
from latenttrack.models.base import Window, impute, step
from latenttrack.models.corrected import Corrected
from latenttrack.models.draws import Independent, Sobol
from latenttrack.models.informed import Informed
from latenttrack.models.layout import lay_out
from latenttrack.models.panel import Panel
from latenttrack.models.pooled import Pooled
from latenttrack.models.recalibrated import Recalibrated
from latenttrack.models.registry import MODELS, REFERENCES, STATIC, build
from latenttrack.models.scan import warm_up
from latenttrack.models.task import Task
from latenttrack.models.transformed import Transformed

T, SHORT = 24, 15  # steps of the two streams
CUT = 12  # a step in the middle of both
EPS = float(np.finfo(np.float32).eps)

_LT = {"hidden_size": 6, "latent_size": 2, "encoder_size": 4, "features": 3, "predictor": (3,), "K": 8}
_POINT = {"hidden_size": 6, "encoder_size": 4, "predictor": (3,)}
# Of labels from -3 on; those of the test streams reach from -2 to 2.
_SQRT = {
    "kind": "sqrt",
    "loc": 3.0,
    "scale": 1.0,
    "offset": 0.1,
    "low": 0.0,
    "high": 12.0,
    "centre": 1.7,
    "spread": 0.3,
}
_RECURRENT = {"hidden_size": 6, "latent_size": 2, "features": 4, "decoder_size": 5, "K": 8}


def _of(name, **settings):
    return lambda task, key: build(name, task, key, **settings)


TRACKERS = {
    # Without dropout, which training has and the filter has not.
    "latent-track": _of(
        "latent-track",
        anchor="last-label",
        anchor_scale=0.7,
        informant="rls",
        shown=("day_sin1", "x0"),
        correct=True,
        summary_dropout=0.0,
        hidden_dropout=0.0,
        **_LT,
    ),
    "lt-structured": _of("lt-structured", **_LT),
    "lt-unstructured": _of("lt-unstructured", **_LT),
    "vrnn": _of("vrnn", input_size=3, **_RECURRENT),
    "dssm": _of("dssm", encoder_size=4, **_RECURRENT),
    "mc-dropout": _of("mc-dropout", hidden=(5, 4), K=8),
    "bbb": _of("bbb", hidden=(5, 4), K=8),
    "deep-ensemble": _of("deep-ensemble", hidden=(5, 4), members=3),
    "lt-deterministic": _of("lt-deterministic", latent_size=2, features=3, **_POINT),
    "gru": _of("gru", **_POINT),
    "last-label": _of("last-label"),
    "seasonal-naive": _of("seasonal-naive"),
    "seasonal-difference": _of("seasonal-difference"),
    "climatology": _of("climatology"),
    "rls": _of("rls"),
    "rls-t": _of("rls-t"),
    # variants of one model
    "lt-lstm": _of("lt-structured", summariser="lstm", **_LT),
    "lt-lru": _of("lt-unstructured", summariser="lru", **_LT),
    "lt-attention": _of("lt-unstructured", summariser="attention", **_LT),
    "lt-student-t": _of("lt-structured", head="student-t", skip=True, **_LT),
    "lt-student-t-pair": _of("lt-unstructured", head="student-t-pair", **_LT),
    "lt-independent": _of("lt-structured", draws="independent", **_LT),
    "vrnn-independent": _of("vrnn", input_size=3, draws="independent", **_RECURRENT),
    "lt-anchored": _of("lt-unstructured", anchor="rls", anchor_scale=0.5, **_LT),
    "dssm-anchored": _of("dssm", anchor="last-label", anchor_scale=0.7, encoder_size=4, **_RECURRENT),
    "lt-pooled": _of("lt-unstructured", pool=2, correct=True, anchor="last-label", anchor_scale=0.7, **_LT),
    "lt-panel": _of(
        "lt-unstructured",
        informant="rls",
        second_shown=("day_sin1", "x0"),
        correct=True,
        anchor="last-label",
        **_LT,
    ),
    "bbb-anchored": _of("bbb", anchor="rls", hidden=(5,), K=8),
    # One line for all wrappers at once: an invariant that holds for their composition holds for each.
    "lt-everything": _of(
        "lt-unstructured",
        correct=True,
        anchor="rls",
        safety_net=SAFETY_NET,
        recalibrate=True,
        transform=_SQRT,
        **_LT,
    ),
    "bbb-independent": _of("bbb", hidden=(5, 4), draws="independent", K=8),
}
DELAYS = {"delay-1": 1, "delay-3": 3}
STATELESS = [name for name in TRACKERS if name.removesuffix("-independent") in STATIC]
RANDOM = [name for name in TRACKERS if name.endswith("-independent")]

pytestmark = pytest.mark.usefixtures("strict_dtypes")


def test_every_model_is_in_the_matrix():
    assert set(MODELS) <= set(TRACKERS)
    assert set(REFERENCES) | set(STATIC) <= set(MODELS)


_TRACED = []  # the structure of every tracker for which the live step was traced


@eqx.filter_jit
def _live_step(tracker, state, due, x, key):
    _TRACED.append(jax.tree.structure(tracker))
    return step(tracker, state, due, x, key)


_warm_up = eqx.filter_jit(warm_up)
_window_terms = eqx.filter_jit(lambda tracker, state, window, key: tracker.window_terms(state, window, key))


class Case:
    """One tracker for one delay, and its streams."""

    def __init__(self, name, delay, make_series, as_stack):
        self.name, self.delay = name, delay
        self.series = make_series((T, SHORT), delay=delay)
        self.tracker = TRACKERS[name](Task.of(self.series), jax.random.key(1))
        self.stack = as_stack(self.tracker)
        self.key = jax.random.key(2)

    def step(self, state, due, x, key):
        """One event of a live stream."""
        return _live_step(self.tracker, state, due, x, key)

    def filter(self, series=None, key=None):
        """Moments and scores of every row, [rows] each."""
        records = filter_series(self.stack, series or self.series, self.key if key is None else key)
        return jax.tree.map(lambda leaf: leaf[0], records)

    def window(self, series=None, stream=0):
        """The layout of one stream, [T, ...]."""
        window, _ = lay_out(series or self.series)
        return Window(*(leaf[stream] for leaf in window))

    def loop(self, window, keys, state=None):
        """The filter as a plain Python loop; yields (predictive, state) after every step."""
        state = self.tracker.init() if state is None else state
        for row, key in zip(_rows(window), keys, strict=True):
            due = (row.due_x, row.due_y, row.due_observed)
            predictive, state = self.step(state, due, row.x, key)
            yield predictive, state


def _rows(window):
    return [Window(*(leaf[t] for leaf in window)) for t in range(len(window.y))]


@pytest.fixture(scope="module", params=TRACKERS)
def name(request):
    return request.param


@pytest.fixture(scope="module", params=DELAYS.values(), ids=DELAYS)
def case(request, name, make_series, as_stack):
    return _cached_case(name, request.param, make_series, as_stack)


@functools.cache
def _cached_case(name, delay, make_series, as_stack):
    return Case(name, delay, make_series, as_stack)


def _some_state(case, steps=CUT):
    """A belief in mid-stream."""
    window = Window(*(leaf[:steps] for leaf in case.window()))
    *_, (_, state) = case.loop(window, jax.random.split(case.key, steps))
    return state


def _same_belief(found, expected):
    """The same bits. Forecasts kept for their labels (`recent`) may differ by roundings between programs."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(expected), strict=True
    ):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if ".recent" in jax.tree_util.keystr(path):
            np.testing.assert_allclose(a, b, rtol=1e3 * EPS, atol=1e2 * EPS)
        else:
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _moments(records):
    return np.stack([records.mean, records.aleatoric, records.epistemic])


def test_predict_is_pure_and_repeats_itself(case, same_bits):
    state, x = _some_state(case), jnp.asarray(case.series.x[CUT], jnp.float32)
    nothing = (jnp.zeros_like(x), jnp.zeros(()), jnp.array(False))
    before = jax.tree.map(np.array, state)
    first, after = case.step(state, nothing, x, case.key)
    second, _ = case.step(state, nothing, x, case.key)
    same_bits(first, second)
    same_bits(jax.tree.map(np.asarray, state), before)
    # Predicting is not part of the belief: with no label due, only `advance` may have changed it.
    _same_belief(after, case.tracker.advance(state, x))
    if case.name in RANDOM:
        other, _ = case.step(state, nothing, x, jax.random.key(99))
        assert not np.array_equal(first.components.loc, other.components.loc)


def test_predict_works_before_any_label(case):
    x = jnp.asarray(case.series.x[0], jnp.float32)
    nothing = (jnp.zeros_like(x), jnp.zeros(()), jnp.array(False))
    predictive, _ = case.step(case.tracker.init(), nothing, x, case.key)
    assert np.isfinite(predictive.mean)
    assert predictive.variance > 0
    np.testing.assert_allclose(np.sum(predictive.weights), 1.0, rtol=8 * EPS)


def test_the_filter_is_a_loop_over_step_and_streams_do_not_mix(case):
    """`filter_series` on two streams of unequal length == a Python loop over each of them alone."""
    records = case.filter()
    stream_keys = jax.random.split(jax.random.fold_in(case.key, 0), 2)
    for stream, rows in enumerate((slice(0, T), slice(T, T + SHORT))):
        alone = case.series.select(np.arange(T + SHORT)[rows])
        window = case.window(alone, stream)
        length = rows.stop - rows.start
        window = Window(*(leaf[:length] for leaf in window))
        keys = [jax.random.fold_in(stream_keys[stream], t) for t in range(length)]
        loop = [predictive for predictive, _ in case.loop(window, keys)]
        # One program fuses differently from another: sums of a few dozen float32 terms in another order.
        for field, kept in (("mean", records.mean), ("variance", records.aleatoric + records.epistemic)):
            expected = [float(getattr(p, field)) for p in loop]
            np.testing.assert_allclose(kept[rows], expected, rtol=1e3 * EPS, atol=1e2 * EPS)
        expected = [float(p.log_prob(jnp.asarray(y))) for p, y in zip(loop, window.y, strict=True)]
        np.testing.assert_allclose(records.log_prob[rows], expected, rtol=1e3 * EPS, atol=1e3 * EPS)


@pytest.mark.parametrize("t", [0, 1, CUT, T - 1])
def test_the_future_is_invisible(case, t):
    """Labels of step t and later, and those not yet due, change no prediction up to t; nor does x after t."""
    series = case.series
    before = case.filter()
    y, x = series.y.copy(), series.x.copy()
    hidden = max(t - case.delay + 1, 0)  # the first label that is not known when step t is predicted
    y[hidden:T] += 100.0
    x[t + 1 : T] -= 50.0
    after = case.filter(dataclasses.replace(series, x=x, y=y))
    np.testing.assert_array_equal(_moments(before)[:, : t + 1], _moments(after)[:, : t + 1])
    np.testing.assert_array_equal(_moments(before)[:, T:], _moments(after)[:, T:])  # nor the other stream


def test_the_past_is_visible_as_soon_as_it_is_due(case):
    """The other half of causality, without which the test above could not fail."""
    y = case.series.y.copy()
    y[CUT] += 100.0
    before, after = _moments(case.filter()), _moments(case.filter(dataclasses.replace(case.series, y=y)))
    changed = np.flatnonzero((before != after).any(axis=0))
    if case.name in STATELESS:
        assert len(changed) == 0
    else:
        assert changed[0] == CUT + case.delay
    x = case.series.x.copy()
    x[CUT, 0] += 1.0
    moved = _moments(case.filter(dataclasses.replace(case.series, x=x)))
    reads_x = case.name not in ("last-label", "seasonal-naive", "seasonal-difference", "climatology")
    assert (moved[:, CUT] != before[:, CUT]).any() == reads_x
    np.testing.assert_array_equal(moved[:, :CUT], before[:, :CUT])


def test_a_restored_snapshot_goes_on_bit_for_bit(case, same_bits):
    window = case.window()
    keys = jax.random.split(case.key, T)
    whole = list(case.loop(window, keys))
    leaves, structure = jax.tree.flatten(whole[CUT - 1][1])
    stored = [(np.asarray(leaf).tobytes(), leaf.dtype, leaf.shape) for leaf in leaves]
    restored = jax.tree.unflatten(
        structure, [jnp.asarray(np.frombuffer(raw, dtype).reshape(shape)) for raw, dtype, shape in stored]
    )
    rest = list(case.loop(Window(*(leaf[CUT:] for leaf in window)), keys[CUT:], restored))
    for uninterrupted, continued in zip(whole[CUT:], rest, strict=True):
        same_bits(jax.tree.map(np.asarray, uninterrupted), jax.tree.map(np.asarray, continued))


def test_missing_inputs_and_labels_keep_everything_finite(case):
    x, y = case.series.x.copy(), case.series.y.copy()
    x[3:8] = np.nan
    x[::3, 1] = np.nan
    y[5:9] = np.nan
    y[T - 2 : T + 3] = np.nan
    records = case.filter(dataclasses.replace(case.series, x=x, y=y))
    assert np.isfinite(_moments(records)).all()
    assert (records.aleatoric > 0).all()
    assert (records.epistemic >= 0).all()
    assert np.array_equal(np.isfinite(records.log_prob), ~np.isnan(y))
    assert np.array_equal(np.isfinite(records.pit), ~np.isnan(y))


def test_all_labels_missing_is_predicting_from_the_start(case):
    """A stream without labels leaves the belief at `init`, apart from `advance`."""
    silent = dataclasses.replace(case.series, y=np.full(len(case.series), np.nan))
    records = case.filter(silent)
    state = case.tracker.init()
    for t in range(3):
        x = jnp.asarray(case.series.x[t], jnp.float32)
        key = jax.random.fold_in(jax.random.split(jax.random.fold_in(case.key, 0), 2)[0], t)
        nothing = (jnp.zeros_like(x), jnp.zeros(()), jnp.array(False))
        predictive, state = case.step(state, nothing, x, key)
        np.testing.assert_allclose(records.mean[t], predictive.mean, rtol=1e3 * EPS, atol=1e2 * EPS)
    expected = case.tracker.init()
    for t in range(3):
        expected = case.tracker.advance(expected, jnp.asarray(case.series.x[t], jnp.float32))
    _same_belief(state, expected)


def test_a_missing_label_leaves_the_belief_as_it_was(case):
    state, x = _some_state(case), jnp.asarray(case.series.x[CUT], jnp.float32)
    missing = (x, np.float32(np.nan), np.bool_(False))
    _, after = case.step(state, missing, x, case.key)
    _same_belief(after, case.tracker.advance(state, x))
    if case.name not in STATELESS:
        known = (x, jnp.ones(()), jnp.array(True))
        _, moved = case.step(state, known, x, case.key)
        different = jax.tree.map(lambda a, b: not np.array_equal(a, b, equal_nan=True), after, moved)
        assert any(jax.tree.leaves(different))


def test_the_state_has_constant_size_over_ten_thousand_steps(case):
    """Ten thousand steps in one scan, which demands equal shapes; and they end in a finite forecast."""
    steps = 10_000
    rng = np.random.default_rng(3)
    x = rng.normal(size=(steps, case.series.x.shape[1])).astype(np.float32)
    y = (x[:, 0] + np.sin(np.arange(steps) / 50)).astype(np.float32)
    seen = rng.random(steps) < 0.9
    state = case.tracker.init()
    after = _warm_up(case.tracker, state, Window(x, y, seen, x, y, seen))
    for new, old in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        assert (new.shape, new.dtype) == (old.shape, old.dtype)
    predictive, _ = case.step(after, (x[-1], y[-1], seen[-1]), x[-1], case.key)
    assert np.isfinite(predictive.mean)
    assert 0 < predictive.variance < 100


def test_the_live_step_compiles_once(case):
    """Events of every kind (labelled, unlabelled, broken) go through one compiled program."""
    state = case.tracker.init()
    rng = np.random.default_rng(4)
    for t in range(12):
        x = rng.normal(size=case.series.x.shape[1]).astype(np.float32)
        if t % 3 == 0:
            x[0] = np.nan
        due = (x, np.float32(np.nan if t % 4 == 0 else t), np.bool_(t % 4 != 0))
        _, state = case.step(state, due, x, jax.random.fold_in(case.key, t))
    assert _TRACED.count(jax.tree.structure(case.tracker)) == 1


@pytest.mark.parametrize("holes", [False, True], ids=["all-labels", "holes"])
def test_training_sees_what_the_filter_scores(case, holes, as_stack):
    """`log_predictive` of a window == the filter's log p(y), also from a state carried over a cut.

    A wrapper that learns online alone is trained as what it wraps: there that part's filter is compared.
    """
    series = case.series
    if holes:
        x, y = series.x.copy(), series.y.copy()
        x[4:6, 1] = np.nan
        y[[2, 3, CUT - 1, CUT, CUT + 4]] = np.nan
        series = dataclasses.replace(series, x=x, y=y)
    tracker = _same_draws(case.tracker)
    window, _ = lay_out(series)
    observed = window.observed[0]
    records = filter_series(as_stack(_trained_part(tracker)), series, case.key)
    scored = records.log_prob[0][:T]

    state, found = tracker.init(), []
    for half in (slice(0, CUT), slice(CUT, T)):
        part = Window(*(jnp.asarray(leaf[0, half]) for leaf in window))
        terms, state = _window_terms(tracker, state, part, jax.random.key(5))
        found.append(terms.log_predictive)
    # VRNN's recurrence runs on posterior draws, of sd exp(-7) at least: noise of this size in both.
    atol = 6 * np.exp(-7.0) if case.name.startswith("vrnn") else 1e3 * EPS
    np.testing.assert_allclose(np.concatenate(found)[observed], scored[observed], rtol=1e3 * EPS, atol=atol)


def _trained_part(tracker):
    """The tracker without correction, safety net and recalibration, and with a panel's weights left alone."""
    if isinstance(tracker, Panel):
        return dataclasses.replace(tracker, power=0.0)
    if isinstance(tracker, Anchored | Informed | Transformed):
        return eqx.tree_at(lambda t: t.inner, tracker, _trained_part(tracker.inner))
    if isinstance(tracker, Corrected | Recalibrated):
        return _trained_part(tracker.inner)
    return _trained_part(tracker.main) if isinstance(tracker, Averaged) else tracker


def _same_draws(tracker):
    """The tracker with the same fixed draws in training as in use, and a VRNN's posterior nearly a point."""
    if isinstance(tracker, Averaged):
        return eqx.tree_at(lambda t: t.main, tracker, _same_draws(tracker.main))
    if isinstance(tracker, Anchored | Corrected | Informed | Recalibrated | Transformed):
        return eqx.tree_at(lambda t: t.inner, tracker, _same_draws(tracker.inner))
    if isinstance(tracker, Pooled):
        return eqx.tree_at(lambda t: t.members, tracker, _same_draws(tracker.members))
    if isinstance(tracker, Panel):
        return eqx.tree_at(lambda t: t.members, tracker, tuple(map(_same_draws, tracker.members)))
    if not hasattr(tracker, "train_draws"):
        return tracker
    if isinstance(tracker.draws, Independent) and tracker.draws.dim > 0:
        fixed = Sobol(tracker.draws.count, tracker.draws.dim)
        tracker = eqx.tree_at(lambda t: t.draws, tracker, fixed)
    tracker = eqx.tree_at(lambda t: t.train_draws, tracker, tracker.draws)
    if hasattr(tracker, "phi_z"):
        linear = tracker.posterior.linear
        size = linear.out_features // 2
        bias = linear.bias.at[size:].set(-100.0)
        tracker = eqx.tree_at(lambda t: t.posterior.linear.bias, tracker, bias)
    return tracker


def test_impute_knows_every_kind_of_missing():
    x = jnp.array([1.0, jnp.nan, jnp.inf, -jnp.inf])
    np.testing.assert_array_equal(impute(x), [1.0, 0.0, 0.0, 0.0])
