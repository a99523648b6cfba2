"""Gradient-boosted trees (LightGBM) as a reference: what a user would train once and leave alone.

    l_t = the newest label known at step t             at most that of step t - D
    m_t = first model:  y_t - l_t from the inputs      Huber's loss
    s_t = second model: E[|e_t| | inputs]              e_t: what the first model missed, out of fold
    y_t ~ l_t + m_t + s_t * c * Student-t(df)          c and df fitted to e_t / s_t, out of fold

Inputs are the features of the series and the labels that are known, as differences to the newest. Folds are
blocks of time. Everything is fitted on the training part; at test the trees are frozen and labels move on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy import optimize, stats

from latenttrack.data.series import Series, require_learnable
from latenttrack.errors import LatentTrackError
from latenttrack.evaluation.records import Records
from latenttrack.evaluation.scores import Scores, score
from latenttrack.models.components import StudentT
from latenttrack.models.predictive import Predictive
from latenttrack.training.presets import TREES

# What served the held-out folds of the training parts of Jena, ETTh1 and bike sharing: scales are hard to see
# in single residuals, so their trees are small and slow.
_MEAN = {"objective": "huber", "learning_rate": 0.05, "num_leaves": 63}
_SCALE = {"objective": "gamma", "learning_rate": 0.03, "num_leaves": 15}
_PARAMETERS = {
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "seed": 0,
    "verbosity": -1,
    # The same trees on every run, whatever the number of cores.
    "deterministic": True,
    "force_row_wise": True,
}
_MOST_ROUNDS = 2000
_PATIENCE = 50  # rounds without a better score on the held-out folds
_LEAST_SCALE = 1e-3  # of the mean absolute residual: no forecast is surer than that
_DF_RANGE = (2.1, 200.0)


@dataclass(frozen=True)
class TreeSettings:
    """What may be chosen.

    Attributes:
        lags: how many consecutive known labels are inputs.
        folds: blocks of time that are predicted by trees that have not seen them.
    """

    lags: int = 24
    folds: int = 5


@dataclass(frozen=True, eq=False)
class Trees:
    """Fitted trees.

    Attributes:
        mean: LightGBM booster of y_t - l_t.
        scale: LightGBM booster of |e_t|.
        df: degrees of freedom of the Student-t.
        spread: its scale, in units of s_t.
        least: lower bound of s_t.
        start: the mean label, for steps before the first label.
        lags: steps back of the labels that are inputs.
    """

    mean: Any
    scale: Any
    df: float
    spread: float
    least: float
    start: float
    lags: tuple[int, ...]

    @property
    def parameters(self) -> int:
        """Leaves and splits of all trees, and two numbers of the Student-t."""
        leaves = [tree["num_leaves"] for b in (self.mean, self.scale) for tree in b.dump_model()["tree_info"]]
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
        train: features as they are; missing values may stay NaN.
        settings: lags and folds.
    """
    import_lightgbm()
    require_learnable(train)
    settings = settings or TreeSettings()
    lags = _lags(train, settings.lags)
    inputs, last = tree_inputs(train, lags)
    rows = ~np.isnan(train.y) & ~np.isnan(last) & _known_at_the_end(train)
    inputs, change = inputs[rows], (train.y - last)[rows]
    folds = _blocks(train.time[rows], settings.folds)
    leaf = int(np.clip(len(change) // 100, 20, 100))
    mean, held_out = _boost(
        inputs, change, folds, {**_MEAN, "alpha": float(change.std()), "min_data_in_leaf": leaf}
    )
    missed = change - held_out
    # The gamma law with a logarithmic link fits a positive mean; it knows no zeros.
    size = np.maximum(np.abs(missed), 1e-9 * np.abs(missed).mean() + 1e-12)
    scale, expected = _boost(inputs, size, folds, {**_SCALE, "min_data_in_leaf": 2 * leaf})
    least = _LEAST_SCALE * float(size.mean())
    df, spread = _student_t(missed / np.maximum(expected, least))
    return Trees(mean, scale, df, spread, least, float(np.nanmean(train.y)), lags)


def evaluate_trees(trees: Trees, test: Series, past: Series) -> Records:
    """Predict and score every step of the test part, with the labels that are known at that step.

    Args:
        trees: fitted on `past`.
        test: the part to predict.
        past: the rows before it, in which its first known labels stand.
    """
    whole, new = _join(past, test)
    inputs, last = (part[new] for part in tree_inputs(whole, trees.lags))
    loc = np.where(np.isnan(last), trees.start, last) + trees.mean.predict(inputs)
    scale = trees.spread * np.maximum(trees.scale.predict(inputs), trees.least)
    y = test.y_loc + test.y_scale * test.y
    scores = _score_all(
        *(
            jnp.asarray(values, jnp.float32)
            for values in (test.y_loc + test.y_scale * loc, test.y_scale * scale, y)
        ),
        jnp.float32(trees.df),
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


def tree_inputs(
    series: Series, lags: Sequence[int]
) -> tuple[Float[np.ndarray, "N inputs"], Float[np.ndarray, " N"]]:
    """What is known at each step: features, newest label, its differences to the labels of `lags` steps ago.

    Args:
        series: N rows, streams one after another.
        lags: steps back, each greater than the delay D.

    Returns:
        Inputs, and the newest label known: that of step t - D or, where it is missing, the last one before
        it. NaN where there is none.
    """
    last = np.full(len(series), np.nan)
    earlier = np.full((len(series), len(lags)), np.nan)
    for key in np.unique(series.key):
        rows = np.flatnonzero(series.key == key)
        y = series.y[rows]
        newest = np.maximum.accumulate(np.where(np.isnan(y), -1, np.arange(len(y))))
        filled = np.where(newest >= 0, y[newest], np.nan)
        last[rows] = _back(filled, series.delay)
        for i, lag in enumerate(lags):
            earlier[rows, i] = _back(y, lag)
    return np.column_stack([series.x, last, last[:, None] - earlier]), last


def _back(values: Float[np.ndarray, " T"], steps: int) -> Float[np.ndarray, " T"]:
    """Each step gets the value of so many steps ago; NaN before the beginning."""
    return np.concatenate([np.full(min(steps, len(values)), np.nan), values[:-steps]])


def _lags(series: Series, count: int) -> tuple[int, ...]:
    """The labels after the newest, and those of a season and of seven seasons ago (a day and a week)."""
    D, P = series.delay, series.period
    lags = set(range(D + 1, D + count))
    if P is not None:
        lags |= {lag for lag in (P, P + D, 7 * P, 7 * P + D) if lag > D}
    return tuple(sorted(lags))


def _known_at_the_end(series: Series) -> Bool[np.ndarray, " N"]:
    """All rows but the last D - 1 of each stream."""
    counts = np.bincount(series.key, minlength=len(series.keys))
    ends = np.cumsum(counts)[series.key]
    return np.arange(len(series)) + series.delay - 1 < ends


def _blocks(time: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train on and rows held out, for each of `count` blocks of time with about as many rows."""
    block = np.searchsorted(np.sort(time)[:: -(-len(time) // count)], time, side="right")
    return [(np.flatnonzero(block != b), np.flatnonzero(block == b)) for b in np.unique(block)]


def _boost(
    inputs: Float[np.ndarray, "N inputs"],
    target: Float[np.ndarray, " N"],
    folds: list[tuple[np.ndarray, np.ndarray]],
    choices: dict[str, Any],
) -> tuple[Any, Float[np.ndarray, " N"]]:
    """A booster of all rows, with as many rounds as served the folds best; predictions out of fold."""
    lightgbm = import_lightgbm()
    parameters = _PARAMETERS | choices
    data = lightgbm.Dataset(inputs, target, params=parameters)
    trial = lightgbm.cv(
        parameters,
        data,
        num_boost_round=_MOST_ROUNDS,
        folds=folds,
        callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
        return_cvbooster=True,
    )["cvbooster"]
    rounds = trial.best_iteration
    held_out = np.empty(len(target))
    for booster, (_, rows) in zip(trial.boosters, folds, strict=True):
        held_out[rows] = booster.predict(inputs[rows], num_iteration=rounds)
    return lightgbm.train(parameters, data, num_boost_round=rounds), held_out


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


@jax.jit
def _score_all(
    loc: Float[Array, " N"], scale: Float[Array, " N"], y: Float[Array, " N"], df: Float[Array, ""]
) -> Scores:
    """`score` of every step, [N] each."""

    def one(loc: Array, scale: Array, y: Array) -> Scores:
        return score(Predictive.equal(StudentT(loc[None], scale[None], df[None])), y)

    return jax.vmap(one)(loc, scale, y)


def _join(past: Series, test: Series) -> tuple[Series, Bool[np.ndarray, " M"]]:
    """The rows of both, stream by stream, and which of them are the test part's."""
    key = np.concatenate([past.key, test.key])
    order = np.argsort(key, kind="stable")
    both = {
        name: np.concatenate([getattr(past, name), getattr(test, name)])[order]
        for name in ("x", "y", "time", "key")
    }
    new = np.arange(len(key))[order] >= len(past)
    return Series(
        **both,
        names=test.names,
        target=test.target,
        keys=test.keys,
        delay=test.delay,
        y_loc=test.y_loc,
        y_scale=test.y_scale,
        period=test.period,
    ), new
