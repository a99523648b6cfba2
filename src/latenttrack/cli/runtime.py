"""What commands that compute have in common: a cache of compiled programs, and progress on the terminal."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from latenttrack.data.cache import cache_directory


def cache_compiled_programs() -> None:
    """Keep compiled programs between runs: the second start of a command needs no compilation."""
    import jax

    # Where nothing can be kept, or what was kept is broken, programs are compiled again: no news to the user.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
    jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


class Bars:
    """Two progress bars: the models, and the epochs of the one at work. In a pipe, one line a model."""

    def __init__(self, progress: Progress, models: int):
        self._progress = progress
        self._models: TaskID = progress.add_task("models", total=models)
        self._epochs: TaskID = progress.add_task("", total=1, visible=False)

    def begin(self, model: str, epochs: int) -> None:
        """A model starts; without epochs it has nothing to train."""
        self._progress.update(self._models, description=model)
        self._progress.reset(self._epochs, total=max(epochs, 1), visible=epochs > 0, description="training")

    def epoch(self, done: int, epochs: int, detail: str) -> None:
        """So many of the epochs of a trial, or of training, are done."""
        self._progress.update(self._epochs, completed=done, total=epochs, description=detail)

    def say(self, what: str) -> None:
        """The model is past its training."""
        self._progress.update(self._epochs, description=what)

    def end(self, line: str) -> None:
        """The model is done; `line` stays on the screen."""
        self._progress.update(self._epochs, visible=False)
        self._progress.advance(self._models)
        self.note(line)

    def note(self, line: str) -> None:
        """A line that stays on the screen."""
        self._progress.console.print(line, highlight=False)


@contextmanager
def bars(models: int) -> Iterator[Bars]:
    """Progress on standard error, so that standard output holds results only."""
    with Progress(
        TextColumn("[bold]{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        yield Bars(progress, models)
