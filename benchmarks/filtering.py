"""Filtering speed: the compiled scan with K = 100 on one stream against eager PyTorch.

`contraction` never writes the 100 weight sets out; `plain` does (`Hypernetwork.plain`). Sobol draws are fixed
points, independent draws make 100 x 16 fresh normals a step. Both sides predict, score and update one step
at a time.
"""

import equinox as eqx
import jax
from measuring import Repetition, Row, TorchPeer, alternate, faster, parse, series, show, timed, untrained

from latenttrack.data.series import Series
from latenttrack.filtering.offline import filter_series
from latenttrack.models.hypernetwork import Hypernetwork
from latenttrack.models.stack import Stack

UNIT = "a step"


class PlainHypernetwork(Hypernetwork):
    """Writes every weight set out."""

    def __init__(self, other: Hypernetwork):
        for name, value in vars(other).items():
            setattr(self, name, value)

    def __call__(self, x: jax.Array, z: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """[K, out] by K networks of their own."""
        return jax.vmap(lambda latent: self.plain(x, latent))(z)


def plain(stack: Stack) -> Stack:
    """The same stack with the hypernetwork evaluated the plain way."""
    return Stack(
        *(
            eqx.tree_at(lambda tree: tree.hypernetwork, part, replace_fn=PlainHypernetwork)
            for part in (stack.params, stack.rest)
        ),
        stack.count,
    )


def repetition(stack: Stack, data: Series) -> Repetition:
    """Seconds per step of the offline filter."""
    return timed(lambda: filter_series(stack, data, jax.random.key(1)), len(data))


def rows(*, quick: bool, torch: TorchPeer) -> list[Row]:
    data = series(4_000 if quick else 20_000)
    sobol, independent = untrained("sobol"), untrained("independent")
    sides = {
        "sobol": repetition(sobol, data),
        "independent": repetition(independent, data),
        "sobol, plain": repetition(plain(sobol), data),
        "independent, plain": repetition(plain(independent), data),
        "32 points": repetition(untrained("sobol", K=32), data),
        "torch": torch.task("filter", 500 if quick else 2_000),
    }
    s = alternate(sides, 5 if quick else 15)
    return [
        faster("filter, K = 100 Sobol / eager PyTorch", s["sobol"], s["torch"], UNIT, 10),
        faster("filter, K = 100 independent / eager PyTorch", s["independent"], s["torch"], UNIT),
        faster("filter, contraction / plain, Sobol", s["sobol"], s["sobol, plain"], UNIT),
        faster("filter, contraction / plain, independent", s["independent"], s["independent, plain"], UNIT),
        faster("filter, Sobol / independent draws", s["sobol"], s["independent"], UNIT),
        faster("filter, K = 32 Sobol / K = 100 independent", s["32 points"], s["independent"], UNIT),
    ]


if __name__ == "__main__":
    options = parse(__doc__)
    with TorchPeer(options.torch_python) as peer:
        show(rows(quick=options.quick, torch=peer), markdown=options.markdown)
