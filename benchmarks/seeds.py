"""Seeds side by side (`vmap`) or one after another: which is faster depends on how wide one update is.

`train` decides by the number of parallel sequences: `_WIDE_ENOUGH` in training/fit.py, which this justifies.
"""

from measuring import Epochs, Row, alternate, faster, parse, series, show

from latenttrack.training.settings import Training

SEEDS = 5
WIDTHS = (1, 4, 8, 16, 32)


def rows(*, quick: bool) -> list[Row]:
    return [_row(width, quick=quick) for width in WIDTHS]


def wide_enough(results: list[Row]) -> str:
    """The least width from which on seeds one after another are faster."""
    slower = [width for width, row in zip(WIDTHS, results, strict=True) if row.ratio >= 1.0]
    later = [width for width in WIDTHS if not slower or width > slower[-1]]
    return str(later[0]) if later else f"more than {WIDTHS[-1]}"


def _row(width: int, *, quick: bool) -> Row:
    rounds, windows = (3, 4) if quick else (7, 16)
    data = series(256 * windows * width)
    settings = Training(epochs=rounds + 1, sequences=width)
    seconds = alternate(
        {
            "together": Epochs(data, settings, seeds=SEEDS, together=True),
            "apart": Epochs(data, settings, seeds=SEEDS, together=False),
        },
        rounds,
    )
    scale = 1.0 / (windows * width)
    name = f"{SEEDS} seeds together / one after another, {width} sequences"
    return faster(name, seconds["together"] * scale, seconds["apart"] * scale, "a window")


if __name__ == "__main__":
    options = parse(__doc__)
    results = rows(quick=options.quick)
    show(results, markdown=options.markdown)
    print(f"\n_WIDE_ENOUGH on this machine: {wide_enough(results)}")
