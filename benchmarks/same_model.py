"""Is the PyTorch peer the same model? Its losses, gradients and scores with our weights and draws."""

import tempfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from measuring import Row, TorchPeer, parse, series, show, untrained

from latenttrack.filtering.offline import filter_series
from latenttrack.models.base import AbstractTracker
from latenttrack.models.draws import Sobol
from latenttrack.models.hypernetwork import GeneratedLinear
from latenttrack.models.latent_track import LatentTrack
from latenttrack.models.layout import lay_out
from latenttrack.models.stack import Stack
from latenttrack.models.use import innermost
from latenttrack.training.credit import recency

STEPS = 256
TOLERANCE = 1e-4  # single precision through 256 recurrent steps


def rows(*, torch: TorchPeer) -> list[Row]:
    stack = untrained("sobol")
    data = series(STEPS)
    tracker = fix_draws(stack[0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        eps = np.repeat(np.asarray(tracker.train_draws.points.value), STEPS, axis=0)
        points = np.asarray(tracker.draws.points.value)
        x, y = data.x.astype(np.float32), data.y.astype(np.float32)
        np.savez(path, x=x, y=y, eps=eps, points=points, **state_dict(tracker))
        theirs = torch.ask(task="check", path=str(path))
    loss, norm = loss_and_norm(stack)
    scores = filter_series(stack, data, jax.random.key(0)).log_prob[0]
    return [
        equal("loss of a window, vectorised", loss, theirs["vectorised"][0]),
        equal("gradient norm, vectorised", norm, theirs["vectorised"][1]),
        equal("loss of a window, step by step", loss, theirs["loop"][0]),
        equal("gradient norm, step by step", norm, theirs["loop"][1]),
        equal("filter, log-likelihood of 256 steps", float(scores.sum()), sum(theirs["filter"])),
    ]


def fix_draws(tracker: LatentTrack) -> LatentTrack:
    """The tracker with the same latent noise in every training step."""
    noise = tracker.draws.points.value.shape[1]
    return eqx.tree_at(lambda t: t.train_draws, tracker, Sobol(1, noise))


def loss_and_norm(stack: Stack) -> tuple[float, float]:
    """The recency-weighted ELBO loss of the first window (beta = 1), and the norm of its gradient."""
    window, _ = lay_out(series(STEPS))
    window = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), window)
    weights = recency(STEPS, 0.9)

    def loss(params: LatentTrack) -> jax.Array:
        tracker = fix_draws(eqx.combine(params, stack.rest))
        terms, _ = tracker.window_terms(tracker.init(), window, jax.random.key(0))
        return -jnp.sum(weights * (terms.log_likelihood - terms.kl)) / jnp.sum(weights)

    params = jax.tree.map(lambda leaf: leaf[0], stack.params)
    value, gradient = jax.jit(jax.value_and_grad(loss))(params)
    squares = [float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradient)]
    return float(value), sum(squares) ** 0.5


def state_dict(tracker: LatentTrack) -> dict[str, np.ndarray]:
    """Our weights under PyTorch's names."""
    first, second = tracker.memory.encoder.layers
    gru, hyper = tracker.memory.summariser, tracker.hypernetwork
    linear = {
        "encoder.0": first,
        "encoder.2": second,
        "posterior": tracker.posterior.linear,
        "transition": tracker.prior.linear,
        "basis": hyper.features,
    }
    state = {f"{name}.weight": layer.weight for name, layer in linear.items()}
    state |= {f"{name}.bias": layer.bias for name, layer in linear.items()}
    state |= {"gru.weight_ih_l0": gru.input.weight, "gru.bias_ih_l0": gru.input.bias}
    state |= {"gru.weight_hh_l0": gru.recurrent}
    state |= {"gru.bias_hh_l0": jnp.concatenate([jnp.zeros(2 * gru.size), gru.new_bias])}
    state |= {"weights.weight": jnp.concatenate([_generator(layer) for layer in hyper.layers])}
    bases = [leaf.ravel() for layer in hyper.layers for leaf in (layer.base_weight, layer.base_bias)]
    state |= {"weights.bias": jnp.concatenate(bases)}
    return {name: np.asarray(leaf) for name, leaf in state.items()}


def preset_dict(tracker: AbstractTracker) -> dict[str, np.ndarray]:
    """The weights of a `latent-track` with all its parts, under the names of torch_preset.py."""
    network = innermost(tracker)
    first, second = network.memory.encoder.layers
    gru, hyper = network.memory.summariser, network.hypernetwork
    linear = {"encoder.0": first, "encoder.1": second, "prior": network.prior.linear, "basis": hyper.features}
    generated = {"first": hyper.layers[0], "second": hyper.layers[1], "skip": hyper.skip}
    state = {f"{name}.weight": layer.weight for name, layer in linear.items()}
    state |= {f"{name}.bias": layer.bias for name, layer in linear.items()}
    state |= {f"{name}.base": layer.base_weight for name, layer in generated.items()}
    state |= {f"{name}.base_bias": layer.base_bias for name, layer in generated.items()}
    state |= {f"{name}.weight": layer.gain.value * layer.weight for name, layer in generated.items()}
    state |= {f"{name}.bias": layer.bias for name, layer in generated.items()}
    state |= {"gru.weight_ih": gru.input.weight, "gru.bias_ih": gru.input.bias}
    state |= {"gru.weight_hh": gru.recurrent}
    state |= {"gru.bias_hh": jnp.concatenate([jnp.zeros(2 * gru.size), gru.new_bias])}
    state |= {"points": network.draws.points.value, "df": network.head(jnp.zeros((1, 2))).df}
    return {name: np.asarray(leaf) for name, leaf in state.items()}


def _generator(layer: GeneratedLinear) -> jax.Array:
    """[weights and biases of the layer, features]."""
    features = layer.weight.shape[0]
    return jnp.concatenate([layer.weight.reshape(features, -1), layer.bias], axis=1).T


def equal(what: str, ours: float, peer: float) -> Row:
    """A row for two numbers that must be the same."""
    ratio = ours / peer
    return Row(what, f"{ours:.6g}", f"{peer:.6g}", ratio, f"1 +- {TOLERANCE:g}", abs(ratio - 1) <= TOLERANCE)


if __name__ == "__main__":
    options = parse(__doc__)
    with TorchPeer(options.torch_python) as peer:
        show(rows(torch=peer), markdown=options.markdown)
