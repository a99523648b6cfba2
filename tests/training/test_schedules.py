"""The three schedules against the paper's pseudo-code, written out step by step, and against one another."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from latenttrack.models.base import Window, partition
from latenttrack.models.layout import lay_out
from latenttrack.training.schedules import EPOCHS, _shifted, updates_per_epoch
from latenttrack.training.settings import Training
from latenttrack.training.step import Problem, new_learner

EPS = float(np.finfo(np.float32).eps)
RATE, DECAY, STEPS = 0.1, 0.8, 12
# A few hundred float32 operations an update, a dozen updates, numbers of size one.
TOLERANCE = 1e3 * EPS


@pytest.fixture(scope="module")
def data(make_series):
    """One stream of 12 steps with a missing label, [1, 12, ...]."""
    y = make_series((STEPS,)).y.copy()
    y[5] = np.nan
    window, _ = lay_out(make_series((STEPS,), y=y))
    return Window(*(jnp.asarray(leaf) for leaf in window))


def _learn(level, data, **settings):
    """The learner after one epoch, and the loss."""
    training = Training(**{"recency": DECAY, "objective": "nll", "optimiser": optax.sgd(RATE), **settings})
    params, rest = partition(level(jax.random.key(0)))
    updates = updates_per_epoch(training, data.y.shape[1])
    problem = Problem(rest, training, training.make_optimiser(updates), STEPS)
    run = jax.jit(lambda learner, data: EPOCHS[training.schedule](learner, problem, data, jax.random.key(1)))
    learner, loss = run(new_learner(problem.optimiser, params), data)
    assert int(learner.updates) == updates
    return learner, float(loss)


def _epoch(level, data, **settings):
    learner, loss = _learn(level, data, **settings)
    return learner.params, loss


class ByHand:
    """Algorithms 1 to 3 of the paper for the `Level` tracker, one step at a time in plain Python.

    h[t] is the belief that enters step t. Step t first folds in the label that is due, that of step t - 1,
    and then predicts. So what is stored and detached at a window's beginning is the belief before that label,
    where the paper stores the one after it: the gradient reaches one update of the summary further back.
    """

    def __init__(self, params, data):
        self.params = params
        self.x, self.y = np.asarray(data.x[0]), np.asarray(data.y[0])
        self.seen = np.asarray(data.observed[0])
        self.losses = []
        self.gradient = jax.jit(jax.value_and_grad(self.loss), static_argnums=(2, 3))

    def enter(self, params, h, t):
        """The belief from which step t is predicted: h with the label of step t - 1, if there is one."""
        return h + jax.nn.sigmoid(params.gain) * (self.y[t - 1] - h) if t > 0 and self.seen[t - 1] else h

    def value(self, params, h, t):
        """log p(y_t | x_t, h)."""
        u = (self.y[t] - params.weight @ self.x[t] - h) * jnp.exp(-params.log_sd)
        return -0.5 * u**2 - params.log_sd - 0.5 * np.log(2 * np.pi)

    def loss(self, params, h, first, last):
        """Weighted loss of steps first ... last from the detached belief h before them."""
        total, weights = jnp.zeros(()), 0.0
        for t in range(first, last + 1):
            h = self.enter(params, h, t)
            if self.seen[t]:
                weight = DECAY ** (last - t)
                total, weights = total + weight * self.value(params, h, t), weights + weight
        return -total / max(weights, 1e-8)

    def step(self, h, first, last, report=True):
        loss, gradient = self.gradient(self.params, h, first, last)
        self.params = jax.tree.map(lambda p, g: p - RATE * g, self.params, gradient)
        if report:
            self.losses.append(float(loss))

    def chunk(self, W, S):
        del S
        h = 0.0
        for first in range(0, STEPS, W):
            old = self.params
            self.step(h, first, first + W - 1)
            for t in range(first, first + W):
                h = self.enter(old, h, t)
            yield

    def exact(self, W, S):
        h = [0.0]  # detached, each made with the weights of its time
        for t in range(STEPS):
            h.append(self.enter(self.params, h[t], t))
            if (t + 1) % S == 0:
                first = max(0, t - W + 1)
                self.step(h[first], first, t)
                yield

    def approx(self, W, S):
        start = 0.0
        for first in range(0, STEPS, W):
            h = start
            for t in range(first, first + W):
                before = h
                h = self.enter(self.params, h, t)
                if (t - first + 1) % S == 0 and t - first + 1 < W:
                    self.step(before, t, t, report=False)
                    yield
            old = self.params
            self.step(start, first, first + W - 1)
            for t in range(first, first + W):
                start = self.enter(old, start, t)
            yield


@pytest.mark.parametrize(
    ("schedule", "W", "S"),
    [("chunk", 4, 4), ("exact", 6, 2), ("exact", 4, 4), ("approx", 6, 2), ("approx", 4, 1)],
)
def test_schedule_is_the_papers_algorithm(level, data, flat, schedule, W, S):
    params, loss = _epoch(level, data, schedule=schedule, window=W, stride=S)
    start, _ = partition(level(jax.random.key(0)))
    hand = ByHand(start, data)
    updates = len(list(getattr(hand, schedule)(W, S)))
    assert updates == updates_per_epoch(Training(schedule=schedule, window=W, stride=S), STEPS)
    np.testing.assert_allclose(flat(params), flat(hand.params), atol=TOLERANCE)
    assert loss == pytest.approx(np.mean(hand.losses), abs=TOLERANCE)
    assert np.abs(flat(params) - flat(start)).max() > 0.05  # it did learn something


def test_chunk_of_everything_is_exact_with_one_window(level, data, flat):
    chunk, a = _epoch(level, data, schedule="chunk", window=STEPS)
    exact, b = _epoch(level, data, schedule="exact", window=STEPS, stride=STEPS)
    np.testing.assert_allclose(flat(chunk), flat(exact), atol=TOLERANCE)
    assert a == pytest.approx(b, abs=TOLERANCE)


@pytest.mark.parametrize("width", [4, 6])
def test_approx_without_micro_steps_is_chunk(level, data, flat, width):
    chunk, a = _epoch(level, data, schedule="chunk", window=width)
    approx, b = _epoch(level, data, schedule="approx", window=width, stride=width)
    np.testing.assert_allclose(flat(chunk), flat(approx), atol=TOLERANCE)
    assert a == pytest.approx(b, abs=TOLERANCE)


@pytest.mark.parametrize("seed", range(5))
def test_random_offsets_see_every_label_once(data, seed):
    """A shifted grid of windows, one more than without a shift, holds every label and due label once."""
    training = Training(window=4, offsets=True)
    shifted, start, count = _shifted(data, training, jax.random.key(seed))
    assert count == updates_per_epoch(training, STEPS) == STEPS // 4 + 1
    grid = slice(int(start), int(start) + 4 * count)
    assert shifted.y[:, grid].shape == (1, 4 * count)
    for name in ("y", "due_y"):
        seen = "observed" if name == "y" else "due_observed"
        found = getattr(shifted, name)[:, grid][getattr(shifted, seen)[:, grid]]
        np.testing.assert_array_equal(found, getattr(data, name)[getattr(data, seen)])


def test_random_offsets_differ():
    training = Training(window=64, offsets=True)
    empty = Window(*(jnp.zeros((1, 64)) for _ in Window._fields))
    starts = {int(_shifted(empty, training, jax.random.key(seed))[1]) for seed in range(10)}
    assert len(starts) > 5


def test_the_surprise_mean_flows_from_window_to_window(level, data, flat):
    """With the same windows, carrying the mean of NLL along makes other weights than starting it anew."""
    carried, _ = _epoch(level, data, window=4, surprise=1.0)
    plain, _ = _epoch(level, data, window=4)
    assert np.abs(flat(carried) - flat(plain)).max() > 1e-3


def test_weights_average_with_a_memory_that_grows(level, data, flat):
    """average' = r average + (1 - r) params, r = min(ema, (1 + n) / (10 + n)), from the initial weights."""
    learner, _ = _learn(level, data, window=4, weight_ema=0.15)
    start, _ = partition(level(jax.random.key(0)))
    hand, average = ByHand(start, data), flat(start)
    for n, _ in enumerate(hand.chunk(4, 4)):
        r = min(0.15, (1 + n) / (10 + n))
        average = r * average + (1 - r) * flat(hand.params)
    np.testing.assert_allclose(flat(learner.average), average, atol=TOLERANCE)
    np.testing.assert_allclose(flat(learner.params), flat(hand.params), atol=TOLERANCE)
    assert np.abs(flat(learner.average) - flat(learner.params)).max() > 100 * TOLERANCE


def test_without_averaging_the_average_is_the_weights(level, data, same_bits):
    learner, _ = _learn(level, data, window=4)
    same_bits(learner.average, learner.params)


def test_gradients_are_clipped_by_their_norm(level, data, flat):
    """Adam does not see the length of a gradient, so the clipping is looked at in its first moment."""
    free, clipped = (
        flat(optax.tree.get(_learn(level, data, window=STEPS, clip=clip, optimiser=None)[0].opt_state, "mu"))
        for clip in (1e9, 0.01)
    )
    assert np.linalg.norm(free) > 0.01  # the first moment is a tenth of the gradient
    assert np.linalg.norm(clipped) == pytest.approx(0.1 * 0.01, rel=1e-3)
    np.testing.assert_allclose(free / np.linalg.norm(free), clipped / np.linalg.norm(clipped), atol=1e-3)


def test_a_gradient_that_is_not_finite_is_left_out(level, data, flat):
    """One window with a broken label value changes nothing; the others are learned from."""
    broken = data._replace(y=data.y.at[0, 1].set(jnp.inf))  # in the first of three windows
    params, _ = _epoch(level, broken, window=4)
    assert np.isfinite(flat(params)).all()
    start, _ = partition(level(jax.random.key(0)))
    assert np.abs(flat(params) - flat(start)).max() > 1e-3


def test_learning_rates():
    """Constant, or 3 % linear warm-up and a cosine to a hundredth."""
    training = Training(learning_rate=0.5, cosine=True)
    assert isinstance(training.make_optimiser(100), optax.GradientTransformation)
    sizes = _adam_steps(training, 100)
    assert sizes[0] == 0.0
    assert sizes[3] == pytest.approx(0.5, rel=1e-3)
    assert sizes[99] == pytest.approx(0.005, rel=0.1)
    assert (np.diff(sizes[3:]) < 0).all()
    middle = 0.005 + 0.495 * 0.5 * (1 + np.cos(np.pi * (50 - 3) / 97))
    assert sizes[50] == pytest.approx(middle, rel=1e-3)
    np.testing.assert_allclose(_adam_steps(dataclasses.replace(training, cosine=False), 5), 0.5, rtol=1e-3)


def _adam_steps(training, count):
    """The size of each update for a constant gradient: Adam's is the learning rate."""
    optimiser = training.make_optimiser(count)

    def body(state, _):
        change, state = optimiser.update({"w": jnp.ones(())}, state, {"w": jnp.zeros(())})
        return state, -change["w"]

    return np.asarray(jax.lax.scan(body, optimiser.init({"w": jnp.zeros(())}), None, length=count)[1])
