"""Training speed: `train` with 25 seeds, together and one after another, against the same model in PyTorch.

The paper's settings: chunks of 256 steps, recency 0.9, Adam 1e-4, clip 1, K = 1. All sides are quoted as
seconds for one epoch of 49,064 steps and one seed; each repetition covers fewer steps and is scaled by their
number.
"""

from measuring import Epochs, Row, TorchPeer, alternate, faster, parse, series, show
from stream import STEPS

from latenttrack.training.settings import Training

UNIT = "a seed-epoch"


def rows(*, quick: bool, torch: TorchPeer) -> list[Row]:
    rounds = 3 if quick else 7
    data = series(256 * (16 if quick else 64))
    settings = Training(epochs=rounds + 1)
    sides = {
        "vmapped": Epochs(data, settings, seeds=25, together=True),
        "one after another": Epochs(data, settings, seeds=5 if quick else 25, together=False),
        "torch": torch.task("vectorised", 8 if quick else 32),
        "torch loop": torch.task("loop", 1 if quick else 4),
    }
    seconds = alternate(sides, rounds)
    ours = {name: seconds[name] * STEPS / len(data) for name in ("vmapped", "one after another")}
    peer = {name: seconds[name] * STEPS for name in ("torch", "torch loop")}
    return [
        faster("train, 25 seeds / vectorised PyTorch", ours["vmapped"], peer["torch"], UNIT, 10),
        faster("train, 25 seeds / PyTorch step by step", ours["vmapped"], peer["torch loop"], UNIT, 100),
        faster("train, one seed / vectorised PyTorch", ours["one after another"], peer["torch"], UNIT),
        faster("train, one seed / PyTorch step by step", ours["one after another"], peer["torch loop"], UNIT),
    ]


if __name__ == "__main__":
    options = parse(__doc__)
    with TorchPeer(options.torch_python) as peer:
        show(rows(quick=options.quick, torch=peer), markdown=options.markdown)
