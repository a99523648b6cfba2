"""Streams by name."""

from latenttrack.data.embedded import airports
from latenttrack.data.matching import unknown_name
from latenttrack.data.series import Series
from latenttrack.data.synthetic import STREAMS


def load_stream(name: str) -> Series:
    """Load a stream that comes with the package.

    Args:
        name: `airports` (real), or `drift`, `switch`, `heavy-tails`, `faults` (synthetic; `STREAMS` gives
            them with their truth).

    Returns:
        The whole stream, before features and before any cut.
    """
    if name == "airports":
        return airports()
    if name not in STREAMS:
        raise unknown_name("stream", name, ["airports", *STREAMS])
    return STREAMS[name]().series
