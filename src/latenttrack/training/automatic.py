"""`latent-track`: a network whose settings are chosen from the data, on the newest part of the training data.

What the stream asks for whatever the model (training/suit.py: inputs, target transform) comes first. Then, by
trials that are trained on the older 85 % of the training part and judged on the newer 15 %, as they will be
used, as filters that are corrected online (models/corrected.py):

    anchor          the last label; or the seasonal difference, or least squares; the last label is tried
                    again with small networks, and with one that does not see all inputs
    sight           all inputs; or, on longer streams, those made of the label and the clock alone, when of
                    other columns it only hears what online least squares, its informant, makes of them; or,
                    where that is better, two networks of half the size, one of each kind, weighted by how
                    well they do; either at a higher learning rate
    size            one network of 35,000 parameters at most; or, on streams of up to 25,000 rows, three of
                    about 10,000 (of a GRU one), mixed
    head            a Student-t for each draw; or two of equal weight; tried with either size
    memory          a GRU; or, on streams of up to 25,000 rows, a linear recurrent unit
    epochs          36, or those of 800 updates; or half, or twice as many up to those; or, where there are
                    no other columns, at a higher learning rate; each trial anneals its rate to the end
    dropout         usual; or light, and if that is better none; if it is not, strong
    recalibration   the strongest of three that costs nothing, or none

Of the others what is named first is the default; another is taken where it is better by more than a standard
error of their difference, so that chance does not decide. Of the two heads, neither of which is simpler or
costs more, the better one is taken. The reference that is called GRU is one with a plain head: it does not
choose head and memory. At last the network is trained on the whole training part. All trials together are
bounded in updates, not in seconds: what is chosen does not depend on the machine.
"""

import functools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError
from latenttrack.models.averaged import SAFETY_NET
from latenttrack.models.capacity import capacity
from latenttrack.models.registry import build
from latenttrack.models.task import Task
from latenttrack.models.use import innermost
from latenttrack.store.atomic import write_bytes
from latenttrack.training.checkpoint import fingerprint
from latenttrack.training.defaults import default_training
from latenttrack.training.fit import Progress, Seen, Trained, train
from latenttrack.training.online import learn_online
from latenttrack.training.schedules import updates_per_epoch
from latenttrack.training.settings import Training
from latenttrack.training.setup import ANCHORS, HEADS, MEMORIES, PACES, SHORT, Setup, may_look_away
from latenttrack.training.suit import TAIL, Suit, tail
from latenttrack.training.tuning import settle
from latenttrack.training.validation import nll_in_use

MOST_PARAMETERS = 35_000
_FEATURES = (12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)  # of the hypernetwork: as many as the bound allows
_DROPOUT = {"no": (0.0, 0.0), "light": (0.3, 0.1), "usual": (0.5, 0.2), "strong": (0.7, 0.4)}
# Small networks: for streams from which a large one would learn too much by heart. LatentTrack's are three,
# mixed, and together still within the bound on parameters; the GRU remains a single network.
_SMALL_MEMORY = {"hidden_size": 32, "encoder_size": 16}
_SMALL_GRU = {**_SMALL_MEMORY, "predictor": [26]}
_SMALL_HYPERNETWORK = {**_SMALL_MEMORY, "predictor": [8], "generator_gain": 0.1, "pool": 3}
_SMALL_FEATURES = (4, 3, 2, 1)
# Two networks that see different inputs, together within the bound.
_HALF_MEMORY = {"hidden_size": 40, "encoder_size": 24}
_HALF_GRU = {**_HALF_MEMORY, "predictor": [32]}
_HALF_HYPERNETWORK = {**_HALF_MEMORY, "predictor": [12]}
BUDGET = 8000  # updates of all trials together
_EPOCHS = 36
_LEAST_UPDATES = 150  # a short stream is passed more often
_MOST_UPDATES = 800  # and a long one less
_LONGER = 1.2  # times as many updates: fewer more are not worth a trial
_GAIN = 0.002  # nats by which another choice must be better at least
_BLOCKS = 20  # of time, over which a standard error is taken
_STEPS = 384  # least length of the pieces that are trained side by side: a memory needs time to fill


class Trial(NamedTuple):
    """One run, and its NLL on the newest part: in all, and in blocks of time."""

    setup: Setup
    nll: float
    blocks: tuple[float, ...]


@dataclass(frozen=True)
class Choices:
    """What was chosen for a network on a stream.

    Attributes:
        settings: of the model.
        training: of the final run.
        words: for people.
        trials: all that was tried, in order.
        setup: what won.
    """

    settings: dict[str, Any]
    training: Training
    words: tuple[str, ...]
    trials: tuple[Trial, ...]
    setup: Setup


def choose_settings(
    name: str,
    suited: Suit,
    train_part: Series,
    *,
    seed: int = 0,
    budget: int = BUDGET,
    setup: Setup | None = None,
    notes: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Choices:
    """Choose anchor, sight, size, head, memory, updates, learning rate, dropout, recalibration of a network.

    Args:
        name: a model with LatentTrack's memory: "latent-track", "lt-deterministic", "gru".
        suited: inputs and transform of the stream.
        train_part: the training part, prepared by `suited`.
        seed: of the trials.
        budget: updates of all trials together; what it leaves no room for is not tried.
        setup: all but recalibration, if it is known already: then there are no trials.
        notes: a file that keeps the trials' results, so that an interrupted search goes on from there.
        progress: called after every epoch of every trial.
    """
    if not tail(train_part)[1].any():
        raise LatentTrackError(
            f"the newest {TAIL:.0%} of the training part have no label of {train_part.target!r}, and nothing "
            "can be chosen on them: end the series where its labels end"
        )
    search = _Search(name, suited, train_part, seed, budget, notes, progress)
    best = search.run() if setup is None else setup
    learned = learn_online(search.trained(best).stack[0], train_part)
    training = replace(search.training(best), validation=0.0)
    words = (
        *suited.words,
        *best.describe(training.epochs, mixed=name != "gru"),
        f"recalibration: {learned.recalibration}",
    )
    settings = {**search.settings(best), **learned.settings}
    return Choices(settings, training, words, search.trials, best)


class _Search:
    """Trials on one stream; none is run twice."""

    def __init__(
        self,
        name: str,
        suited: Suit,
        series: Series,
        seed: int,
        budget: int,
        notes: Path | None,
        progress: Callable[[Progress], None] | None,
    ):
        self.name, self.series, self.task = name, series, Task.of(series)
        self.key, self.progress = jax.random.key(seed), progress
        self.base = within_bound(name, self.task, _base_settings(name, suited), _FEATURES)
        self.budget, self.notes = budget, notes
        self.mark = fingerprint(series, {"model": name, "seed": seed, "settings": self.base})
        self._tried = self._read()
        self._trained: dict[Setup, Trained] = {}
        self._settled: dict[str, dict[str, Any]] = {}
        self._seen: dict[tuple[str, str], Seen] = {}  # by anchor and sight

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All that was tried, in order."""
        return tuple(self._tried.values())

    @property
    def usual_updates(self) -> int:
        """Of the default number of epochs, within bounds."""
        return int(np.clip(_EPOCHS * self._epoch_updates, _LEAST_UPDATES, _MOST_UPDATES))

    def run(self) -> Setup:
        """One choice after another."""
        best = Setup("last-label", "usual", "usual", self.usual_updates)
        anchors = [a for a in ANCHORS if a != "seasonal-difference" or self.task.period]
        best = self.best(best, [best._replace(anchor=anchor) for anchor in anchors])
        if may_look_away(self.series):
            # Both served with the higher rate on every stream, a large network that sees all on none.
            alone = best._replace(sight="own", pace="fast")
            # The anchor that helps a network that sees all need not help one that does not.
            either = self.best(best, [alone, alone._replace(anchor="last-label")])
            if either.sight == "own":
                best = self.best(best, [either, either._replace(sight="both")])
        # For each size: a head may show its worth in small networks only, an anchor in large ones only.
        short = len(self.series) <= SHORT
        small = [best._replace(size="small"), best._replace(size="small", anchor="last-label")]
        best = self.best(self._head(best), [self._head(setup) for setup in small] if short else [])
        memories = MEMORIES if self.name != "gru" and short else ["gru"]
        best = self.best(best, [best._replace(memory=memory) for memory in memories])
        return self._less_or_more(self._length(best))

    def _head(self, usual: Setup) -> Setup:
        """The better of two heads; the GRU has one."""
        heads = HEADS if self.name != "gru" else ["student-t"]
        return self.best(usual, [usual._replace(head=head) for head in heads], alike=True)

    def _length(self, usual: Setup) -> Setup:
        """Fewer updates, more, or larger ones; more and larger only where one of the two was better.

        Larger ones only where there are no other columns: where there are, the sight decides the pace.
        """
        half, twice = usual.updates // 2, min(2 * usual.updates, _MOST_UPDATES)
        longer = [usual._replace(updates=twice)] if twice > _LONGER * usual.updates else []
        faster = [usual._replace(pace="fast")] if self.task.own == self.task.names else []
        best = self.best(usual, [usual._replace(updates=half), *longer, *faster])
        if longer and faster and best in (*longer, *faster):
            best = self.best(best, [faster[0]._replace(updates=twice)])
        return best

    def _less_or_more(self, usual: Setup) -> Setup:
        """Less dropout, as long as that is better; more, if less is not."""
        light = self.best(usual, [usual._replace(dropout="light")])
        if light == usual:
            return self.best(usual, [usual._replace(dropout="strong")])
        return self.best(light, [light._replace(dropout="no")])

    def best(self, default: Setup, others: Sequence[Setup], *, alike: bool = False) -> Setup:
        """The default, unless another is better by more than a standard error of the difference.

        Args:
            default: what is taken if nothing speaks against it.
            others: what may be better.
            alike: whether nothing speaks for the default either: then chance may decide.
        """
        best, least = default, 0.0
        base = self._try(default)
        for setup in others:
            trial = self._try(setup)
            if base is None or trial is None:
                continue
            excess = np.array(trial.blocks) - np.array(base.blocks)
            gain = base.nll - trial.nll
            error = 0.0 if alike else float(excess.std(ddof=1)) / math.sqrt(len(excess))
            if gain > max(_GAIN, error, least):
                best, least = setup, gain
        return best

    def settings(self, setup: Setup) -> dict[str, Any]:
        """The model's, with what the training part decides filled in."""
        anchor = setup.anchor
        if anchor not in self._settled:
            known = next(iter(self._settled.values()), {})
            # All roles of least squares forget alike: what was found for one anchor holds for the others.
            given: dict[str, Any] = {
                n: known[n] for n in ("informant_settings", "safety_net_settings") if n in known
            }
            if anchor == "rls" and known:
                given["anchor_settings"] = known["informant_settings"]
            settings = {**self.base, **given, "anchor": anchor}
            self._settled[anchor] = settle(self.name, settings, self.task, self.series, TAIL)
        summary, hidden = _DROPOUT[setup.dropout]
        small = setup.size == "small"
        chosen = {"summariser": setup.memory, "summary_dropout": summary, "hidden_dropout": hidden}
        size = self._small if small else self._half if setup.sight == "both" else {}
        settings = {**self._settled[anchor], **size, **chosen}
        if setup.sight != "all":
            settings["shown" if setup.sight == "own" else "second_shown"] = list(self.task.own)
        if setup.head != "student-t":
            settings["head"] = setup.head
        features = _SMALL_FEATURES if small else _FEATURES
        return within_bound(self.name, self.task, settings, features)

    @property
    def _small(self) -> dict[str, Any]:
        """What makes it small; networks that are mixed keep the bound together."""
        if self.name == "gru":
            return _SMALL_GRU
        return {**_SMALL_HYPERNETWORK, **self._fewer_draws}

    @property
    def _half(self) -> dict[str, Any]:
        """What makes two networks together as large as one."""
        return _HALF_GRU if self.name == "gru" else {**_HALF_HYPERNETWORK, **self._fewer_draws}

    @property
    def _fewer_draws(self) -> dict[str, Any]:
        """Of each of several networks."""
        return {"K": 16} if self.name == "latent-track" else {}

    def training(self, setup: Setup) -> Training:
        """So many updates on the older part, as whole epochs, at its pace."""
        epochs = max(round(setup.updates / self._epoch_updates), 1)
        return replace(self._plan, epochs=epochs, learning_rate=PACES[setup.pace].rate)

    @property
    def _plan(self) -> Training:
        pieces = int(np.clip(len(self.series) // _STEPS, 8, 32))
        return default_training(self.name, {"sequences": pieces, "validation": TAIL, "patience": 10**6})

    @property
    def _epoch_updates(self) -> int:
        plan = self._plan
        longest = int(np.bincount(self.series.key).max() * (1.0 - TAIL))
        length = -(-longest // max(round(plan.sequences / len(self.series.keys)), 1))
        return updates_per_epoch(plan, -(-length // plan.window) * plan.window)

    def _try(self, setup: Setup) -> Trial | None:
        """A trial, judged by its last weights on the newest part; None if the budget has no room for it."""
        if setup not in self._tried:
            spent = sum(trial.setup.updates for trial in self.trials)
            if spent + setup.updates > self.budget:
                return None
            tracker, tail = self.trained(setup).stack[0], self._seen[setup.anchor, setup.sight].tail
            assert tail is not None
            known = nll_in_use(innermost(tracker), tail, self.task.delay, self.key)
            blocks = tuple(float(block.mean()) for block in np.array_split(known, _BLOCKS) if len(block))
            self._tried[setup] = Trial(setup, float(known.mean()), blocks)
            self._write()
        return self._tried[setup]

    def trained(self, setup: Setup) -> Trained:
        if setup not in self._trained:
            settings, training = self.settings(setup), self.training(setup)
            report, pool = self.progress, settings.pop("pool", None)
            trained = self._trained[setup] = train(
                lambda k: build(self.name, self.task, k, **settings),
                self.series,
                training,
                self.key,
                pool=pool,
                seen=self._seen.get((setup.anchor, setup.sight)),
                last=True,
                progress=None if report is None else lambda p: report(p._replace(stage=f"trial: {setup}")),
            )
            assert trained.seen is not None
            self._seen[setup.anchor, setup.sight] = trained.seen
        return self._trained[setup]

    def _read(self) -> dict[Setup, Trial]:
        if self.notes is None or not self.notes.exists():
            return {}
        try:
            notes = json.loads(self.notes.read_bytes())
            mark, rows = notes["fingerprint"], notes["trials"]
            tried = {trial.setup: trial for trial in map(_trial, rows)}
        except (ValueError, KeyError, TypeError):
            raise LatentTrackError(f"{self.notes} is damaged: delete it, and the trials run again") from None
        if mark != self.mark:
            raise LatentTrackError(
                f"{self.notes} belongs to another run (other data, model or settings): delete it"
            )
        return tried

    def _write(self) -> None:
        if self.notes is not None:
            notes = {"fingerprint": self.mark, "trials": self.trials}
            write_bytes(self.notes, json.dumps(notes).encode())


def within_bound(
    name: str, task: Task, settings: dict[str, Any], features: Sequence[int] = _FEATURES
) -> dict[str, Any]:
    """The settings with as many features of the hypernetwork as the bound on parameters allows.

    Args:
        name: the model; the GRU has no such features.
        task: what it is built for.
        settings: its others.
        features: to choose from, the most first.
    """
    if name == "gru":
        return settings
    for count in features:
        settings = {**settings, "features": count}
        if capacity(functools.partial(build, name, task, **settings), task.size).total <= MOST_PARAMETERS:
            break
    return settings


def _trial(row: list[Any]) -> Trial:
    """From JSON."""
    setup, nll, blocks = row
    return Trial(Setup(*setup), nll, tuple(blocks))


def _base_settings(name: str, suited: Suit) -> dict[str, Any]:
    """What is not up for choice."""
    settings: dict[str, Any] = {"informant": "rls", "correct": True, "safety_net": list(SAFETY_NET)}
    if suited.transform is not None:
        settings["transform"] = suited.transform
    if name != "latent-track":
        settings |= {"head": "student-t", "skip": True, "prompt": True, "encoder_size": 32}
    if name != "gru":
        settings["predictor"] = [16]
    return settings
