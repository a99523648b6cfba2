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
    """Progress bars: the models, and the epochs of each one at work. In a pipe, one line a model."""

    def __init__(self, progress: Progress, models: int):
        self._progress = progress
        self._models: TaskID = progress.add_task("models", total=models)

    @contextmanager
    def model(self, name: str) -> Iterator["ModelBar"]:
        """The bar of one model, while it is at work; several may be, in threads of their own."""
        task = self._progress.add_task(name, total=1)
        yield ModelBar(self._progress, task, name)
        self._progress.remove_task(task)
        self._progress.advance(self._models)

    def note(self, line: str) -> None:
        """A line that stays on the screen."""
        self._progress.console.print(line, highlight=False)


class ModelBar:
    """The bar of one model."""

    def __init__(self, progress: Progress, task: TaskID, name: str):
        self._progress, self._task, self._name = progress, task, name

    def epoch(self, done: int, epochs: int) -> None:
        """So many epochs of a trial, or of training, are done."""
        self._progress.update(self._task, completed=done, total=epochs)

    def say(self, what: str) -> None:
        """What it does now."""
        self._progress.update(self._task, description=f"{self._name}, {what}")


@contextmanager
def bars(models: int) -> Iterator[Bars]:
    """Progress on standard error, so that standard output holds results only."""
    with Progress(
        TextColumn("[bold]{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        yield Bars(progress, models)
