"""What the correction is worth: networks with and without it, and trees, which have none, with it.

    .venv/bin/python benchmarks/correction.py runs/next-hour runs/bike-six-hours

For finished benches: NLL on the test part, the same weights on both sides, and all that learns online as it
is. Trees are trained once more, as the bench does; behind them the correction also sees the place and the
scale that they forecast, beside the inputs. Nothing is chosen by it. What is found is kept in
docs/results/correction.json, for the page that results.py makes.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.data.series import Series
from latenttrack.evaluation.evaluate import evaluate
from latenttrack.evaluation.paired import compare
from latenttrack.evaluation.records import Records, summarise
from latenttrack.evaluation.tracks import find_track
from latenttrack.evaluation.trees import Trees, TreeSettings, evaluate_trees, fit_trees, see
from latenttrack.filtering.offline import filter_series
from latenttrack.fitted.model import Model, load
from latenttrack.models.averaged import Averaged
from latenttrack.models.base import AbstractTracker, State, Terms, Window, partition
from latenttrack.models.components import StudentT
from latenttrack.models.corrected import Corrected
from latenttrack.models.predictive import Predictive
from latenttrack.models.stack import Stack
from latenttrack.store.atomic import write_bytes
from latenttrack.training.presets import TREES

KEPT = Path(__file__).resolve().parents[1] / "docs" / "results" / "correction.json"
NETWORKS = ("latent-track", "gru")


@dataclass(frozen=True)
class Pair:
    """The same model without and with the correction."""

    plain: Records
    corrected: Records


def networks(model: Model, past: Series, future: Series) -> Pair:
    """A network as it is, and as it would be if nobody corrected it."""
    parts = [partition(_uncorrected(model.stack[i])) for i in range(len(model.stack))]
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(params for params, _ in parts))
    plain = replace(model, stack=Stack(params, parts[0][1], len(parts)), programs={})
    return Pair(evaluate(plain, future, past=past), evaluate(model, future, past=past))


def _uncorrected(tracker: Any) -> Any:
    """The tracker without its correction, whatever stands around it."""
    if isinstance(tracker, Corrected):
        return tracker.inner
    if isinstance(tracker, Averaged):
        return eqx.tree_at(lambda t: t.main, tracker, _uncorrected(tracker.main))
    return eqx.tree_at(lambda t: t.inner, tracker, _uncorrected(tracker.inner))


# Trees


class Given(AbstractTracker):
    """Forecasts that were made before: the last two inputs are their place and the log of their scale."""

    df: float

    def init(self) -> Array:
        """There is nothing to believe."""
        return jnp.zeros(())

    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """Trees do not learn online."""
        return state

    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """Student-t."""
        return Predictive.equal(StudentT(x[-2:-1], jnp.exp(x[-1:]), jnp.full(1, self.df)))

    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """Nothing is trained."""
        scores = jax.vmap(lambda x, y: self.predict(state, x, key).log_prob(y))(window.x, window.y)
        return Terms(scores, jnp.zeros_like(scores), scores), state


def trees(model: Model, past: Series, future: Series) -> Pair:
    """Trees with the inputs of a network, trained once; corrected, their NLL alone is computed anew."""
    assert model.pipeline is not None
    prepared = replace(model.pipeline.transform(past), period=model.task.period)
    test = replace(model.pipeline.transform(future, history=past), period=model.task.period)
    fitted = fit_trees(prepared, TreeSettings(transform=model.settings.get("transform")))
    plain = evaluate_trees(fitted, test, past=prepared)
    series = _as_seen(fitted, prepared, test)
    before, after = (
        np.asarray(filter_series(_stack(tracker), series, jax.random.key(0)).log_prob)
        for tracker in (Given(fitted.df), Corrected(Given(fitted.df), series.x.shape[1], series.delay))
    )
    return Pair(plain, replace(plain, steps={**plain.steps, "nll": plain.steps["nll"] + before - after}))


def _as_seen(fitted: Trees, past: Series, future: Series) -> Series:
    """What the network would see, and the trees' forecasts as two more inputs; labels are residuals."""
    seen = see(fitted.tracker, future, past)
    inputs = seen.inputs[:, fitted.columns]
    scale = fitted.spread * np.maximum(seen.sd * fitted.scale.predict(inputs), fitted.least)
    x = np.column_stack([inputs, fitted.mean.predict(inputs), np.log(scale)])
    names = tuple(f"input{i}" for i in range(x.shape[1]))
    return replace(future, x=x, y=seen.residual, names=names, y_loc=0.0, y_scale=1.0)


def _stack(tracker: AbstractTracker) -> Stack:
    params, rest = partition(tracker)
    return Stack(jax.tree.map(lambda leaf: leaf[None], params), rest, 1)


def found(pair: Pair, leading: Records) -> dict[str, float]:
    """What is kept of a model: NLL on both sides, what is gained, and how it compares with the first."""
    gain, behind = compare(pair.corrected, pair.plain)["nll"], compare(leading, pair.corrected)["nll"]
    return {
        "plain": summarise(pair.plain).nll,
        "corrected": summarise(pair.corrected).nll,
        "gain": gain.difference,
        "standard_error": gain.standard_error,
        "behind": behind.difference,
        "behind_error": behind.standard_error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("benches", nargs="+", type=Path)
    parser.add_argument("--data-dir", type=Path, default=None)
    chosen = parser.parse_args()
    for folder in chosen.benches:
        track = find_track(json.loads((folder / "summary.json").read_bytes())["track"]["name"])
        past, future = track.load(chosen.data_dir).split(track.fraction)
        models = {name: load(folder / f"{name}.lt") for name in NETWORKS}
        pairs = {name: networks(model, past, future) for name, model in models.items()}
        pairs[TREES] = trees(models[NETWORKS[0]], past, future)
        rows = {name: found(pair, pairs[NETWORKS[0]].corrected) for name, pair in pairs.items()}
        for name, row in rows.items():
            print(track.name, name, ", ".join(f"{key} {value:.4f}" for key, value in row.items()), flush=True)
        kept = json.loads(KEPT.read_bytes()) if KEPT.exists() else {}
        write_bytes(KEPT, json.dumps({**kept, track.name: rows}, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
