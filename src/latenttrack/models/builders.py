"""One builder for each model: from a task, a key and a few sizes to a tracker.

The keyword arguments of a builder are its settings; their defaults are the paper's sizes (about 20k
parameters at 13 inputs) with bounded activations and fixed quasi-random draws.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from latenttrack.data.matching import choose
from latenttrack.models.base import make_dropout
from latenttrack.models.deterministic import DeterministicTrack, PlainRecurrent
from latenttrack.models.draws import Independent, make_draws
from latenttrack.models.dssm import DSSM
from latenttrack.models.gaussian import GaussianLayer
from latenttrack.models.heads import HEADS
from latenttrack.models.hypernetwork import Activation, Hypernetwork
from latenttrack.models.latent_track import LatentTrack
from latenttrack.models.memory import AbstractMemory, Paired, Prompt, extra_inputs
from latenttrack.models.noise import AbstractNoise, GaussianNoise, StudentTNoise
from latenttrack.models.references import RLS, Repeat, SeasonalDifference
from latenttrack.models.static import BayesByBackprop, DeepEnsemble, MCDropout
from latenttrack.models.summarisers import SUMMARISERS
from latenttrack.models.task import Task
from latenttrack.models.vrnn import VRNN

ACTIVATIONS: dict[str, Activation] = {"tanh": jnp.tanh, "relu": jax.nn.relu, "silu": jax.nn.silu}


def latent_track(
    task: Task,
    key: PRNGKeyArray,
    *,
    structured: bool,
    hidden_size: int = 64,
    latent_size: int = 8,
    encoder_size: int = 16,
    features: int = 16,
    generator_gain: float = 1.0,
    predictor: tuple[int, ...] = (8,),
    summariser: str = "gru",
    head: str = "gaussian",
    activation: str = "tanh",
    skip: bool = False,
    prompt: bool = False,
    summary_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
    prior_log_sd: float = -1.0,
    draws: str = "sobol",
    K: int = 32,
    train_K: int = 1,
) -> LatentTrack:
    """LatentTrack; `structured` chooses the Markov transition."""
    act = choose("activation", activation, ACTIVATIONS)
    k_enc, k_sum, k_q, k_p, k_g = jax.random.split(key, 5)
    emission = choose("head", head, HEADS)()
    noise = 2 * latent_size if structured else latent_size
    return LatentTrack(
        memory=_memory(task, (k_enc, k_sum), act, encoder_size, summariser, hidden_size, prompt),
        posterior=GaussianLayer(hidden_size, latent_size, log_sd=prior_log_sd, key=k_q),
        prior=GaussianLayer(
            hidden_size + latent_size * structured, latent_size, log_sd=prior_log_sd, key=k_p
        ),
        hypernetwork=Hypernetwork(
            latent_size,
            (task.size, *predictor, emission.size),
            features=features,
            activation=act,
            skip=skip,
            dropout=hidden_dropout,
            gain=generator_gain,
            key=k_g,
        ),
        head=emission,
        draws=make_draws(draws, K, noise),
        train_draws=Independent(train_K, noise),
        summary_dropout=make_dropout(summary_dropout),
        structured=structured,
    )


def deterministic_track(
    task: Task,
    key: PRNGKeyArray,
    *,
    hidden_size: int = 64,
    latent_size: int = 8,
    encoder_size: int = 16,
    features: int = 24,
    generator_gain: float = 1.0,
    predictor: tuple[int, ...] = (8,),
    summariser: str = "gru",
    head: str = "gaussian",
    activation: str = "tanh",
    skip: bool = False,
    prompt: bool = False,
    summary_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
) -> DeterministicTrack:
    """LatentTrack, unstructured, with the prior's mean for z and no distribution."""
    act = choose("activation", activation, ACTIVATIONS)
    k_enc, k_sum, k_z, k_g = jax.random.split(key, 4)
    emission = choose("head", head, HEADS)()
    return DeterministicTrack(
        memory=_memory(task, (k_enc, k_sum), act, encoder_size, summariser, hidden_size, prompt),
        mean=eqx.nn.Linear(hidden_size, latent_size, key=k_z),
        hypernetwork=Hypernetwork(
            latent_size,
            (task.size, *predictor, emission.size),
            features=features,
            activation=act,
            skip=skip,
            dropout=hidden_dropout,
            gain=generator_gain,
            key=k_g,
        ),
        head=emission,
        summary_dropout=make_dropout(summary_dropout),
    )


def plain_recurrent(
    task: Task,
    key: PRNGKeyArray,
    *,
    hidden_size: int = 64,
    encoder_size: int = 16,
    predictor: tuple[int, ...] = (52,),
    summariser: str = "gru",
    head: str = "gaussian",
    activation: str = "tanh",
    skip: bool = False,
    prompt: bool = False,
    summary_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
) -> PlainRecurrent:
    """LatentTrack's memory, and an ordinary network on [h, x]."""
    act = choose("activation", activation, ACTIVATIONS)
    k_enc, k_sum, k_f, k_skip = jax.random.split(key, 4)
    emission = choose("head", head, HEADS)()
    return PlainRecurrent(
        memory=_memory(task, (k_enc, k_sum), act, encoder_size, summariser, hidden_size, prompt),
        layers=_stack((hidden_size + task.size, *predictor, emission.size), k_f),
        skip=eqx.nn.Linear(task.size, 1, key=k_skip) if skip else None,
        head=emission,
        summary_dropout=make_dropout(summary_dropout),
        hidden_dropout=make_dropout(hidden_dropout),
        activation=act,
    )


def vrnn(
    task: Task,
    key: PRNGKeyArray,
    *,
    hidden_size: int = 64,
    latent_size: int = 8,
    input_size: int = 8,
    features: int = 16,
    decoder_size: int = 24,
    summariser: str = "gru",
    head: str = "gaussian",
    activation: str = "tanh",
    draws: str = "sobol",
    K: int = 32,
    train_K: int = 1,
) -> VRNN:
    """VRNN; the latent enters the recurrence."""
    act = choose("activation", activation, ACTIVATIONS)
    k_x, k_z, k_sum, k_pf, k_p, k_qf, k_q, k_d = jax.random.split(key, 8)
    emission = choose("head", head, HEADS)()
    return VRNN(
        phi_x=eqx.nn.Linear(task.size, input_size, key=k_x),
        phi_z=eqx.nn.Linear(latent_size, input_size, key=k_z),
        summariser=choose("summariser", summariser, SUMMARISERS)(2 * input_size, hidden_size, key=k_sum),
        prior_features=_layer(hidden_size, features, act, k_pf),
        prior=GaussianLayer(features, latent_size, key=k_p),
        posterior_features=_layer(hidden_size + task.size + 1, features, act, k_qf),
        posterior=GaussianLayer(features, latent_size, key=k_q),
        decoder=eqx.nn.MLP(
            hidden_size + latent_size + task.size, emission.size, decoder_size, 1, act, key=k_d
        ),
        head=emission,
        draws=make_draws(draws, K, latent_size),
        train_draws=Independent(train_K, latent_size),
    )


def dssm(
    task: Task,
    key: PRNGKeyArray,
    *,
    hidden_size: int = 64,
    latent_size: int = 8,
    encoder_size: int = 16,
    features: int = 16,
    decoder_size: int = 36,
    summariser: str = "gru",
    head: str = "gaussian",
    activation: str = "tanh",
    draws: str = "sobol",
    K: int = 32,
    train_K: int = 1,
) -> DSSM:
    """DSSM; the decoder reads h_{t-1}."""
    act = choose("activation", activation, ACTIVATIONS)
    k_e, k_sum, k_pf, k_p, k_qf, k_q, k_d = jax.random.split(key, 7)
    emission = choose("head", head, HEADS)()
    return DSSM(
        encoder=_layer(task.size + 1, encoder_size, act, k_e),
        summariser=choose("summariser", summariser, SUMMARISERS)(encoder_size, hidden_size, key=k_sum),
        prior_features=_layer(hidden_size, features, act, k_pf),
        prior=GaussianLayer(features, latent_size, key=k_p),
        posterior_features=_layer(hidden_size + encoder_size, features, act, k_qf),
        posterior=GaussianLayer(features, latent_size, key=k_q),
        decoder=eqx.nn.MLP(
            hidden_size + latent_size + task.size, emission.size, decoder_size, 1, act, key=k_d
        ),
        head=emission,
        draws=make_draws(draws, K, latent_size),
        train_draws=Independent(train_K, latent_size),
    )


def mc_dropout(
    task: Task,
    key: PRNGKeyArray,
    *,
    hidden: tuple[int, ...] = (130, 130),
    rate: float = 0.1,
    head: str = "gaussian",
    activation: str = "tanh",
    draws: str = "sobol",
    K: int = 32,
    train_K: int = 1,
) -> MCDropout:
    """An MLP with dropout that stays on."""
    emission = choose("head", head, HEADS)()
    units = sum(hidden)
    return MCDropout(
        layers=_stack((task.size, *hidden, emission.size), key),
        head=emission,
        draws=make_draws(draws, K, units),
        train_draws=Independent(train_K, units),
        rate=rate,
        activation=choose("activation", activation, ACTIVATIONS),
    )


def bayes_by_backprop(
    task: Task,
    key: PRNGKeyArray,
    *,
    hidden: tuple[int, ...] = (92, 92),
    initial_sd: float = 0.02,
    head: str = "gaussian",
    activation: str = "tanh",
    draws: str = "sobol",
    K: int = 32,
    train_K: int = 1,
) -> BayesByBackprop:
    """A Gaussian over every weight of an MLP."""
    emission = choose("head", head, HEADS)()
    sizes = (task.size, *hidden, emission.size)
    means = _stack(sizes, key)
    units = sum(sizes[1:])
    rho = math.log(math.expm1(initial_sd))
    return BayesByBackprop(
        means=means,
        rhos=jax.tree.map(lambda leaf: jnp.full_like(leaf, rho), means),
        head=emission,
        draws=make_draws(draws, K, units),
        train_draws=Independent(train_K, units),
        activation=choose("activation", activation, ACTIVATIONS),
    )


def deep_ensemble(
    task: Task,
    key: PRNGKeyArray,
    *,
    members: int = 10,
    hidden: tuple[int, ...] = (36, 36),
    head: str = "gaussian",
    activation: str = "tanh",
) -> DeepEnsemble:
    """Independent MLPs."""
    emission = choose("head", head, HEADS)()
    sizes = (task.size, *hidden, emission.size)
    return DeepEnsemble(
        members=eqx.filter_vmap(lambda k: _stack(sizes, k))(jax.random.split(key, members)),
        head=emission,
        draws=Independent(members, 0),
        train_draws=Independent(members, 0),
        activation=choose("activation", activation, ACTIVATIONS),
    )


def last_label(task: Task, key: PRNGKeyArray) -> Repeat:
    """Repeats the last label known."""
    del key
    return Repeat(StudentTNoise(), lag=task.delay, delay=task.delay)


def seasonal_naive(task: Task, key: PRNGKeyArray, *, period: int | None = None) -> Repeat:
    """Repeats the newest known label from the same place in the season; without a season, the last label."""
    del key
    season = period or task.period or task.delay
    return Repeat(StudentTNoise(), lag=_whole_seasons(season, task.delay), delay=task.delay)


def seasonal_difference(
    task: Task, key: PRNGKeyArray, *, weight: float = 0.6, period: int | None = None
) -> SeasonalDifference:
    """The last label plus `weight` times what followed a season ago; without a season, the last label."""
    del key
    season = period or task.period
    return SeasonalDifference(
        StudentTNoise(),
        lag=_whole_seasons(season or task.delay, task.delay),
        delay=task.delay,
        weight=weight if season else 0.0,
    )


def climatology(task: Task, key: PRNGKeyArray) -> RLS:
    """Online least squares on the clock alone: what this hour and season are usually like."""
    del key
    return RLS(StudentTNoise(rate=0.001), task.calendar, forgetting=1.0)


def rls(task: Task, key: PRNGKeyArray, *, forgetting: float = 0.98) -> RLS:
    """Online least squares on all inputs, Gaussian residuals."""
    return _rls(task, key, GaussianNoise(), forgetting)


def rls_t(task: Task, key: PRNGKeyArray, *, forgetting: float = 0.98) -> RLS:
    """Online least squares on all inputs, Student-t residuals."""
    return _rls(task, key, StudentTNoise(), forgetting)


def _rls(task: Task, key: PRNGKeyArray, noise: AbstractNoise, forgetting: float) -> RLS:
    del key
    return RLS(noise, tuple(range(task.size)), forgetting=forgetting)


def _whole_seasons(season: int, delay: int) -> int:
    """The least number of steps that is whole seasons and so far back that labels are known."""
    return season * math.ceil(delay / season)


def _memory(
    task: Task,
    keys: tuple[PRNGKeyArray, PRNGKeyArray],
    act: Activation,
    encoder_size: int,
    summariser: str,
    hidden_size: int,
    prompt: bool,
) -> AbstractMemory:
    """An encoder with one hidden layer, and a summariser."""
    inputs = task.size + extra_inputs(prompt)
    encoder = eqx.nn.MLP(inputs, encoder_size, encoder_size, 1, act, act, key=keys[0])
    recurrent = choose("summariser", summariser, SUMMARISERS)(encoder_size, hidden_size, key=keys[1])
    return Prompt(encoder, recurrent) if prompt else Paired(encoder, recurrent, task.delay)


def _layer(in_size: int, out_size: int, act: Activation, key: PRNGKeyArray) -> eqx.nn.MLP:
    """One linear layer and its activation."""
    return eqx.nn.MLP(in_size, out_size, out_size, 0, act, act, key=key)


def _stack(sizes: tuple[int, ...], key: PRNGKeyArray) -> tuple[eqx.nn.Linear, ...]:
    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True))
