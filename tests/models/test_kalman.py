"""Special cases whose answer is known exactly: the Kalman filter and Bayesian linear regression."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latenttrack.models.base import Window
from latenttrack.models.gaussian import GaussianLayer
from latenttrack.models.registry import build
from latenttrack.models.summarisers import LRU
from latenttrack.models.task import Task

EPS = float(np.finfo(np.float32).eps)
Q, R = 0.3, 0.5  # variances of the level's steps and of the noise
P = Q / 2 + np.sqrt(Q**2 / 4 + Q * R)  # of the level before its label, in the steady state
GAIN = P / (P + R)
V = (1 - GAIN) * P  # of the level after its label
SMALL = 1e-3  # slope of the read-out: tanh(SMALL m) = SMALL m (1 - (SMALL m)^2 / 3)
K = 1024


def _linear(weight, bias):
    weight, bias = jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32)
    layer = eqx.nn.Linear(weight.shape[1], weight.shape[0], key=jax.random.key(0))
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (weight, bias))


def _gaussian(weight, log_sd):
    layer = GaussianLayer(len(weight[0]), 1, key=jax.random.key(0))
    linear = _linear([weight[0], np.zeros(len(weight[0]))], [0.0, log_sd])
    return eqx.tree_at(lambda g: g.linear, layer, linear)


def _level_model(structured):
    """LatentTrack with weights set by hand to the local-level model z' = z + N(0, Q), y = z + N(0, R).

    Its Kalman filter in the steady state is m' = (1 - GAIN) m + GAIN y, with z ~ N(m, V) after a label and
    N(m, V + Q = P) before the next one, so y ~ N(m, P + R). Everything in it is linear, and so is every
    piece:

    encoder: picks y. Summariser: a linear recurrent unit with one real mode of radius 1 - GAIN, whose tanh
    read-out is kept in its linear part. Posterior: N(m, V). Prior: N(m, P); structured: the transition N(z,
    Q). Hypernetwork: the generated predictor is its bias, [z, log R].
    """
    task = Task(("x0",))
    tracker = build(
        "lt-structured" if structured else "lt-unstructured",
        task,
        jax.random.key(0),
        hidden_size=1,
        latent_size=1,
        encoder_size=1,
        features=1,
        predictor=(),
        summariser="lru",
        K=K,
    )
    radius = 1 - GAIN
    lru = eqx.tree_at(
        lambda s: (s.log_decay, s.log_phase, s.input, s.output),
        LRU(1, 1, modes=1, key=jax.random.key(0)),
        (
            jnp.log(-jnp.log(jnp.full(1, radius, jnp.float32))),
            jnp.full(1, -jnp.inf, jnp.float32),
            jnp.asarray([[[GAIN / np.sqrt(1 - radius**2), 0.0]]], jnp.float32),
            _linear([[SMALL, 0.0]], [0.0]),
        ),
    )
    net = tracker.hypernetwork
    layer = net.layers[0]
    layer = eqx.tree_at(
        lambda g: (g.base_weight, g.base_bias, g.weight, g.bias),
        layer,
        (
            jnp.zeros_like(layer.base_weight),
            jnp.asarray([0.0, np.log(R)], jnp.float32),
            jnp.zeros_like(layer.weight),
            jnp.asarray([[1.0, 0.0]], jnp.float32),
        ),
    )
    net = eqx.tree_at(lambda n: (n.features, n.layers), net, (_linear([[1.0]], [0.0]), (layer,)))
    object.__setattr__(net, "activation", lambda g: g)  # a static field: outside tree_at's reach
    prior = _gaussian([[0.0, 1.0]], np.log(Q) / 2) if structured else _gaussian([[1 / SMALL]], np.log(P) / 2)
    return eqx.tree_at(
        lambda t: (
            t.memory.encoder,
            t.memory.summariser,
            t.posterior,
            t.prior,
            t.hypernetwork,
            t.train_draws,
        ),
        tracker,
        (
            _linear([[0.0, 1.0]], [0.0]),
            lru,
            _gaussian([[1 / SMALL]], np.log(V) / 2),
            prior,
            net,
            tracker.draws,
        ),
    )


@pytest.fixture(scope="module")
def stream():
    """Labels of a local-level model, and the Kalman filter's means before and after each of them."""
    rng = np.random.default_rng(0)
    level = np.cumsum(np.sqrt(Q) * rng.normal(size=60))
    y = level + np.sqrt(R) * rng.normal(size=60)
    before, after, m = [], [], 0.0
    for label in y:
        before.append(m)
        m += GAIN * (label - m)
        after.append(m)
    return y, np.array(before), np.array(after)


@pytest.mark.parametrize("structured", [False, True], ids=["unstructured", "structured"])
def test_latent_track_contains_the_kalman_filter(stream, structured):
    """The forecast is the mixture of N(z_k, R) over K points z_k ~ N(m, P): N(m, P + R) as K grows.

    A mean of K independent draws would err by sqrt(P / K), a variance by P sqrt(2 / K); Sobol points err
    less, so that three such standard errors are generous. The log density may err as far as these two move
    it.
    """
    y, before, _ = stream
    tracker = _level_model(structured)
    update, predict = jax.jit(lambda s, y: tracker.update(s, jnp.zeros(1), y)), jax.jit(_forecast(tracker))
    state = tracker.init()
    mean_error, variance_error = 3 * np.sqrt(P / K), 3 * P * np.sqrt(2 / K)
    for label, m in zip(y, before, strict=True):
        mean, variance, log_prob, aleatoric = predict(state, jnp.float32(label))
        assert float(mean) == pytest.approx(m, abs=mean_error)
        assert float(variance) == pytest.approx(P + R, abs=variance_error)
        assert float(aleatoric) == pytest.approx(R, rel=16 * EPS)
        u = abs(label - m) / np.sqrt(P + R)
        expected = -0.5 * (u**2 + np.log(2 * np.pi * (P + R)))
        slack = (u * mean_error + (1 + u**2) / 2 * variance_error / np.sqrt(P + R)) / np.sqrt(P + R)
        assert float(log_prob) == pytest.approx(expected, abs=2 * slack)
        state = update(state, jnp.float32(label))


def _forecast(tracker):
    def forecast(state, y):
        predictive = tracker.predict(state, jnp.zeros(1), jax.random.key(0))
        return predictive.mean, predictive.variance, predictive.log_prob(y), predictive.aleatoric

    return forecast


def test_kl_terms_are_those_of_the_kalman_filter(stream):
    """Unstructured: KL(N(m', V) || N(m, P)). Structured: its mean over z ~ N(m, V) of KL(N(m', V) || N(z,
    Q)).
    """
    y, before, after = stream
    labels = jnp.asarray(y, jnp.float32)
    seen = jnp.arange(60) > 0
    window = Window(
        jnp.zeros((60, 1)), labels, jnp.ones(60, bool), jnp.zeros((60, 1)), jnp.append(0.0, labels[:-1]), seen
    )
    shift = (after - before) ** 2
    expected = {
        False: 0.5 * (np.log(P / V) + (V + shift) / P - 1),
        True: 0.5 * (np.log(Q / V) + (V + V + shift) / Q - 1),
    }
    # over the K points: sd of (m' - z)^2 / (2 Q) with z ~ N(m, V)
    noise = np.sqrt((2 * V**2 + 4 * V * shift) / K) / (2 * Q)
    # tanh's cubic part, and m' - m from two numbers that carry roundings of size |m| / SMALL x SMALL
    slack = 1e-4
    for structured in (False, True):
        tracker = _level_model(structured)
        terms, state = jax.jit(lambda w, t=tracker: t.window_terms(t.init(), w, jax.random.key(0)))(window)
        np.testing.assert_array_less(np.abs(terms.kl - expected[structured]), slack + 3 * noise * structured)
        # E_q log N(y; z, R) with z ~ N(m', V)
        likelihood = -0.5 * (np.log(2 * np.pi * R) + ((y - after) ** 2 + V) / R)
        error = np.sqrt((2 * V**2 + 4 * V * (y - after) ** 2) / K) / (2 * R)
        np.testing.assert_array_less(np.abs(terms.log_likelihood - likelihood), slack + 3 * error)
        assert jnp.tanh(SMALL * before[-1]) == pytest.approx(float(tracker.memory.read(state)[0]), rel=1e-3)


@pytest.mark.parametrize("forgetting", [1.0, 0.97, 0.7])
def test_rls_is_bayesian_linear_regression_that_forgets_in_the_direction_of_the_label(forgetting):
    """Weights and covariance == those of the same recursion on the precision A, in double precision.

    With noise of unit variance and prior N(0, I), a label of phi moves w by A^-1 phi (y - w.phi) / (1 + r),
    r = phi' A^-1 phi, and A by a multiple of phi phi', such that 1 / r' = lambda (1 / r + 1); then weights
    that are surer than at first are made a little less sure. Without forgetting that is ridge regression.
    """
    rng = np.random.default_rng(0)
    n, size = 80, 4
    x = rng.normal(size=(n, size - 1)).astype(np.float32)
    y = (x @ [1.0, -2.0, 0.5] + 3.0 + 0.1 * rng.normal(size=n)).astype(np.float32)
    tracker = build("rls", Task(("a", "b", "c")), jax.random.key(0), forgetting=forgetting)
    update, state = eqx.filter_jit(tracker.update), tracker.init()
    phi = np.concatenate([np.ones((n, 1)), x], axis=1).astype(float)
    precision, weights = np.eye(size), np.zeros(size)
    for row, label, direction in zip(x, y, phi, strict=True):
        state = update(state, row, label)
        gain = np.linalg.solve(precision, direction)
        r = direction @ gain
        weights = weights + gain * (label - weights @ direction) / (1.0 + r)
        precision = precision + (forgetting - (1.0 - forgetting) / r) * np.outer(direction, direction)
        after = direction @ np.linalg.solve(precision, direction)
        assert 1.0 / after == pytest.approx(forgetting * (1.0 / r + 1.0))
        surer = np.diag(np.linalg.inv(precision)) < 1.0
        kept = np.where(surer, np.sqrt(max(forgetting, 0.9999)), 1.0)
        precision = kept[:, None] * precision * kept
    if forgetting == 1.0:
        np.testing.assert_allclose(weights, np.linalg.solve(np.eye(size) + phi.T @ phi, phi.T @ y))
    # n updates, each with a few roundings of numbers of size one
    tolerance = n * 4 * EPS / forgetting
    np.testing.assert_allclose(state.weights, weights, atol=tolerance, rtol=tolerance)
    covariance = np.asarray(state.root, float) @ np.asarray(state.root, float).T
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), atol=4 * tolerance * np.max(covariance))
    point = tracker.locate(state, jnp.array([1.0, 0.0, -1.0]))
    assert float(point) == pytest.approx(float(state.weights @ jnp.array([1.0, 1.0, 0.0, -1.0])), rel=8 * EPS)


def _learned(tracker, rows):
    """The state after rows of inputs, and the label in the last column."""
    rows = jnp.asarray(rows, jnp.float32)

    def body(state, row):
        return tracker.update(state, row[:-1], row[-1]), None

    return jax.jit(lambda rows: jax.lax.scan(body, tracker.init(), rows))(rows)[0]


@pytest.mark.parametrize("forgetting", [0.7, 0.95, 0.9999])
def test_rls_remembers_what_a_silent_column_meant(forgetting):
    """Snow falls once a year: after a summer its weight is what it was, and nearly as sure."""
    tracker = build("rls", Task(("warmth", "snow")), jax.random.key(0), forgetting=forgetting)
    rng = np.random.default_rng(0)
    winter = rng.normal(size=(300, 3))
    winter[:, 2] = winter[:, 0] + 2.0 * winter[:, 1] + 0.01 * rng.normal(size=300)
    summer = rng.normal(size=(5000, 3))
    summer[:, 1] = 0.0
    summer[:, 2] = summer[:, 0]
    before, after = _learned(tracker, winter), _learned(tracker, np.concatenate([winter, summer]))
    snow = jnp.array([0.0, 40.0])
    assert float(before.weights[2]) == pytest.approx(2.0, abs=0.02)
    assert float(tracker.locate(after, snow)) == pytest.approx(float(tracker.locate(before, snow)), abs=4.0)
    assert float(jnp.sum(after.root[2] ** 2)) <= 2.0 * float(jnp.sum(before.root[2] ** 2))


@pytest.mark.parametrize("forgetting", [0.7, 0.98])
def test_rls_follows_a_change_however_old_the_stream_is(forgetting):
    """All weights change their sign. By directional forgetting alone it would take longer and longer."""
    tracker = build("rls", Task(("a", "b", "c")), jax.random.key(0), forgetting=forgetting)
    rng = np.random.default_rng(0)

    def missed(age):
        x = rng.normal(size=(age + 2000, 3))
        sign = np.where(np.arange(len(x)) < age, 1.0, -1.0)
        rows = np.column_stack([x, sign * x.sum(axis=1) + 0.3 * rng.normal(size=len(x))])

        def body(state, row):
            return tracker.update(state, row[:-1], row[-1]), row[-1] - tracker.locate(state, row[:-1])

        errors = jax.jit(lambda r: jax.lax.scan(body, tracker.init(), r)[1])(jnp.asarray(rows, jnp.float32))
        return float(jnp.sqrt(jnp.mean(errors[age:] ** 2)))

    assert missed(160_000) < 1.2 * missed(20_000)


@pytest.mark.parametrize("forgetting", [0.7, 0.95, 0.9999])
def test_rls_stays_sane_where_columns_are_copies_or_silent(forgetting):
    """Directions that the data do not excite, for ever: no weight becomes less sure than it was at first."""
    tracker = build("rls", Task(("a", "copy", "nothing")), jax.random.key(0), forgetting=forgetting)
    rows = np.zeros((50_000, 4))
    rows[:, 0] = np.random.default_rng(0).normal(size=len(rows))
    rows[:, 1], rows[:, 3] = rows[:, 0], rows[:, 0]
    state = _learned(tracker, rows)
    covariance = np.asarray(state.root, float) @ np.asarray(state.root, float).T
    assert np.isfinite(covariance).all()
    assert np.diag(covariance).max() <= 1.001  # the last step of forgetting, and rounding
    assert float(tracker.locate(state, jnp.array([2.0, 2.0, 0.0]))) == pytest.approx(2.0, abs=0.01)
