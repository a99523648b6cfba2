"""Forecasts whose horizons overlap share their errors: how much, and what follows for the next one.

With a label delay of D steps the forecasts of D steps wait for their labels at any time, and what comes as a
surprise to one mostly surprises the others too. On the scale of normal scores g_n = Phi^-1(u_n), u_n the PIT
of the label of step n, a moving average of the D shocks that its forecast could not know of:

    g_n = sum_{j<D} w_j e_{n-j},    e ~ N(0, 1) independent,    w_j = c phi^j,    sum_j w_j^2 = 1

Steps that are D or more apart share nothing, as good forecasts should not. phi = 1 is a random walk, whose
errors have the correlations 1 - k / D; phi = 0 shares nothing at all. It is found from the correlation of
neighbouring scores, rho_1 = sum_j w_j w_{j+1}. The law of every single label stays what the model says.
"""

import numpy as np
from jaxtyping import Float

_BOUND = 4.0  # of a score or a shock: beyond, a label is a fault rather than news
_PRIOR = 10.0  # scores' worth of belief in a random walk
_MISFIT = 0.1  # variance of a score that its shocks do not account for
_LONGEST = 256  # steps; a longer delay counts as this


class Overlap:
    """The errors of S sampled paths, step by step.

    Args:
        scores: [N] of the steps so far, the newest last, NaN where the label is not known.
        delay: D.
        samples: S.
        seed: of the shocks that led to these scores, as far as they leave them open.
    """

    def __init__(self, scores: Float[np.ndarray, " N"], delay: int, samples: int, seed: int):
        delay, known = min(delay, _LONGEST), np.clip(scores, -_BOUND, _BOUND)
        self._weights = shock_weights(neighbours(known, delay), delay)
        chance = np.random.default_rng(seed)
        # [S, D - 1], newest first.
        self._shocks = _explain(known[-3 * delay :], self._weights, samples, chance)[:, ::-1][:, : delay - 1]

    @property
    def mean(self) -> Float[np.ndarray, " S"]:
        """sum_{j>0} w_j e_{n-j}: what each path expects of the next score."""
        mean: np.ndarray = self._shocks @ self._weights[1:]
        return mean

    @property
    def sd(self) -> float:
        """w_0, the share of the shock to come."""
        return float(self._weights[0])

    def push(self, scores: Float[np.ndarray, " S"]) -> None:
        """The scores of the next step; one that is not known is as expected."""
        shock = np.clip(np.nan_to_num((scores - self.mean) / self.sd), -_BOUND, _BOUND)
        self._shocks = np.column_stack([shock, self._shocks])[:, : self._shocks.shape[1]]


def neighbours(scores: Float[np.ndarray, " N"], delay: int) -> float:
    """rho_1 of scores, drawn towards that of a random walk as far as they are few."""
    walk = 1.0 - 1.0 / delay
    pair = ~np.isnan(scores[:-1] + scores[1:])
    first, second = scores[:-1][pair], scores[1:][pair]
    power = 0.5 * float(first @ first + second @ second)
    return (float(first @ second) + _PRIOR * walk) / (power + _PRIOR)


def shock_weights(rho: float, delay: int) -> Float[np.ndarray, " D"]:
    """w_0..w_{D-1} whose rho_1 is the given one, or as near to it as they come."""
    phi = np.linspace(0.0, 1.0, 201)
    weights = phi[:, None] ** np.arange(delay)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    reached = np.sum(weights[:, 1:] * weights[:, :-1], axis=1)  # rises with phi
    nearest: np.ndarray = weights[int(np.argmin(np.abs(reached - rho)))]
    return nearest


def _explain(
    scores: Float[np.ndarray, " M"],
    weights: Float[np.ndarray, " D"],
    samples: int,
    chance: np.random.Generator,
) -> Float[np.ndarray, "S shocks"]:
    """S draws of the M + D - 1 shocks behind M scores, oldest first: e given g = A e (Matheron's rule).

    With e_0 from N(0, I), e = e_0 + A' (A A' + v I)^-1 (g - A e_0 - noise) has that law, v being the misfit.
    """
    count, delay = len(scores), len(weights)
    shocks = chance.normal(size=(samples, count + delay - 1))
    at = np.flatnonzero(~np.isnan(scores))
    if len(at) == 0 or delay == 1:
        return shocks
    A = np.zeros((len(at), count + delay - 1))
    for row, i in enumerate(at):
        A[row, i : i + delay] = weights[::-1]
    noise = np.sqrt(_MISFIT) * chance.normal(size=(samples, len(at)))
    left = scores[at] - shocks @ A.T - noise
    explained: np.ndarray = shocks + np.linalg.solve(A @ A.T + _MISFIT * np.eye(len(at)), left.T).T @ A
    return explained
