"""Gradient-boosted trees (LightGBM) as a reference: what a user would train once and leave alone.

They stand where LatentTrack's network stands: behind the same target transform u(y), the same anchor, and
the same online least squares (the informant) that adds its forecast, spread and surprise to the inputs.

    r_t = (u_t - anchor_t) / scale                     what is to be forecast; the anchor is the last label
    m_t = first model:  r_t from the inputs            Huber's loss
    s_t = sd_t * second model: |e_t| / sd_t            e_t: what the first model missed, out of fold;
                                                       sd_t: the informant's standard deviation
    r_t ~ m_t + s_t * c * Student-t(df)                c and df fitted to e_t / s_t, out of fold

As the network they see all inputs or, on longer streams, those made of the label and the clock alone, when of
other columns the informant tells: whichever has the better log-likelihood out of fold.

Folds are blocks of time. A forecast is the mean of the folds' models: each has seen as little as those that c
and df were fitted with. Everything is fitted on the training part; at test the trees are frozen, and anchor
and informant go on as they do for the network.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import optimize, stats

from latenttrack.data.known_label import forget_unknown
from latenttrack.data.series import Series, require_learnable
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.scores import Scores, score
from latenttrack.filtering.offline import trace_series
from latenttrack.models.anchored import Anchored, AnchoredState
from latenttrack.models.base import AbstractTracker
from latenttrack.models.components import StudentT
from latenttrack.models.informed import NAMES as INFORMED
from latenttrack.models.predictive import Predictive
from latenttrack.models.registry import build
from latenttrack.models.task import Task
from latenttrack.models.transformed import Curve, Transformed, TransformedPredictive
from latenttrack.training.presets import TREES
from latenttrack.training.setup import may_look_away
from latenttrack.training.tuning import settle

# What served the held-out folds of the training parts of Jena, ETTh1 and bike sharing (next hour). Random
# thresholds (`extra_trees`) helped most. Single residuals say little of a scale, so its trees are small.
_MEAN = {"objective": "huber", "alpha": 0.3, "num_leaves": 31, "min_data_in_leaf": 20}
_SCALE = {"objective": "gamma", "num_leaves": 15, "min_data_in_leaf": 100}
_PARAMETERS = {
    "learning_rate": 0.05,
    "extra_trees": True,
    "max_bin": 63,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "seed": 0,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
    # Several threads wait for one another after every split: with other work on the cores, ten times as long.
    "num_threads": 1,
}
_MOST_ROUNDS = 3000
_PATIENCE = 50  # rounds without a better score on the held-out folds
_LEAST_SCALE = 1e-3  # of the mean absolute residual: no forecast is surer than that
_DF_RANGE = (2.1, 200.0)
_AT_ONCE = 4096  # steps that are scored side by side: a bound on memory


@dataclass(frozen=True)
class TreeSettings:
    """What may be chosen.

    Attributes:
        folds: blocks of time that are predicted by trees that have not seen them.
        transform: of the labels, as every model has it (models/transformed.py); None for none.
    """

    folds: int = 5
    transform: Mapping[str, Any] | None = None


class Forest(NamedTuple):
    """The boosters of all folds, each used up to the same round; they predict their mean."""

    boosters: tuple[Any, ...]
    rounds: int

    def predict(self, inputs: Float[np.ndarray, "N inputs"]) -> Float[np.ndarray, " N"]:
        """The mean over the folds."""
        return np.mean([b.predict(inputs, num_iteration=self.rounds) for b in self.boosters], axis=0)

    def text(self) -> str:
        """All trees, in LightGBM's own format."""
        return "\n".join(b.model_to_string(num_iteration=self.rounds) for b in self.boosters)


@dataclass(frozen=True, eq=False)
class Trees:
    """Fitted trees.

    Attributes:
        tracker: anchor, informant and transform, around a network that is of no account.
        mean: of r_t.
        scale: of |e_t| / sd_t.
        df: degrees of freedom of the Student-t.
        spread: its scale, in units of s_t.
        least: lower bound of s_t.
        columns: of the inputs, those that the trees see.
    """

    tracker: AbstractTracker
    mean: Forest
    scale: Forest
    df: float
    spread: float
    least: float
    columns: tuple[int, ...]

    @functools.cached_property
    def parameters(self) -> int:
        """Leaves and splits of all trees, and two numbers of the Student-t."""
        lines = "\n".join([self.mean.text(), self.scale.text()]).splitlines()
        leaves = [int(line.removeprefix("num_leaves=")) for line in lines if line.startswith("num_leaves=")]
        return sum(2 * n - 1 for n in leaves) + 2


def import_lightgbm() -> Any:
    """The package, or one sentence that says how to get it."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        library = " and the system library libgomp" if isinstance(error, OSError) else ""
        raise LatentTrackError(
            f'{TREES} needs the package lightgbm{library}: run pip install "latenttrack[trees]", '
            "or name the other models with --models."
        ) from None
    return lightgbm


def fit_trees(train: Series, settings: TreeSettings | None = None) -> Trees:
    """Fit both models and the Student-t on the training part.

    Labels that are not known yet where it ends (the last D - 1 of each stream) are not used.

    Args:
        train: with the inputs that the network would get.
        settings: folds and transform.
    """
    import_lightgbm()
    require_learnable(train)
    settings = settings or TreeSettings()
    train = forget_unknown(train)
    tracker = _surroundings(train, settings.transform)
    seen = see(tracker, train)
    known = ~np.isnan(seen.residual)
    rows = Seen(*(part[known] for part in seen))
    folds = _blocks(train.time[known], settings.folds)
    return max((_fit(tracker, rows, folds, columns) for columns in _sights(train)), key=lambda f: f[1])[0]


def _sights(train: Series) -> list[tuple[int, ...]]:
    """The columns of the inputs that the network would try to do with; the informant's always."""
    own = [train.names.index(name) for name in Task.of(train).own]
    told = range(len(train.names), len(train.names) + len(INFORMED))
    everything = (*range(len(train.names)), *told)
    return [everything, (*own, *told)] if may_look_away(train) else [everything]


def _fit(
    tracker: AbstractTracker,
    rows: "Seen",
    folds: list[tuple[np.ndarray, np.ndarray]],
    columns: tuple[int, ...],
) -> tuple[Trees, float]:
    """Trees that see some of the inputs, and the mean log-likelihood of r_t out of fold."""
    inputs = rows.inputs[:, columns]
    mean, forecast = _boost(inputs, rows.residual, folds, _MEAN)
    missed = rows.residual - forecast
    # The gamma law with a logarithmic link fits a positive mean; it knows no zeros.
    size = np.maximum(np.abs(missed), 1e-9 * np.abs(missed).mean() + 1e-12)
    scale, expected = _boost(inputs, size / rows.sd, folds, _SCALE)
    least = _LEAST_SCALE * float(size.mean())
    s = np.maximum(rows.sd * expected, least)
    df, spread = _student_t(missed / s)
    likelihood = float(np.mean(stats.t.logpdf(missed / s, df, scale=spread) - np.log(s)))
    return Trees(tracker, mean, scale, df, spread, least, columns), likelihood


def evaluate_trees(trees: Trees, test: Series, past: Series) -> Records:
    """Predict and score every step of the test part, with the labels that are known at that step.

    Args:
        trees: fitted on `past`.
        test: the part to predict.
        past: the rows before it, in which its first known labels stand.
    """
    seen = see(trees.tracker, test, past)
    inputs = seen.inputs[:, trees.columns]
    unit = _anchored(trees.tracker).scale
    r_scale = trees.spread * np.maximum(seen.sd * trees.scale.predict(inputs), trees.least)
    y = test.y_loc + test.y_scale * test.y
    scores = _score_all(
        jnp.asarray(seen.anchor + unit * trees.mean.predict(inputs), jnp.float32),
        jnp.asarray(unit * r_scale, jnp.float32),
        jnp.asarray(y, jnp.float32),
        jnp.float32(trees.df),
        _curve(trees.tracker),
        (jnp.float32(test.y_loc), jnp.float32(test.y_scale)),
    )
    return Records(
        model=TREES,
        time=test.time,
        key=test.key,
        keys=test.keys,
        target=test.target,
        y=y,
        steps={name: np.asarray(values)[None] for name, values in scores._asdict().items()},
        parameters=trees.parameters,
    )


class Seen(NamedTuple):
    """What the network would see of N rows.

    Attributes:
        inputs: features, and what the informant says.
        residual: r_t; NaN where the label is missing.
        sd: the informant's standard deviation, in units of r_t.
        anchor: in units of u_t.
    """

    inputs: Float[np.ndarray, "N inputs"]
    residual: Float[np.ndarray, " N"]
    sd: Float[np.ndarray, " N"]
    anchor: Float[np.ndarray, " N"]


def see(tracker: AbstractTracker, series: Series, past: Series | None = None) -> Seen:
    """Let anchor and informant run over the streams, label by label as they become known.

    Args:
        tracker: of `Trees`.
        series: N rows.
        past: the rows before them; None if the streams begin there.
    """

    def look(state: AnchoredState) -> Float[Array, " 5"]:
        return jnp.append(state.inner.told[-1], jnp.nan_to_num(state.anchors[-1]))

    heard = trace_series(tracker, series, look, past=past)
    told, anchor = heard[:, :-1], heard[:, -1]
    curve = _curve(tracker)
    label = series.y if curve is None else np.asarray(curve.to_inner(jnp.asarray(series.y, jnp.float32)))
    x = np.where(np.isfinite(series.x), series.x, 0.0).astype(np.float32)
    return Seen(
        inputs=np.hstack([x, told]),
        residual=(label - anchor) / _anchored(tracker).scale,
        sd=np.exp(told[:, INFORMED.index("reference_log_sd")]),
        anchor=anchor,
    )


def _surroundings(train: Series, transform: Mapping[str, Any] | None) -> AbstractTracker:
    """LatentTrack as it would be trained: all but the network is used."""
    task = Task.of(train)
    settings = {"anchor": "last-label", "informant": "rls", "transform": transform}
    settled = settle("latent-track", settings, task, train, 0.0)
    return build("latent-track", task, jax.random.key(0), **settled)


def _anchored(tracker: AbstractTracker) -> Anchored:
    inner = tracker.inner if isinstance(tracker, Transformed) else tracker
    assert isinstance(inner, Anchored)
    return inner


def _curve(tracker: AbstractTracker) -> Curve | None:
    return tracker.curve if isinstance(tracker, Transformed) else None


def _blocks(time: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train on and rows held out, for each of `count` blocks of time with about as many rows."""
    block = np.searchsorted(np.sort(time)[:: -(-len(time) // count)], time, side="right")
    return [(np.flatnonzero(block != b), np.flatnonzero(block == b)) for b in np.unique(block)]


def _boost(
    inputs: Float[np.ndarray, "N inputs"],
    target: Float[np.ndarray, " N"],
    folds: list[tuple[np.ndarray, np.ndarray]],
    choices: dict[str, Any],
) -> tuple[Forest, Float[np.ndarray, " N"]]:
    """A booster for each fold, with as many rounds as served them best together; predictions out of fold."""
    lightgbm = import_lightgbm()
    parameters = _PARAMETERS | choices
    trial = lightgbm.cv(
        parameters,
        lightgbm.Dataset(inputs, target, params=parameters),
        num_boost_round=_MOST_ROUNDS,
        folds=folds,
        callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
        return_cvbooster=True,
    )["cvbooster"]
    forest = Forest(tuple(trial.boosters), trial.best_iteration)
    held_out = np.empty(len(target))
    for booster, (_, rows) in zip(forest.boosters, folds, strict=True):
        held_out[rows] = booster.predict(inputs[rows], num_iteration=forest.rounds)
    return forest, held_out


def _student_t(residuals: Float[np.ndarray, " N"]) -> tuple[float, float]:
    """Degrees of freedom and scale of a centred Student-t, by maximum likelihood."""

    def nll(theta: np.ndarray) -> float:
        excess, scale = np.exp(theta)
        return -float(stats.t.logpdf(residuals, 2.0 + excess, scale=scale).mean())

    start = [np.log(3.0), np.log(np.median(np.abs(residuals)) + 1e-12)]
    bounds = [tuple(np.log(np.subtract(_DF_RANGE, 2.0))), (None, None)]
    found = optimize.minimize(nll, start, method="L-BFGS-B", bounds=bounds)
    excess, scale = np.exp(found.x)
    return float(2.0 + excess), float(scale)


@eqx.filter_jit
def _score_all(
    loc: Float[Array, " N"],
    scale: Float[Array, " N"],
    y: Float[Array, " N"],
    df: Float[Array, ""],
    curve: Curve | None,
    units: tuple[Float[Array, ""], Float[Array, ""]],
) -> Scores:
    """`score` of every step, [N] each, of forecasts of u_t and labels in their own units."""

    def one(row: tuple[Array, Array, Array]) -> Scores:
        loc, scale, y = row
        forecast = Predictive.equal(StudentT(loc[None], scale[None], df[None]))
        forecast = forecast if curve is None else TransformedPredictive.of(forecast, curve)
        return score(forecast.affine(*units), y)

    scores: Scores = jax.lax.map(one, (loc, scale, y), batch_size=_AT_ONCE)
    return scores
