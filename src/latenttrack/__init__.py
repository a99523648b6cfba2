"""Online probabilistic prediction on streams that drift: filtering in function space.

Every public name is imported when it is first used, so that `import latenttrack` is instant and needs
neither jax nor numpy. No room imports this module: it stands above all of them.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from latenttrack.errors import LatentTrackError

if TYPE_CHECKING:
    # For type checkers and editors, which cannot follow the lookup below.
    from latenttrack.data import Series as Series
    from latenttrack.data import load_stream as load_stream
    from latenttrack.data import prepare as prepare
    from latenttrack.data import read_table as read_table
    from latenttrack.data import to_series as to_series
    from latenttrack.evaluation.evaluate import evaluate as evaluate
    from latenttrack.evaluation.records import Records as Records
    from latenttrack.evaluation.records import summarise as summarise
    from latenttrack.fitted.fit import fit as fit
    from latenttrack.fitted.model import Model as Model
    from latenttrack.fitted.model import load as load
    from latenttrack.fitted.model import pool as pool
    from latenttrack.fitted.stream import Stream as Stream
    from latenttrack.fitted.stream import resume as resume
    from latenttrack.training.settings import Training as Training

__version__: str

_ROOM_OF = {
    "Series": "latenttrack.data",
    "load_stream": "latenttrack.data",
    "prepare": "latenttrack.data",
    "read_table": "latenttrack.data",
    "to_series": "latenttrack.data",
    "Training": "latenttrack.training.settings",
    "Model": "latenttrack.fitted.model",
    "fit": "latenttrack.fitted.fit",
    "load": "latenttrack.fitted.model",
    "pool": "latenttrack.fitted.model",
    "Stream": "latenttrack.fitted.stream",
    "resume": "latenttrack.fitted.stream",
    "evaluate": "latenttrack.evaluation.evaluate",
    "Records": "latenttrack.evaluation.records",
    "summarise": "latenttrack.evaluation.records",
}

__all__ = ["LatentTrackError", "__version__", *_ROOM_OF]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = metadata.version("latenttrack")
    elif name in _ROOM_OF:
        value = getattr(import_module(_ROOM_OF[name]), name)
    else:
        raise AttributeError(f"module 'latenttrack' has no attribute {name!r}")
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
