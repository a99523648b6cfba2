"""Plain files: models and snapshots on disk, whole or not at all, and no code inside them."""

from latenttrack.store.atomic import open_atomic, write_bytes
from latenttrack.store.tensors import Stored, read_any, read_tensors, write_tensors

__all__ = ["Stored", "open_atomic", "read_any", "read_tensors", "write_bytes", "write_tensors"]
