"""What a trial of `latent-track` tries, and words for it; which are run: training/automatic.py."""

from typing import NamedTuple

from latenttrack.data.series import Series
from latenttrack.models.task import Task

SHORT = 25_000  # rows: of up to so many small networks are tried, of more what networks are shown

# The default first; without words where it is not worth any.
ANCHORS = {
    "last-label": "the last label",
    "seasonal-difference": "the last label and the season's change",
    "rls": "least squares",
}
SIGHTS = {
    "all": "",
    "own": "sees the label and the clock alone",
    "both": "two networks, one of which sees the label and the clock alone",
}
HEADS = {"student-t": "", "student-t-pair": "errors of two kinds"}
MEMORIES = {"gru": "", "lru": "linear memory"}


def may_look_away(series: Series) -> bool:
    """Whether a network that does not see other columns is worth a trial on a prepared training part.

    On short ones the newest part, a season at most, misjudged what columns are worth later (docs/results.md).
    """
    task = Task.of(series)
    return len(series) > SHORT and task.own not in ((), task.names)


class _Pace(NamedTuple):
    """A learning rate, and words for it."""

    rate: float
    words: str


PACES = {"usual": _Pace(3e-3, ""), "fast": _Pace(1e-2, "higher learning rate")}


class Setup(NamedTuple):
    """The choices of one trial, by name."""

    anchor: str
    size: str
    dropout: str
    updates: int
    memory: str = "gru"
    head: str = "student-t"
    pace: str = "usual"
    sight: str = "all"

    def __str__(self) -> str:
        size = "" if self.size == "usual" else f"{self.size} size"
        rest = (f"{self.dropout} dropout", PACES[self.pace].words, f"{self.updates} updates")
        return _join(ANCHORS[self.anchor], SIGHTS[self.sight], size, *self._network, *rest)

    def describe(self, epochs: int, mixed: bool) -> tuple[str, ...]:
        """Sentences for people.

        Args:
            epochs: of the final training.
            mixed: whether a small network is a mixture of three.
        """
        size = "three small networks, mixed" if mixed and self.size == "small" else f"{self.size} size"
        return (
            f"anchor: {ANCHORS[self.anchor]}",
            *_SIGHTS_IN_WORDS[self.sight],
            _join(size, *self._network, f"{self.dropout} dropout"),
            _join(
                f"trained for {epochs} epochs ({self.updates} updates in the trials)", PACES[self.pace].words
            ),
        )

    @property
    def _network(self) -> tuple[str, str]:
        return HEADS[self.head], MEMORIES[self.memory]


_SIGHTS_IN_WORDS = {
    "all": (),
    "own": (f"the network {SIGHTS['own']}; of other columns it hears through least squares",),
    "both": (f"{SIGHTS['both']}; each label moves weight to the better one",),
}


def _join(*words: str) -> str:
    return ", ".join(filter(None, words))
