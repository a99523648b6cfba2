"""Which seasons a stream has, found in its labels.

The autocorrelation r(k) of the changes y_t - y_{t-1} has a peak at the length P of a season, whatever the
level of the stream does, and again at 2 P: noise, trends and momentum have not. Where a season is so slow
that noise hides its steps, changes over several steps show it. A longer season (a week of days) shows as a
multiple of P whose peak stands above those of its neighbours.
"""

import numpy as np

from latenttrack.data.series import Series

_LONGEST = 2000  # steps; also a season must fit into the labels four times
_SHORTEST = 3
_SPANS = (1, 4, 16, 64)  # steps over which changes are taken: those that show a season most clearly decide
_LEAST = 0.08  # of r at a season; ...
_CHANCE = 1.0  # ... and by so many standard errors it must exceed the largest that chance lets expect
_LASTS = 0.5  # share of the peak at P that must be left at 2 P
_NEAR = 0.6  # share of the highest peak that makes an earlier one the season
_ABOVE = 0.02  # by how much a longer season's peak must stand above its neighbours', ...
_LONGER_CHANCE = 3.0  # ... and by how many standard errors
_MULTIPLES = range(2, 15)
_FEWEST = 16  # pairs of changes, for r to be known at all
_ROUNDING = 1e-6  # of sums of squares whose usual size is the number of labels


def find_periods(series: Series) -> tuple[int, ...]:
    """The main season and, if there is one, the longer season made of it, in steps, shortest first.

    Args:
        series: the training part; with several streams their autocorrelations are averaged.

    Returns:
        At most two lengths; none for a stream without a season.
    """
    best: tuple[int, ...] = ()
    clearest = 0.0
    for span in _SPANS:
        r, error = _autocorrelation(series, span)
        main = _main_season(r, error, span)
        # A multiple of what a shorter span has shown is the same season.
        if main is None or (best and main > best[0] and main % best[0] == 0):
            continue
        if r[main] / error[main] > clearest:
            clearest, longer = r[main] / error[main], _longer_season(r, error, main)
            best = (main,) if longer is None else (main, longer)
    return best


def _main_season(r: np.ndarray, error: np.ndarray, span: int) -> int | None:
    """The length of the main season, from r(k), NaN where unknown, and its standard error, [L] each."""
    known = np.where(np.isnan(r), -np.inf, r)

    def echo(k: int) -> float:
        return float(known[2 * k - 2 : 2 * k + 3].max())

    def is_peak(k: int) -> bool:
        return bool(r[k] == known[k - 2 : k + 3].max() and echo(k) >= _LASTS * r[k])

    # Up to the span changes have the noise of their common labels.
    longest = (len(r) - 3) // 2
    peaks = [k for k in range(max(_SHORTEST, span + 2), longest + 1) if is_peak(k)]
    # Above the lowest value before, since where r only decays every ripple is a peak.
    lowest = np.minimum.accumulate(np.where(np.isnan(r), np.inf, r)[span + 1 :])
    height = {k: min(r[k], r[k] - lowest[k - span - 2]) for k in peaks}
    chance = np.sqrt(2.0 * np.log(max(len(r), 2))) + _CHANCE  # the largest of L normal numbers, and more
    sure = [k for k in peaks if height[k] >= max(_LEAST, chance * error[k])]
    if not sure:
        return None
    # Multiples of a season peak as well, at times a little higher: the first peak that comes near is meant.
    highest = max(min(height[k], echo(k)) for k in sure)
    main = next(k for k in peaks if height[k] >= _NEAR * highest)
    # Being some steps out shows at the multiples.
    reach = max(1, main // 16)
    around = range(max(main - reach, _SHORTEST), min(main + reach, longest) + 1)
    return max(
        (k for k in around if not np.isnan(r[k])), key=lambda k: float(np.nanmean(r[k : 8 * k + 1 : k]))
    )


def _longer_season(r: np.ndarray, error: np.ndarray, main: int) -> int | None:
    """The first multiple of the main season that stands out, and does so again at twice its length."""
    margin = np.maximum(_ABOVE, _LONGER_CHANCE * error * (1.0 - r[main]))

    def rise(k: int) -> float:
        return float(r[k] - np.max([r[k - main], r[k + main]]))

    longer = [
        k
        for k in (m * main for m in _MULTIPLES)
        if 2 * k + main < len(r)
        and min(rise(k), r[k] - r[main]) >= margin[k]
        and rise(2 * k) >= 0.5 * margin[k]
    ]
    return next((k for k in longer if r[k] >= 0.9 * max(r[j] for j in longer)), None)


def _autocorrelation(series: Series, span: int) -> tuple[np.ndarray, np.ndarray]:
    """r(0), r(1), ... of the labels' changes, NaN where unknown, and its standard error without a season.

    Over the n(k) pairs of known changes c that are k steps apart in any stream,

        r(k) = sum c_t c_{t+k} / sqrt(sum c_t^2  sum c_{t+k}^2)

    By Bartlett's formula its variance is (1 + 2 sum_j r(j)^2) / n(k); the sum goes over the first few j
    only, so that a season does not hide behind itself.
    """
    sums, size = np.zeros((4, 2 * _LONGEST + 1)), 0
    for key in np.unique(series.key):
        change = _changes(series.y[series.key == key], span)
        if change is None:
            continue
        lags = min(2 * _LONGEST, len(change) // 2) + 1
        known, c = (~np.isnan(change)).astype(float), np.nan_to_num(change)
        for i, (one, later) in enumerate(((known, known), (c, c), (c**2, known), (known, c**2))):
            sums[i, :lags] += _lagged_products(one, later, lags)
        size = max(size, lags)
    pairs, products, before, after = sums[:, :size]
    usable = (np.round(pairs) >= _FEWEST) & (before > _ROUNDING) & (after > _ROUNDING)
    r = np.full(size, np.nan)
    r[usable] = products[usable] / np.sqrt(before[usable] * after[usable])
    return r, np.sqrt((1.0 + 2.0 * np.nansum(r[1 : span + 3] ** 2)) / np.maximum(pairs, 1.0))


def _changes(y: np.ndarray, span: int) -> np.ndarray | None:
    """Changes since the last label known `span` steps ago, with mean 0 and variance 1, NaN where unknown.

    None if there are too few, or if nothing changes.
    """
    newest = np.maximum.accumulate(
        np.where(np.isnan(y), 0, np.arange(len(y)))
    )  # step of the last known label
    changes = y[span:] - y[newest[:-span]]
    known = ~np.isnan(changes)
    if known.sum() < _FEWEST:
        return None
    change = changes[known] - changes[known].mean()
    for _ in range(3):  # bounded again and again, so that a few jumps do not decide what is usual
        bound = 3.0 * change.std()
        change = np.clip(change, -bound, bound)
    spread = change.std()
    if spread <= 1e-12 * np.nanmax(np.abs(y)):  # rounding: a straight line has no season
        return None
    changes[known] = change / spread
    return changes


def _lagged_products(one: np.ndarray, later: np.ndarray, lags: int) -> np.ndarray:
    """Sum_t a_t b_{t+k} for k = 0, 1, ..., lags - 1."""
    size = 2 * len(one)
    return np.fft.irfft(np.fft.rfft(one, size).conj() * np.fft.rfft(later, size), size)[:lags]
