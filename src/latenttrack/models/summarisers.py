"""Causal summaries of the past, h_t = S(h_{t-1}, e_t), of fixed size.

A summariser splits its step in two: `drive`, what the input alone contributes (computed for all steps of a
window at once), and `turn`, the recurrence proper. `unroll` runs a window; the linear recurrent unit does it
in parallel.
"""

import abc
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from latenttrack.models.base import keep_if

S = TypeVar("S")


class AbstractSummariser(eqx.Module, Generic[S]):
    """A recurrent state of type S, read as a vector h of `size` numbers."""

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def init(self) -> S:
        """The summary of nothing."""

    @abc.abstractmethod
    def drive(self, e: Float[Array, " E"]) -> Array:
        """The input's own contribution to the next state."""

    @abc.abstractmethod
    def turn(self, state: S, drive: Array) -> S:
        """The next state from the last one and the input's contribution."""

    @abc.abstractmethod
    def read(self, state: S) -> Float[Array, " H"]:
        """The vector h that the rest of the model sees."""

    def __call__(self, state: S, e: Float[Array, " E"]) -> S:
        """One step: h_t = S(h_{t-1}, e_t)."""
        return self.turn(state, self.drive(e))

    def unroll(self, state: S, e: Float[Array, "W E"], observed: Bool[Array, " W"]) -> S:
        """The states after each of W steps (stacked); unobserved steps leave the state as it is."""
        states: S = _unroll((self, state, jax.vmap(self.drive)(e)), observed)
        return states


class GRU(AbstractSummariser[Array]):
    """Gated recurrent unit.

        r = sigma(W_r e + U_r h);   u = sigma(W_u e + U_u h)
        n = tanh(W_n e + r * (U_n h + c));   h' = n + u * (h - n)

    The update gate's bias starts at +1: remember, unless taught otherwise.
    """

    input: eqx.nn.Linear
    recurrent: Float[Array, "threeH H"]
    new_bias: Float[Array, " H"]
    size: int = eqx.field(static=True)

    def __init__(self, in_size: int, size: int, *, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        linear = eqx.nn.Linear(in_size, 3 * size, key=k1)
        bias = jnp.concatenate([jnp.zeros(size), jnp.ones(size), jnp.zeros(size)])
        self.input = eqx.tree_at(lambda layer: layer.bias, linear, bias)
        limit = size**-0.5
        self.recurrent = jax.random.uniform(k2, (3 * size, size), minval=-limit, maxval=limit)
        self.new_bias = jnp.zeros(size)
        self.size = size

    def init(self) -> Float[Array, " H"]:
        """h_0 = 0."""
        return jnp.zeros(self.size)

    def drive(self, e: Float[Array, " E"]) -> Float[Array, " threeH"]:
        """[W_r e, W_u e, W_n e] with their biases."""
        return self.input(e)

    def turn(self, state: Float[Array, " H"], drive: Float[Array, " threeH"]) -> Float[Array, " H"]:
        """The gates and the new h, as in the class docstring."""
        input_r, input_u, input_n = jnp.split(drive, 3)
        state_r, state_u, state_n = jnp.split(self.recurrent @ state, 3)
        r = jax.nn.sigmoid(input_r + state_r)
        u = jax.nn.sigmoid(input_u + state_u)
        n = jnp.tanh(input_n + r * (state_n + self.new_bias))
        return n + u * (state - n)

    def read(self, state: Float[Array, " H"]) -> Float[Array, " H"]:
        """The state is h."""
        return state


class LSTMState(NamedTuple):
    """Output h and cell c, both [H]."""

    h: Float[Array, " H"]
    c: Float[Array, " H"]


class LSTM(AbstractSummariser[LSTMState]):
    """Long short-term memory: i, f, o = sigma(.), g = tanh(.);  c' = f * c + i * g;  h' = o * tanh(c')."""

    input: eqx.nn.Linear
    recurrent: Float[Array, "fourH H"]
    size: int = eqx.field(static=True)

    def __init__(self, in_size: int, size: int, *, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        linear = eqx.nn.Linear(in_size, 4 * size, key=k1)
        bias = jnp.concatenate([jnp.zeros(size), jnp.ones(size), jnp.zeros(2 * size)])
        self.input = eqx.tree_at(lambda layer: layer.bias, linear, bias)
        limit = size**-0.5
        self.recurrent = jax.random.uniform(k2, (4 * size, size), minval=-limit, maxval=limit)
        self.size = size

    def init(self) -> LSTMState:
        """h_0 = c_0 = 0."""
        return LSTMState(jnp.zeros(self.size), jnp.zeros(self.size))

    def drive(self, e: Float[Array, " E"]) -> Float[Array, " fourH"]:
        """The input's part of the four gates."""
        return self.input(e)

    def turn(self, state: LSTMState, drive: Float[Array, " fourH"]) -> LSTMState:
        """The gates and the new cell, as in the class docstring."""
        i, f, o, g = jnp.split(drive + self.recurrent @ state.h, 4)
        c = jax.nn.sigmoid(f) * state.c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return LSTMState(jax.nn.sigmoid(o) * jnp.tanh(c), c)

    def read(self, state: LSTMState) -> Float[Array, " H"]:
        """The output h."""
        return state.h


class LRU(AbstractSummariser[Array]):
    """Linear recurrent unit: s' = a * s + gamma * (B e) with complex |a| < 1;  h = tanh(Re(C s)).

    The recurrence is linear, so a window is an associative scan: O(log W) deep instead of W. Complex numbers
    are kept as [..., 2] (real, imaginary), so that states are plain float arrays. (Orvieto et al., 2023.)
    """

    input: Float[Array, "M E 2"]
    output: eqx.nn.Linear
    log_decay: Float[Array, " M"]
    log_phase: Float[Array, " M"]
    size: int = eqx.field(static=True)

    def __init__(self, in_size: int, size: int, *, modes: int | None = None, key: PRNGKeyArray):
        modes = size if modes is None else modes
        k1, k2, k3, k4 = jax.random.split(key, 4)
        radius = jnp.sqrt(jax.random.uniform(k1, (modes,), minval=0.6**2, maxval=0.999**2))
        self.log_decay = jnp.log(-jnp.log(radius))
        self.log_phase = jnp.log(jax.random.uniform(k2, (modes,), minval=1e-3, maxval=0.5))
        self.input = jax.random.normal(k3, (modes, in_size, 2)) * (2 * in_size) ** -0.5
        self.output = eqx.nn.Linear(2 * modes, size, key=k4)
        self.size = size

    def init(self) -> Float[Array, "M 2"]:
        """s_0 = 0."""
        return jnp.zeros((self.log_decay.shape[0], 2))

    def drive(self, e: Float[Array, " E"]) -> Float[Array, "M 2"]:
        """gamma * (B e), gamma = sqrt(1 - |a|^2): every mode has unit gain for white input."""
        gamma = jnp.sqrt(1.0 - jnp.exp(-2.0 * jnp.exp(self.log_decay)))
        return gamma[:, None] * jnp.einsum("mec,e->mc", self.input, e)

    def turn(self, state: Float[Array, "M 2"], drive: Float[Array, "M 2"]) -> Float[Array, "M 2"]:
        """s' = a * s + drive."""
        return _complex_product(self._multiplier(), state) + drive

    def read(self, state: Float[Array, "M 2"]) -> Float[Array, " H"]:
        """Tanh of a linear read-out of the real and imaginary parts."""
        return jnp.tanh(self.output(state.reshape(-1)))

    def unroll(
        self, state: Float[Array, "M 2"], e: Float[Array, "W E"], observed: Bool[Array, " W"]
    ) -> Float[Array, "W M 2"]:
        """All W states at once by an associative scan over affine maps s -> a s + b."""
        one = jnp.array([1.0, 0.0])
        seen = observed[:, None, None]
        a = jnp.where(seen, self._multiplier()[None], one)
        b = jnp.where(seen, jax.vmap(self.drive)(e), 0.0)

        def compose(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
            return _complex_product(then[0], first[0]), _complex_product(then[0], first[1]) + then[1]

        a, b = jax.lax.associative_scan(compose, (a, b))
        return _complex_product(a, state[None]) + b

    def _multiplier(self) -> Float[Array, "M 2"]:
        radius, phase = jnp.exp(-jnp.exp(self.log_decay)), jnp.exp(self.log_phase)
        return jnp.stack([radius * jnp.cos(phase), radius * jnp.sin(phase)], axis=-1)


class AttentiveState(NamedTuple):
    """The GRU's h; M compressed summaries of earlier steps, oldest first; steps since the newest of them."""

    h: Float[Array, " H"]
    earlier: Float[Array, "M C"]
    age: Float[Array, ""]  # a float, as every part of a state that training differentiates


class Attentive(AbstractSummariser[AttentiveState]):
    """A GRU that looks back at a bounded memory of what it thought before.

        c_m = tanh(W_c h_m + b_c)                     kept of every fourth step, the last 48 of them
        a = softmax(W_q h . c_m / sqrt(C));   read-out: h + W_o sum_m a_m c_m

    So it can compare with the same hour of days ago, which h itself has long forgotten.
    """

    gru: GRU
    compress: eqx.nn.Linear
    query: eqx.nn.Linear
    output: eqx.nn.Linear
    size: int = eqx.field(static=True)
    width: int = eqx.field(static=True)  # C
    count: int = eqx.field(static=True)  # M
    every: int = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        size: int,
        *,
        width: int = 16,
        count: int = 48,
        every: int = 4,
        key: PRNGKeyArray,
    ):
        k1, k2, k3, k4 = jax.random.split(key, 4)
        self.gru = GRU(in_size, size, key=k1)
        self.query = eqx.nn.Linear(size, width, use_bias=False, key=k2)
        self.compress = eqx.nn.Linear(size, width, key=k3)
        self.output = eqx.nn.Linear(width, size, use_bias=False, key=k4)
        self.size, self.width, self.count, self.every = size, width, count, every

    def init(self) -> AttentiveState:
        """Nothing to look back at; the first step is kept."""
        earlier = jnp.zeros((self.count, self.width))
        return AttentiveState(self.gru.init(), earlier, jnp.float32(self.every - 1))

    def drive(self, e: Float[Array, " E"]) -> Float[Array, " threeH"]:
        """The GRU's."""
        return self.gru.drive(e)

    def turn(self, state: AttentiveState, drive: Float[Array, " threeH"]) -> AttentiveState:
        """The GRU's turn; its summary is kept if the newest one is old enough."""
        h, age = self.gru.turn(state.h, drive), state.age + 1.0
        due = age >= self.every
        kept = jnp.concatenate([state.earlier[1:], jnp.tanh(self.compress(h))[None]])
        return AttentiveState(h, jnp.where(due, kept, state.earlier), jnp.where(due, 0.0, age))

    def read(self, state: AttentiveState) -> Float[Array, " H"]:
        """The summary, and what it finds among earlier ones."""
        weights = jax.nn.softmax(state.earlier @ self.query(state.h) * self.width**-0.5)
        return state.h + self.output(weights @ state.earlier)


def _complex_product(a: Float[Array, "*#s 2"], b: Float[Array, "*#s 2"]) -> Float[Array, "*#s 2"]:
    ar, ai, br, bi = a[..., 0], a[..., 1], b[..., 0], b[..., 1]
    return jnp.stack([ar * br - ai * bi, ar * bi + ai * br], axis=-1)


def _step(summariser: AbstractSummariser, state: S, drive: Array, seen: Array) -> S:
    return keep_if(seen, summariser.turn(state, drive), state)


def _scan(summariser: AbstractSummariser, state: S, drives: Array, seen: Array, lifts: S) -> S:
    """The states after each step, each moved by its `lift`: a handle on the gradient that reaches it."""

    def body(state: S, inputs: tuple[Array, Array, S]) -> tuple[S, S]:
        drive, seen, lift = inputs
        state = jax.tree.map(jnp.add, _step(summariser, state, drive, seen), lift)
        return state, state

    return jax.lax.scan(body, state, (drives, seen, lifts))[1]


# Differentiated as it stands, a scan adds to the gradient of every recurrent weight at each of its steps.
# Here the scan backwards carries the gradient of the state alone, and all steps' weight gradients follow at
# once, in one product.
@eqx.filter_custom_vjp
def _unroll(moving: tuple[AbstractSummariser, S, Array], seen: Array) -> S:
    summariser, state, drives = moving
    return _scan(summariser, state, drives, seen, _no_lift(state, drives))


@_unroll.def_fwd
def _unroll_forward(perturbed, moving, seen):  # type: ignore[no-untyped-def]
    del perturbed
    summariser, state, drives = moving
    states, pull = jax.vjp(
        lambda state, lifts: _scan(summariser, state, drives, seen, lifts), state, _no_lift(state, drives)
    )
    before = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest[:-1]]), state, states)
    return states, (pull, before)


@_unroll.def_bwd
def _unroll_backward(saved, gradient, perturbed, moving, seen):  # type: ignore[no-untyped-def]
    del perturbed
    (pull, before), (summariser, _, drives) = saved, moving
    # A part of the state that nothing reads (an LSTM's cell) has no gradient: that is None here.
    gradient = jax.tree.map(
        lambda g, like: jnp.zeros_like(like) if g is None else g,
        gradient,
        before,
        is_leaf=lambda g: g is None,
    )
    state_gradient, arriving = pull(gradient)
    arrays, rest = eqx.partition(summariser, eqx.is_inexact_array)

    def all_steps(arrays, drives):  # type: ignore[no-untyped-def]
        joined = eqx.combine(arrays, rest)
        return jax.vmap(lambda s, d, o: _step(joined, s, d, o))(before, drives, seen)

    weight_gradient, drive_gradient = jax.vjp(all_steps, arrays, drives)[1](arriving)
    return weight_gradient, state_gradient, drive_gradient


def _no_lift(state: S, drives: Array) -> S:
    steps = drives.shape[0]
    return jax.tree.map(lambda leaf: jnp.zeros((steps, *leaf.shape), leaf.dtype), state)


SUMMARISERS: dict[str, Callable[..., AbstractSummariser]] = {
    "gru": GRU,
    "lstm": LSTM,
    "lru": LRU,
    "attention": Attentive,
}
