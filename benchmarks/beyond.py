"""Three ideas beyond the preset, built on the library's own parts; `ablations.py` says what each is worth.

    particles      the Markov latent as a particle filter: draws live on, reweighted by every label
    distillation   half of the labels trained on are draws from the pooled seeds
    protocols      one network trained on two horizons at once, told which

What they gain is in the table of docs/results.md; none is part of the preset.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from latenttrack.data.series import Series
from latenttrack.evaluation.evaluate import evaluate
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.tracks import find_track
from latenttrack.fitted.fit import fit
from latenttrack.fitted.model import Model, builder, pool
from latenttrack.models.base import AbstractTracker, State, Terms, Window, partition, step
from latenttrack.models.components import AbstractComponents
from latenttrack.models.latent_track import LatentTrack
from latenttrack.models.panel import Panel
from latenttrack.models.predictive import Predictive
from latenttrack.models.ring import step_key
from latenttrack.models.stack import Stack, build_stack
from latenttrack.models.task import Task
from latenttrack.models.use import in_use, innermost
from latenttrack.training.fit import Seen, see_series, train
from latenttrack.training.settings import Training


@dataclass(frozen=True)
class Base:
    """What a change is compared with.

    Attributes:
        track: its name.
        data_dir: where datasets are.
        model: as it was chosen and trained.
        training: how.
        prepared: what it was trained on, prepared by its pipeline.
        past: the same as it was loaded.
        future: what is predicted, as it was loaded.
        seeds: how many.
    """

    track: str
    data_dir: Path | None
    model: Model
    training: Training
    prepared: Series
    past: Series
    future: Series
    seeds: int

    def judge(self, model: Model) -> Records:
        """Another model on the same part."""
        return evaluate(model, self.future, past=self.past)

    def train(self, series: Series, seen: Seen) -> Model:
        """The same network, trained on other windows."""
        model, task = self.model, Task.of(series)
        trained = train(
            builder(model.name, task, self.single(series)),
            series,
            self.training,
            jax.random.key(0),
            seeds=self.seeds,
            pool=model.settings.get("pool"),
            seen=seen,
        )
        return replace(model, task=task, stack=trained.stack, programs={})

    def single(self, series: Series) -> dict[str, Any]:
        """The settings without a pool; inputs that are new in a series are shown to every network."""
        settings = {name: value for name, value in self.model.settings.items() if name != "pool"}
        new = [name for name in series.names if name not in self.prepared.names]
        for sight in ("shown", "second_shown"):
            if settings.get(sight) is not None:
                settings[sight] = [*settings[sight], *new]
        return settings


# Particles


class ParticleState(NamedTuple):
    """The memory, and K trajectories of the latent: newest z, weights, last D emissions."""

    memory: State
    z: Float[Array, "K dz"]
    log_weights: Float[Array, " K"]
    emissions: AbstractComponents  # leaves [D, K], oldest first
    steps: UInt32[Array, ""]


class Particles(AbstractTracker):
    """A trained LatentTrack with a Markov latent as a bootstrap particle filter.

    z_t^k ~ p(z_t | z_{t-1}^k, h_t);  w_k <- w_k p(y_s | x_s, z_s^k) when the label of step s is due; drawn
    anew, in proportion to their weights, when 1 / sum w^2 < K / 2. The model itself draws z_{t-1} from
    q(z_{t-1} | h_t) at every step instead, and weighs all draws alike.
    """

    inner: LatentTrack
    delay: int = eqx.field(static=True)

    def init(self) -> ParticleState:
        """From q(z | h_0), all alike."""
        memory = self.inner.memory.init()
        eps = self._noise(jnp.zeros((), jnp.uint32))
        z = self.inner.posterior(self.inner.memory.read(memory)).at(eps)
        now = self._emit(z, jnp.zeros(self.inner.hypernetwork.layers[0].base_weight.shape[1]))
        emissions = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.delay, *leaf.shape)), now)
        return ParticleState(memory, z, jnp.zeros(z.shape[0]), emissions, jnp.zeros((), jnp.uint32))

    def update(self, state: ParticleState, x: Float[Array, " F"], y: Float[Array, ""]) -> ParticleState:
        """Weigh the trajectories by what they said of this label."""
        said = jax.tree.map(lambda leaf: leaf[0], state.emissions)
        # A head with several distributions for each draw gives them one kind after another.
        each = said.log_prob(y).reshape(-1, state.z.shape[0])
        known = state.steps >= self.delay
        log_weights = state.log_weights + jnp.where(known, logsumexp(each, axis=0), 0.0)
        return state._replace(
            memory=self.inner.memory.update(state.memory, x, y), log_weights=jax.nn.log_softmax(log_weights)
        )

    def advance(self, state: ParticleState, x: Float[Array, " F"]) -> ParticleState:
        """Draw anew if few count; then every trajectory takes a step."""
        K = state.z.shape[0]
        memory = self.inner.memory.advance(state.memory, x)
        weights = jax.nn.softmax(state.log_weights)
        start = jax.random.uniform(jax.random.fold_in(step_key(state.steps), 1))
        drawn = jnp.searchsorted(jnp.cumsum(weights), (start + jnp.arange(K)) / K).clip(0, K - 1)
        few = 1.0 / jnp.sum(weights**2) < K / 2
        who = jnp.where(few, drawn, jnp.arange(K))
        log_weights = jnp.where(few, jnp.zeros(K), state.log_weights)
        h = self.inner.memory.read(memory)
        z = self.inner.transition(h, state.z[who]).at(self._noise(state.steps + 1))
        emissions = jax.tree.map(
            lambda past, now: jnp.concatenate([_pick(past, who)[1:], now[None]]),
            state.emissions,
            self._emit(z, x),
        )
        return ParticleState(memory, z, log_weights, emissions, state.steps + 1)

    def predict(self, state: ParticleState, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The mixture of the trajectories' emissions, by their weights."""
        del key
        emission = self._emit(state.z, x)
        kinds = emission.loc.shape[0] // state.z.shape[0]
        weights = jnp.tile(jax.nn.log_softmax(state.log_weights), kinds) - jnp.log(kinds)
        return Predictive(emission, weights)

    def window_terms(self, state: ParticleState, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """Not trained as such."""
        raise NotImplementedError

    def _emit(self, z: Float[Array, "K dz"], x: Float[Array, " F"]) -> AbstractComponents:
        return self.inner.head(self.inner.hypernetwork(x, z))

    def _noise(self, steps: UInt32[Array, ""]) -> Float[Array, "K dz"]:
        """Fresh at every step: with the same points again trajectories would repeat themselves."""
        K, noise = self.inner.draws(step_key(steps)).shape
        return jax.random.normal(step_key(steps), (K, noise // 2))


def _pick(past: Float[Array, "D n"], who: Array) -> Float[Array, "D n"]:
    """Columns of the chosen trajectories; n is K for each kind of distribution."""
    K = who.shape[0]
    return past.reshape(past.shape[0], -1, K)[:, :, who].reshape(past.shape)


def as_particles(model: Model) -> Model:
    """A fitted lt-structured as a particle filter, with the same weights."""
    seeds = [model.stack[i] for i in range(len(model.stack))]
    swapped = [partition(eqx.tree_at(innermost, one, _replaced(innermost(one), model.task))) for one in seeds]
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(params for params, _ in swapped))
    return replace(model, stack=Stack(params, swapped[0][1], len(seeds)), programs={})


def _replaced(network: Any, task: Task) -> AbstractTracker:
    if isinstance(network, Panel):
        return eqx.tree_at(lambda t: t.members, network, tuple(_replaced(m, task) for m in network.members))
    return Particles(network, task.delay)


def particles(base: Base, settings: dict[str, Any], training: Training) -> Records:
    """The Markov latent, trained as it is, then used as a particle filter."""
    single = {name: value for name, value in settings.items() if name != "pool"}
    model = fit(
        "lt-structured",
        base.prepared,
        seeds=base.seeds,
        training=training,
        settings=single,
        pipeline=base.model.pipeline,
    )
    return base.judge(as_particles(model))


# Distillation


def distilled(base: Base) -> Records:
    """The same network, half of whose labels are drawn from the forecasts of all seeds, pooled."""
    seen = see_series(base.prepared, base.training, base.model.stack[0])
    teacher = in_use(innermost((pool(base.model) if base.seeds > 1 else base.model).stack[0]))

    def draw(piece: Window, key: PRNGKeyArray) -> Array:
        def body(state: State, row: tuple[Window, PRNGKeyArray]) -> tuple[State, Array]:
            window, key = row
            forecast, state = step(teacher, state, window.due, window.x, key)
            return state, forecast.sample(key)

        keys = jax.random.split(key, piece.y.shape[0])
        return jax.lax.scan(body, teacher.init(), (piece, keys))[1]

    data = jax.tree.map(jnp.asarray, seen.data)
    labels = jax.jit(jax.vmap(draw))(data, jax.random.split(jax.random.key(1), data.y.shape[0]))
    both = _together(seen.data, seen.data._replace(y=np.asarray(labels)))
    return base.judge(base.train(base.prepared, seen._replace(data=both)))


# Protocols


def two_protocols(base: Base) -> Records:
    """One network for the next hour and for six hours ahead; judged at the one of the track."""
    ends = ("next-hour", "six-hours")
    own = next(end for end in ends if base.track.endswith(end))
    track = find_track(base.track.removesuffix(own) + next(end for end in ends if end != own))
    other = track.load(base.data_dir).split(track.fraction)[0].split(55 / 70)[0]
    pipeline = base.model.pipeline
    assert pipeline is not None
    prepared = replace(pipeline.transform(other), period=base.model.task.period)
    first, second = _marked(base.prepared, 0.0), _marked(prepared, 1.0)
    seen = [
        see_series(one, base.training, _drawn(builder(base.model.name, Task.of(one), base.single(one))))
        for one in (first, second)
    ]
    both = _together(seen[0].data, seen[1].data)
    model = replace(base.train(first, seen[0]._replace(data=both)), pipeline=None)
    future = pipeline.transform(base.future, history=base.past)
    return evaluate(model, _marked(future, 0.0), past=_marked(pipeline.transform(base.past), 0.0))


def _marked(series: Series, value: float) -> Series:
    """With one more input, that says which protocol it is."""
    column = np.full((len(series), 1), value)
    return replace(series, x=np.hstack([series.x, column]), names=(*series.names, "protocol"))


def _drawn(build: Any) -> AbstractTracker:
    return build_stack(build, jax.random.split(jax.random.key(0), 1))[0]


def _together(first: Window, second: Window) -> Window:
    """Pieces of both, side by side; as long as the shorter ones."""
    steps = min(first.y.shape[1], second.y.shape[1])
    pairs = zip(first, second, strict=True)
    return Window(*(np.concatenate([np.asarray(a)[:, :steps], np.asarray(b)[:, :steps]]) for a, b in pairs))
