"""Streams by name."""

from latenttrack.data.embedded import airports
from latenttrack.data.matching import unknown_name
from latenttrack.data.series import Series
from latenttrack.data.synthetic import STREAMS, Synthetic


def load_stream(name: str) -> Series | Synthetic:
    """Load a stream that comes with the package.

    Args:
        name: `airports` (real), or `drift`, `switch`, `heavy-tails`, `faults` (synthetic, truth known).

    Returns:
        The real stream as a `Series`, a synthetic one with its truth.
    """
    if name == "airports":
        return airports()
    if name not in STREAMS:
        raise unknown_name("stream", name, ["airports", *STREAMS])
    return STREAMS[name]()
