"""Streams whose true predictive distribution is known at every step."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from latenttrack.data.series import Series
from latenttrack.errors import LatentTrackError

NOISE = 0.3
SENTINEL = -9999.0


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A stream and its truth: y_t is drawn from a Student-t or Gaussian around `truth_loc`.

    Attributes:
        series: x [N, F] and y [N], without a clock.
        truth_loc: [N] the true mean given the (clean) x and the weights of the moment.
        truth_scale: [N] the true scale.
        truth_df: degrees of freedom, infinite for a Gaussian.
    """

    series: Series
    truth_loc: np.ndarray
    truth_scale: np.ndarray
    truth_df: float = np.inf

    def truth_nll(self) -> np.ndarray:
        """Negative log density [N] of each label under the truth, in original units: the best there is."""
        from scipy import stats  # here, because it takes longer to import than the whole room

        y = self.series.y_loc + self.series.y_scale * self.series.y
        nll: np.ndarray = -stats.t.logpdf(y, self.truth_df, self.truth_loc, self.truth_scale)
        return nll


def drift(n: int = 16000, dim: int = 2, seed: int = 0) -> Synthetic:
    """Draw a linear stream whose weights drift smoothly and whose noise waxes and wanes.

    Args:
        n: number of steps.
        dim: number of features.
        seed: of all randomness.

    Returns:
        The stream with Gaussian truth.
    """
    rng = _rng(n, dim, seed)
    return _stream(rng, _smooth(rng, n, dim), _breathing(rng, n))


def switch(n: int = 16000, dim: int = 2, seed: int = 0, regimes: int = 3) -> Synthetic:
    """Draw a linear stream that jumps between a few weight vectors every 100 to 400 steps.

    Args:
        n: number of steps.
        dim: number of features.
        seed: of all randomness.
        regimes: number of weight vectors, at least 2.

    Returns:
        The stream with Gaussian truth.
    """
    rng = _rng(n, dim, seed)
    if regimes < 2:
        raise LatentTrackError(f"regimes is {regimes}: a stream that switches needs at least 2.")
    weights = rng.normal(size=(regimes, dim))
    regime = np.empty(n, int)
    start, current = 0, int(rng.integers(regimes))
    while start < n:
        stop = start + int(rng.integers(100, 401))
        regime[start:stop] = current
        start, current = stop, int(current + rng.integers(1, regimes)) % regimes
    return _stream(rng, weights[regime], np.full(n, NOISE))


def heavy_tails(n: int = 16000, dim: int = 2, seed: int = 0, df: float = 4.0) -> Synthetic:
    """Draw a drifting linear stream with Student-t noise.

    Args:
        n: number of steps.
        dim: number of features.
        seed: of all randomness.
        df: degrees of freedom of the noise.

    Returns:
        The stream with Student-t truth.
    """
    rng = _rng(n, dim, seed)
    return _stream(rng, _smooth(rng, n, dim), np.full(n, NOISE), df)


def faults(n: int = 16000, dim: int = 2, seed: int = 0) -> Synthetic:
    """Draw the `drift` stream as broken sensors report it; the truth knows the clean x.

    In each feature some stretches are missing (NaN), in some the value is stuck, and now and then a
    reading is -9999; about a tenth of the readings are wrong in all.

    Args:
        n: number of steps.
        dim: number of features.
        seed: of all randomness.

    Returns:
        The stream with Gaussian truth.
    """
    clean = drift(n, dim, seed)
    rng = np.random.default_rng([seed, 1])
    x = clean.series.x.copy()
    for column in x.T:
        for start in np.flatnonzero(rng.random(n) < 0.002):
            column[start : start + int(rng.integers(5, 41))] = np.nan
        for start in np.flatnonzero(rng.random(n) < 0.002):
            column[start : start + int(rng.integers(5, 41))] = column[start]
        column[rng.random(n) < 0.002] = SENTINEL
    return replace(clean, series=replace(clean.series, x=x))


STREAMS: dict[str, Callable[..., Synthetic]] = {
    "drift": drift,
    "switch": switch,
    "heavy-tails": heavy_tails,
    "faults": faults,
}


def _rng(n: int, dim: int, seed: int) -> np.random.Generator:
    if n < 1 or dim < 1 or seed < 0:
        raise LatentTrackError(f"n is {n}, dim is {dim} and seed is {seed}: give n, dim >= 1 and seed >= 0.")
    return np.random.default_rng(seed)


def _smooth(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    """[n, dim] weights of mean 0 and variance 1: random waves of 600 to 2400 steps, four to a weight."""
    wave, t = (4, dim), np.arange(n)[:, None, None]
    angle = 2 * np.pi * (t / rng.uniform(600, 2400, wave) + rng.random(wave))
    weights: np.ndarray = np.sin(angle).sum(axis=1) / np.sqrt(2)
    return weights


def _breathing(rng: np.random.Generator, n: int) -> np.ndarray:
    """[n] noise scale that varies by a factor of about 1.6 either way over 1000 steps."""
    scale: np.ndarray = NOISE * np.exp(0.5 * np.sin(2 * np.pi * (np.arange(n) / 1000 + rng.random())))
    return scale


def _stream(
    rng: np.random.Generator, weights: np.ndarray, scale: np.ndarray, df: float = np.inf
) -> Synthetic:
    n, dim = weights.shape
    x = rng.normal(size=(n, dim))
    loc = (weights * x).sum(axis=1)
    noise = rng.normal(size=n) if np.isinf(df) else rng.standard_t(df, size=n)
    series = Series(
        x=x, y=loc + scale * noise, time=np.arange(n, dtype=float), names=tuple(f"x{i}" for i in range(dim))
    )
    return Synthetic(series, loc, scale, df)
