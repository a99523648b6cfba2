"""The safety net: never far behind its best member, quick to change its mind, exact as a mixture."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

import latenttrack as lt
from latenttrack.errors import LatentTrackError
from latenttrack.models.averaged import POWER, SAFETY_NET, Averaged
from latenttrack.models.base import step
from latenttrack.models.capacity import capacity
from latenttrack.models.checks import check_flag
from latenttrack.models.components import Gaussian, Joined, StudentT
from latenttrack.models.noise import AbstractNoise, GaussianNoise
from latenttrack.models.predictive import Predictive
from latenttrack.models.references import AbstractReference
from latenttrack.models.registry import build
from latenttrack.models.stack import build_stack
from latenttrack.models.task import Task
from latenttrack.models.use import in_use

EPS = float(np.finfo(np.float32).eps)
SMALL = {"hidden_size": 6, "latent_size": 2, "encoder_size": 4, "features": 3, "K": 8, "train_K": 2}


class Column(AbstractReference):
    """Forecasts N(x[column], sd^2), and knows nothing else."""

    column: int = eqx.field(static=True)
    sd: float = eqx.field(static=True, default=1.0)
    noise: AbstractNoise = GaussianNoise()

    def init(self):
        return jnp.zeros(())

    def update(self, state, x, y):
        return state + 1.0

    def locate(self, state, x):
        return x[self.column]

    def noise_state(self, state):
        return state

    def predict(self, state, x, key):
        return Predictive.equal(Gaussian(self.locate(state, x)[None], jnp.full(1, self.sd)))


def _of_columns(count, delay=1, **fields):
    members = tuple(Column(m) for m in range(count))
    names = tuple(f"column {m}" for m in range(count))
    return Averaged(members[0], members[1:], names, count, delay, **fields)


@eqx.filter_jit
def _filter(tracker, x, y, observed, delay):
    """log p(y) of every step under the average, [N], and the weights that it was mixed with, [N, M]."""

    def body(state, t):
        past = jnp.maximum(t - delay, 0)
        due = (x[past], y[past], observed[past] & (t >= delay))
        forecast, state = step(tracker, state, due, x[t], jax.random.key(0))
        return state, (forecast.log_prob(y[t]), tracker.weights(state))

    return jax.lax.scan(body, tracker.init(), jnp.arange(len(y)))[1]


def _log_densities(x, y):
    """What each column alone scores, [N, M]."""
    return -0.5 * (y[:, None] - x) ** 2 - 0.5 * np.log(2 * np.pi)


@pytest.mark.parametrize("power", [1.0, 0.3, 0.05])
@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_average_is_never_far_behind_its_best_member(seed, delay, power):
    """At most (D log M - N log(1 - share)) / eta nats: with delay D, D averages in turns (float32 aside)."""
    rng = np.random.default_rng(seed)
    N, M, share = 1500, 4, 0.002
    y = rng.normal(size=N).astype(np.float32)
    x = (y[:, None] + rng.normal(size=(N, M)) * rng.uniform(0.5, 3.0, M)).astype(np.float32)
    scores, _ = _filter(_of_columns(M, delay, share=share, power=power), x, y, np.ones(N, bool), delay)
    best = _log_densities(x, y).sum(axis=0).max()
    behind = (delay * np.log(M) - N * np.log(1 - share)) / power
    assert np.asarray(scores, float).sum() >= best - behind - 1e-2


@pytest.mark.parametrize("delay", [1, 5])
def test_the_weights_follow_the_better_member(delay):
    """Column 0 is good first and bad later, column 1 the other way round; a label is worth 2 nats."""
    rng = np.random.default_rng(0)
    N, change, share = 600, 300, 0.001
    y = rng.normal(size=N).astype(np.float32)
    late = np.arange(N) >= change
    x = (y[:, None] + 2.0 * np.stack([late, ~late], axis=1)).astype(np.float32)
    scores, weights = _filter(_of_columns(2, delay, share=share), x, y, np.ones(N, bool), delay)
    needed = delay + int(np.log(2 / share) / 2) + 2  # the labels it takes, and the wait for the first one
    assert (weights[needed:change, 0] > 0.99).all()
    assert (weights[change + needed :, 1] > 0.99).all()
    # Behind the one that is right at each time: that evidence, what is lost while waiting, and the share.
    best = _log_densities(x, y).max(axis=1).sum()
    slack = np.log(2) + np.log(2 / share) + 2 * 2.0 * delay + 2 * share * N
    assert np.asarray(scores, float).sum() > best - slack


def test_missing_labels_leave_the_weights_alone():
    rng = np.random.default_rng(0)
    y = rng.normal(size=60).astype(np.float32)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    observed = np.ones(60, bool)
    observed[20:40] = False
    _, weights = _filter(_of_columns(3, 2), x, y, observed, 2)
    np.testing.assert_array_equal(weights[22:42], np.broadcast_to(weights[21], (20, 3)))
    assert not np.array_equal(weights[42], weights[21])
    np.testing.assert_allclose(weights[:2], 1 / 3, rtol=4 * EPS)  # nor does anything before the first label
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=8 * EPS)


def test_tempered_weights_keep_models_that_are_all_wrong_together():
    """Two forecasts, equally good and too sure of themselves: mixed evenly they beat either.

    Bayes' rule sides with whichever is ahead by chance; a tempered average stays near both.
    """
    rng = np.random.default_rng(0)
    N = 2000
    y = rng.normal(size=N).astype(np.float32)
    x = (y[:, None] + 2.0 * rng.normal(size=(N, 2))).astype(np.float32)
    bayes, tempered = (
        np.mean(_filter(_of_columns(2, power=power), x, y, np.ones(N, bool), 1)[0]) for power in (1.0, 0.05)
    )
    assert tempered > bayes + 0.1
    assert tempered > _log_densities(x, y).mean(axis=0).max() + 0.1


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_one_label_is_bayes_rule_and_a_share(power):
    share, y = 0.1, np.array([0.5, 0.0], np.float32)
    x = np.array([[0.0, 1.0, 2.5]] * 2, np.float32)
    _, weights = _filter(_of_columns(3, share=share, power=power), x, y, np.ones(2, bool), 1)
    likelihood = np.exp(power * _log_densities(x, y)[0])
    np.testing.assert_allclose(
        weights[1], (1 - share) * likelihood / likelihood.sum() + share / 3, rtol=16 * EPS
    )


def test_a_member_that_fails_loses_its_weight_and_nothing_else():
    """A likelihood that is not a number counts as none at all; the weights stay finite."""
    x = jnp.array([[jnp.inf, 0.3]] * 6)
    tracker = _of_columns(2)
    state = tracker.init()
    for row in x:
        state = tracker.advance(tracker.update(state, row, jnp.zeros(())), row)
    np.testing.assert_allclose(tracker.weights(state), [0.0005, 0.9995], rtol=1e-3)


@pytest.mark.parametrize("power", [1.0, 0.05])
def test_a_label_that_no_member_can_judge_leaves_the_weights_alone(power):
    tracker = _of_columns(3, power=power)
    state = tracker.init()
    for row in jnp.array([[0.1, 0.3, 2.0]] * 4):
        state = tracker.advance(tracker.update(state, row, jnp.zeros(())), row)
    broken = tracker.advance(state, jnp.full(3, jnp.inf))
    after = tracker.update(broken, jnp.full(3, jnp.inf), jnp.zeros(()))
    assert not np.allclose(state.log_weights, state.log_weights[0])
    np.testing.assert_array_equal(after.log_weights, broken.log_weights)


def test_the_registry_tempers_by_the_delay():
    """D labels of overlapping horizons count about as much as one."""
    for delay in (1, 6):
        tracker = build("rls", Task(("a",), delay), jax.random.key(0), safety_net=("last-label",))
        assert tracker.power == POWER / delay


@pytest.fixture(scope="module")
def mixed():
    """A network with Gaussian components among Student-t references, in mid-stream."""
    tracker = build(
        "lt-unstructured", Task(("a", "b"), 2, 4), jax.random.key(0), safety_net=SAFETY_NET, **SMALL
    )
    state, rng = tracker.init(), np.random.default_rng(1)
    for x in jnp.asarray(rng.normal(size=(8, 2)), jnp.float32):
        state = tracker.advance(tracker.update(state, x, x[0]), x)
    return tracker, state, x


def test_the_forecast_is_the_exact_mixture_of_the_members(mixed):
    tracker, state, x = mixed
    key = jax.random.key(0)
    forecast = tracker.predict(state, x, key)
    members = [tracker.main.predict(state.main, x, key)]
    members += [r.predict(s, x, key) for r, s in zip(tracker.references, state.references, strict=True)]
    w = tracker.weights(state)
    assert tracker.names == ("lt-unstructured", *SAFETY_NET)
    assert w.shape == (4,)
    assert isinstance(forecast.components, Joined)
    assert [type(part) for part in forecast.components.parts] == [Gaussian, StudentT]
    for y in (-3.0, 0.2, 6.0):
        y = jnp.float32(y)
        scores = jnp.stack([m.log_prob(y) for m in members])
        assert float(forecast.log_prob(y)) == pytest.approx(logsumexp(jnp.log(w) + scores), rel=32 * EPS)
        cdfs = jnp.stack([m.cdf(y) for m in members])
        assert float(forecast.cdf(y)) == pytest.approx(w @ cdfs, rel=32 * EPS)
    mean = w @ jnp.stack([m.mean for m in members])
    second = w @ jnp.stack([m.variance + m.mean**2 for m in members])
    assert float(forecast.mean) == pytest.approx(mean, abs=32 * EPS)
    assert float(forecast.variance) == pytest.approx(second - mean**2, rel=128 * EPS)
    assert float(forecast.cdf(forecast.quantile(jnp.float32(0.3)))) == pytest.approx(0.3, abs=1e-5)


def test_joined_components_move_and_draw_like_their_parts(mixed):
    tracker, state, x = mixed
    forecast = tracker.predict(state, x, jax.random.key(0))
    moved = forecast.affine(jnp.float32(3.0), jnp.float32(2.0))
    assert float(moved.mean) == pytest.approx(3 + 2 * float(forecast.mean), rel=16 * EPS)
    assert float(moved.cdf(jnp.float32(4.0))) == pytest.approx(
        float(forecast.cdf(jnp.float32(0.5))), abs=1e-6
    )
    n = 4000
    draws = jax.jit(jax.vmap(forecast.sample))(jax.random.split(jax.random.key(1), n))
    pit = np.asarray(jax.jit(jax.vmap(forecast.cdf))(draws))
    assert abs(pit.mean() - 0.5) < 4 * np.sqrt(1 / 12 / n)
    distance = np.mean(np.abs(np.asarray(draws) - 0.4))
    expected = float(jnp.sum(forecast.weights * forecast.components.mean_distance(jnp.float32(0.4))))
    assert distance == pytest.approx(expected, abs=5 * np.std(np.abs(draws - 0.4)) / np.sqrt(n))


def test_memory_is_that_of_the_last_forecasts(mixed):
    """D forecasts of each member and nothing that grows."""
    _, state, _ = mixed
    assert {leaf.shape[0] for leaf in jax.tree.leaves(state.recent)} == {2}
    assert sum(leaf.size for leaf in jax.tree.leaves(state.recent)) == 2 * (3 * 8 + 3 * 4 * 25)


def test_the_net_has_no_parameters_and_is_used_as_its_main_tracker():
    task = Task(("a", "b"))
    plain = lambda key: build("lt-unstructured", task, key, **SMALL)  # noqa: E731
    netted = lambda key: build("lt-unstructured", task, key, safety_net=SAFETY_NET, **SMALL)  # noqa: E731
    assert capacity(netted, 2) == capacity(plain, 2)
    used = in_use(netted(jax.random.key(0)))
    assert eqx.tree_equal(used.main.train_draws, used.main.draws)


def test_settings_survive_the_file(tmp_path):
    task = Task(("a", "b"), 2)
    settings = {
        **SMALL,
        "anchor": "last-label",
        "safety_net": ["rls", "last-label"],
        "safety_net_settings": {"rls": {"forgetting": 0.98}},
        "recalibrate": True,
    }
    name = "lt-structured"
    stack = build_stack(
        lambda key: build(name, task, key, **settings), jax.random.split(jax.random.key(0), 1)
    )
    lt.Model(name, settings, task, stack).save(tmp_path / "m.lt")
    loaded = lt.load(tmp_path / "m.lt")
    assert loaded.settings == settings
    tracker = loaded.stack[0]
    assert tracker.inner.names == (name, "rls", "last-label")
    assert tracker.inner.references[0].forgetting == 0.98
    assert eqx.tree_equal(tracker, stack[0])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"safety_net": "rls"}, "'safety_net' is 'rls': give a tuple of references"),
        ({"safety_net": ()}, "at least one"),
        ({"safety_net": ("rls_t",)}, "no safety net 'rls_t'.*did you mean 'rls-t'"),
        ({"safety_net": ("dssm",)}, "no safety net 'dssm'"),
        ({"safety_net": ("rls", "rls")}, "names a member twice"),
        ({"safety_net": ("rls",), "safety_net_settings": {"rls": {"forgetting": 0}}}, "'forgetting' is 0"),
        ({"safety_net": ("rls",), "safety_net_settings": {"rls-t": {}}}, "'rls-t'"),
    ],
)
def test_mistakes_get_one_sentence(settings, says):
    with pytest.raises(LatentTrackError, match=says) as caught:
        build("dssm", Task(("a",)), jax.random.key(0), **settings)
    assert "\n" not in str(caught.value)


def test_recalibration_is_on_or_off():
    with pytest.raises(LatentTrackError, match="'recalibrate' is 1: give True or False"):
        check_flag("dssm", "recalibrate", 1)
