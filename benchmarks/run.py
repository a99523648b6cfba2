"""Every benchmark, one table; the exit code is 1 if a requirement is missed."""

import sys

import constant_cost
import filtering
import same_model
import seeds
import training
from measuring import Row, TorchPeer, parse, show


def rows(*, quick: bool, torch: TorchPeer) -> list[Row]:
    return [
        *constant_cost.rows(quick=quick),  # first: it looks at the peak memory of this process
        *same_model.rows(torch=torch),
        *training.rows(quick=quick, torch=torch),
        *filtering.rows(quick=quick, torch=torch),
        *seeds.rows(quick=quick),
    ]


if __name__ == "__main__":
    options = parse(__doc__)
    with TorchPeer(options.torch_python) as peer:
        results = rows(quick=options.quick, torch=peer)
    show(results, markdown=options.markdown)
    sys.exit(any(row.reached is False for row in results))
