"""Trees in place of the network, and what they gain by the correction that the network has.

LightGBM as `latenttrack bench` runs it is trained once and then left alone. The correction is no part of the
network: it can stand behind trees as well. There it also sees the place and the scale that they forecast,
beside the inputs. `ablations.py` runs both on the validation part.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from beyond import Base
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.data.series import Series
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.trees import Trees, TreeSettings, evaluate_trees, fit_trees, see
from latenttrack.filtering.offline import filter_series
from latenttrack.models.base import AbstractTracker, State, Terms, Window, partition
from latenttrack.models.components import StudentT
from latenttrack.models.corrected import Corrected
from latenttrack.models.predictive import Predictive
from latenttrack.models.stack import Stack


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


def plain_trees(base: Base) -> Records:
    """Trees, trained once on the same inputs."""
    return _judge(base)[0]


def corrected_trees(base: Base) -> Records:
    """The same trees, corrected online; NLL alone is computed anew."""
    records, trees, future = _judge(base)
    series = _as_seen(base, trees, future)
    plain, corrected = (
        np.asarray(filter_series(_stack(tracker), series, jax.random.key(0)).log_prob)
        for tracker in (Given(trees.df), Corrected(Given(trees.df), series.x.shape[1], series.delay))
    )
    return replace(records, steps={**records.steps, "nll": records.steps["nll"] + plain - corrected})


def _judge(base: Base) -> tuple[Records, Trees, Series]:
    """Their records, the trees, and the part that was predicted, prepared."""
    assert base.model.pipeline is not None
    trees = fit_trees(base.prepared, TreeSettings(transform=base.model.settings.get("transform")))
    future = base.model.pipeline.transform(base.future, history=base.past)
    future = replace(future, period=base.model.task.period)
    return evaluate_trees(trees, future, past=base.prepared), trees, future


def _as_seen(base: Base, trees: Trees, future: Series) -> Series:
    """What the network would see, with the trees' forecasts as two more inputs: labels are residuals."""
    seen = see(trees.tracker, future, base.prepared)
    inputs = seen.inputs[:, trees.columns]
    scale = trees.spread * np.maximum(seen.sd * trees.scale.predict(inputs), trees.least)
    x = np.column_stack([inputs, trees.mean.predict(inputs), np.log(scale)])
    names = tuple(f"input{i}" for i in range(x.shape[1]))
    return replace(future, x=x, y=seen.residual, names=names, y_loc=0.0, y_scale=1.0)


def _stack(tracker: AbstractTracker) -> Stack:
    params, rest = partition(tracker)
    return Stack(jax.tree.map(lambda leaf: leaf[None], params), rest, 1)
