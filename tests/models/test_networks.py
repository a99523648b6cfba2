"""Hypernetwork, summarisers and draws against plain or independent versions of themselves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from latenttrack.errors import LatentTrackError
from latenttrack.models.components import Gaussian
from latenttrack.models.draws import Independent, Sobol, make_draws
from latenttrack.models.heads import HEADS
from latenttrack.models.hypernetwork import Hypernetwork
from latenttrack.models.predictive import Predictive
from latenttrack.models.stack import in_groups
from latenttrack.models.summarisers import GRU, LRU, LSTM, SUMMARISERS, Attentive

EPS = float(np.finfo(np.float32).eps)


def _network(latent, sizes, features, skip, **settings):
    net = Hypernetwork(
        latent,
        sizes,
        features=features,
        activation=jnp.tanh,
        skip=skip,
        key=jax.random.key(latent),
        **settings,
    )
    # Zero biases would hide a forgotten bias.
    return jax.tree.map(lambda leaf: leaf + 0.1 if eqx.is_inexact_array(leaf) else leaf, net)


@pytest.mark.parametrize("skip", [False, True], ids=["plain", "skip"])
@pytest.mark.parametrize(
    ("latent", "sizes", "features"), [(2, (3, 2), 4), (3, (5, 4, 2), 6), (1, (2, 3, 4, 2), 3)]
)
def test_contraction_equals_written_out_weights(latent, sizes, features, skip):
    """The same numbers as from weights written out: dozens of products, so within about 100 roundings."""
    net = _network(latent, sizes, features, skip)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=sizes[0]), jnp.float32)
    z = jnp.asarray(rng.normal(size=(7, latent)), jnp.float32)
    expected = jax.vmap(lambda latent: net.plain(x, latent))(z)
    np.testing.assert_allclose(net(x, z), expected, rtol=1e-5, atol=1e-5)
    assert net(x, z).shape == (7, sizes[-1])
    assert np.std(net(x, z), axis=0).min() > 0.01  # latents make a difference


def test_skip_adds_to_the_mean_alone():
    net = _network(2, (3, 4, 2), 3, True)
    without = eqx.tree_at(lambda n: n.skip, net, None, is_leaf=lambda leaf: leaf is None)
    x, z = jnp.ones(3), jnp.array([[0.5, -0.5]])
    difference = (net(x, z) - without(x, z))[0]
    assert abs(float(difference[0])) > 0.01
    assert float(difference[1]) == 0.0


def test_hypernetwork_needs_two_sizes():
    with pytest.raises(LatentTrackError, match="sizes"):
        _network(2, (3,), 3, False)


def test_dropout_of_the_predictor_only_works_with_a_key():
    net = _network(2, (3, 64, 2), 3, False, dropout=0.5)
    quiet = eqx.nn.inference_mode(net)
    x, z = jnp.ones(3), jnp.zeros((4, 2))
    assert not np.allclose(net(x, z, jax.random.key(0)), quiet(x, z))
    np.testing.assert_array_equal(quiet(x, z), quiet(x, z, jax.random.key(0)))


def _sequence(size, steps=9, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(steps, size)), jnp.float32)


def test_gru_is_equinox_gru():
    ours = GRU(3, 4, key=jax.random.key(0))
    theirs = eqx.nn.GRUCell(3, 4, key=jax.random.key(1))
    theirs = eqx.tree_at(
        lambda c: (c.weight_ih, c.weight_hh, c.bias, c.bias_n),
        theirs,
        (ours.input.weight, ours.recurrent, ours.input.bias, ours.new_bias + 0.3),
    )
    ours = eqx.tree_at(lambda c: c.new_bias, ours, ours.new_bias + 0.3)
    h = g = jnp.zeros(4)
    for e in _sequence(3):
        h, g = ours(h, e), theirs(e, g)
        np.testing.assert_allclose(h, g, atol=32 * EPS)


def test_lstm_is_equinox_lstm():
    """Equinox orders the gates i, f, g, o; ours are i, f, o, g."""
    ours = LSTM(3, 4, key=jax.random.key(0))

    def reorder(leaf):
        i, f, o, g = jnp.split(leaf, 4)
        return jnp.concatenate([i, f, g, o])

    theirs = eqx.tree_at(
        lambda c: (c.weight_ih, c.weight_hh, c.bias),
        eqx.nn.LSTMCell(3, 4, key=jax.random.key(1)),
        (reorder(ours.input.weight), reorder(ours.recurrent), reorder(ours.input.bias)),
    )
    state, pair = ours.init(), (jnp.zeros(4), jnp.zeros(4))
    for e in _sequence(3):
        state, pair = ours(state, e), theirs(e, pair)
        np.testing.assert_allclose(ours.read(state), pair[0], atol=32 * EPS)
        np.testing.assert_allclose(state.c, pair[1], atol=32 * EPS)


def test_lru_is_a_linear_recurrence_of_complex_modes():
    """Against complex arithmetic in double precision."""
    lru = LRU(3, 4, modes=5, key=jax.random.key(0))
    a = np.exp(-np.exp(np.asarray(lru.log_decay, float)) + 1j * np.exp(np.asarray(lru.log_phase, float)))
    gamma = np.sqrt(1 - np.abs(a) ** 2)
    b = np.asarray(lru.input, float) @ np.array([1, 1j])
    s, state = np.zeros(5, complex), lru.init()
    for e in _sequence(3, steps=30):
        s = a * s + gamma * (b @ np.asarray(e, float))
        state = lru(state, e)
    np.testing.assert_allclose(np.asarray(state) @ np.array([1, 1j]), s, atol=30 * 16 * EPS)
    flat = np.stack([s.real, s.imag], axis=-1).ravel()
    h = np.tanh(np.asarray(lru.output.weight, float) @ flat + np.asarray(lru.output.bias, float))
    np.testing.assert_allclose(lru.read(state), h, atol=30 * 16 * EPS)
    assert (np.abs(a) < 1).all()


def test_attention_looks_back_at_every_nth_summary():
    """Against a list of all summaries in double precision."""
    attentive = Attentive(3, 4, width=2, count=3, every=4, key=jax.random.key(0))
    state, h, kept = attentive.init(), attentive.gru.init(), [np.zeros(2)] * 3
    for i, e in enumerate(_sequence(3, steps=30)):
        state, h = attentive(state, e), attentive.gru(h, e)
        now = np.asarray(h, float)
        if i % 4 == 0:
            compress = attentive.compress
            kept.append(np.tanh(np.asarray(compress.weight, float) @ now + np.asarray(compress.bias, float)))
    earlier = np.stack(kept[-3:])
    scores = np.exp(earlier @ (np.asarray(attentive.query.weight, float) @ now) / np.sqrt(2.0))
    found = (scores / scores.sum()) @ earlier
    expected = now + np.asarray(attentive.output.weight, float) @ found
    np.testing.assert_allclose(attentive.read(state), expected, atol=64 * EPS)


@pytest.mark.parametrize("name", SUMMARISERS)
def test_unroll_is_turn_after_turn(name):
    """Also over gaps, which leave the state as it is; for the LRU this checks the associative scan."""
    summariser = SUMMARISERS[name](3, 4, key=jax.random.key(0))
    e = _sequence(3, steps=33)
    seen = jnp.asarray(np.random.default_rng(1).random(33) < 0.7)
    start = jax.tree.map(lambda leaf: leaf + 0.25, summariser.init())
    states = jax.jit(lambda *args: summariser.unroll(*args))(start, e, seen)
    one, state = jax.jit(lambda state, e: summariser(state, e)), start
    for t in range(33):
        state = one(state, e[t]) if seen[t] else state
        for left, right in zip(jax.tree.leaves(states), jax.tree.leaves(state), strict=True):
            np.testing.assert_allclose(left[t], right, atol=33 * 8 * EPS)
    assert summariser.read(state).shape == (4,)


@pytest.mark.parametrize("name", SUMMARISERS)
def test_gradients_of_unroll_are_those_of_turn_after_turn(name):
    """With respect to weights, start and inputs, over gaps; all read-outs count, or the last alone."""
    summariser = SUMMARISERS[name](2, 3, key=jax.random.key(0))
    e = _sequence(2, steps=7)
    seen = np.array([True, True, False, True, False, True, True])
    start = jax.tree.map(lambda leaf: leaf + 0.25, summariser.init())
    weights = _sequence(3, steps=7, seed=1)

    def turns(summariser, start, e):
        states, state = [], start
        for t in range(7):
            state = summariser(state, e[t]) if seen[t] else state
            states.append(state)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    def unroll(summariser, start, e):
        return summariser.unroll(start, e, jnp.asarray(seen))

    for counted in (weights, weights * (jnp.arange(7) == 6)[:, None]):
        found, expected = (
            eqx.filter_jit(eqx.filter_grad(_read_out))((summariser, start, e), run, counted)
            for run in (unroll, turns)
        )
        leaves = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
        for left, right in leaves:
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=7 * 64 * EPS)
        # A counter among the states has none.
        assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(expected[1:]) if leaf.ndim)


def _read_out(arguments, run, counted):
    """A loss of the read-outs h_t of all states."""
    summariser, states = arguments[0], run(*arguments)
    return jnp.sum(counted * jax.vmap(summariser.read)(states))


@pytest.mark.parametrize("count", [1, 2, 8, 100])
def test_sobol_points_are_fixed_and_shaped(count):
    draws = Sobol(count, 3)
    points = draws(jax.random.key(0))
    assert points.shape == (count, 3)
    assert points.dtype == jnp.float32
    np.testing.assert_array_equal(points, draws(jax.random.key(1)))
    np.testing.assert_array_equal(points, Sobol(count, 3)(jax.random.key(0)))
    assert np.isfinite(points).all()


@pytest.mark.parametrize("kind", ["sobol", "independent"])
def test_draws_are_standard_normal(kind):
    """Mean, variance and correlation within 5 standard errors of N(0, I); every margin passes a KS test."""
    n, dim = 4096, 4
    eps = np.asarray(make_draws(kind, n, dim)(jax.random.key(0)), float)
    assert np.abs(eps.mean(axis=0)).max() < 5 / np.sqrt(n)
    assert np.abs(eps.var(axis=0) - 1).max() < 5 * np.sqrt(2 / n)
    correlation = np.corrcoef(eps.T) - np.eye(dim)
    assert np.abs(correlation).max() < 5 / np.sqrt(n)
    for column in eps.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3


def test_sobol_and_independent_draws_give_the_same_forecast():
    """y = z + noise: the mixture over z is N(0, 2). Sobol errs far less than a standard error, Monte Carlo
    about one.
    """
    n = 1024
    places = jnp.linspace(-3, 3, 13)
    truth = stats.norm.cdf(places, 0, np.sqrt(2))

    def cdf(eps):
        predictive = Predictive.equal(Gaussian(eps[:, 0], jnp.ones(n)))
        return np.asarray(jax.vmap(predictive.cdf)(places))

    # Var_z Phi(y - z) <= 1/12 at y = 0, where Phi(z) is uniform.
    standard_error = np.sqrt(1 / 12 / n)
    assert np.abs(cdf(Sobol(n, 2)(jax.random.key(0))) - truth).max() < 0.2 * standard_error
    assert np.abs(cdf(Independent(n, 2)(jax.random.key(0))) - truth).max() < 5 * standard_error


def test_independent_draws_follow_the_key():
    draws = Independent(5, 2)
    assert not np.array_equal(draws(jax.random.key(0)), draws(jax.random.key(1)))
    np.testing.assert_array_equal(draws(jax.random.key(0)), draws(jax.random.key(0)))


def test_independent_coins_and_normals_follow_their_laws():
    """Kolmogorov-Smirnov for the normals; for coins the mean within 5 standard errors."""
    draws = Independent(201, 101)
    normals = np.asarray(draws(jax.random.key(0)), float).ravel()
    assert stats.kstest(normals, "norm").pvalue > 1e-3
    for p in (0.1, 0.5, 0.9):
        coins = np.asarray(draws.below(jax.random.key(1), p))
        assert coins.shape == (201, 101)
        assert abs(coins.mean() - p) < 5 * np.sqrt(p * (1 - p) / coins.size) + 2**-17


def test_groups_of_seeds_give_the_same_as_all_at_once(monkeypatch):
    """Whatever the number of cores, and if the seeds do not divide among them."""
    tree = {"a": jnp.arange(10.0).reshape(5, 2), "key": jax.random.split(jax.random.key(0), 5)}
    function = jax.jit(jax.vmap(lambda t: t["a"] * 2 + jax.random.uniform(t["key"], (2,))))
    expected = function(tree)
    for cores in (1, 2, 3, 5, 64, None):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        np.testing.assert_array_equal(in_groups(function, tree), expected)


def test_a_pair_of_student_t_is_their_mean():
    """Each draw's density is that of its two components, half and half."""
    raw = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), jnp.float32)
    head = HEADS["student-t-pair"]()
    forecast = Predictive.equal(head(raw))
    np.testing.assert_allclose(forecast.weights, 1 / 6, rtol=1e-6)
    both = forecast.components
    df = float(both.df[0])
    for k, (mean, square, more, wider) in enumerate(np.asarray(raw, float)):
        one = stats.t(df, mean, np.exp(0.5 * square))
        other = stats.t(df, mean + more, np.exp(0.5 * (square + wider)))
        found = np.asarray(both.log_prob(jnp.float32(0.3)))[[k, k + 3]]
        np.testing.assert_allclose(found, [one.logpdf(0.3), other.logpdf(0.3)], rtol=1e-5)
