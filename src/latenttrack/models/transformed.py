"""A target transform with its Jacobian: the inner tracker hears and forecasts a bent label.

Labels that cannot be negative and are skewed (counts, loads, prices) are closer to a normal law after a
square root or a logarithm. With y the standardised label and v = loc + scale y the original one, the inner
label is

    u = (g(v) - centre) / spread,    g(v) = sqrt(v - low + offset)  or  log(v - low + offset)

for low <= v <= high, and beyond both ends g goes on along its tangent. So every real label is legal, however
far from those seen; the Jacobian du/dy is continuous and finite everywhere; and y has a mean and a variance
wherever u has them, which under the logarithm alone no Student-t would leave it.

Densities are of y: log p(y) = log p(u) + log du/dy. So transforms can be compared by their NLL.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.data.matching import choose
from latenttrack.errors import LatentTrackError
from latenttrack.models.base import AbstractTracker, State, Terms, Window
from latenttrack.models.grid import lay_grid, warp_grid
from latenttrack.models.predictive import Predictive
from latenttrack.models.warped import Warped


class _Bend(NamedTuple):
    """A concave rising function, its inverse, its slope, and bend(b q) = level(b) + gain(b) bend(q)."""

    forward: Callable[[Array], Array]
    inverse: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    level: Callable[[float], float]
    gain: Callable[[float], float]
    fit: np.ufunc  # `forward` in double precision


KINDS: dict[str, _Bend] = {
    "sqrt": _Bend(jnp.sqrt, jnp.square, lambda q: 0.5 / jnp.sqrt(q), lambda b: 0.0, math.sqrt, np.sqrt),
    "log": _Bend(jnp.log, jnp.exp, lambda q: 1.0 / q, math.log, lambda b: 1.0, np.log),
}


@dataclass(frozen=True)
class Curve:
    """The bijection between y and u, of plain numbers: JSON-safe, and constant in a compiled program.

    In single precision it is computed as u = level + gain bend(q) with q = y - origin, a distance in units of
    y: original labels may be of any size.
    """

    kind: str  # one of `KINDS`
    loc: float
    scale: float
    offset: float
    low: float
    high: float
    centre: float
    spread: float

    def to_inner(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """U, from y."""
        q = y - self._origin
        within = jnp.clip(q, *self._range)
        bent = self._bend.forward(within) + self._bend.slope(within) * (q - within)
        return self._level + self._gain * bent

    def to_label(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Y, from u."""
        bent, within = self._bent(u)
        q = self._bend.inverse(within)
        return self._origin + q + (bent - within) / self._bend.slope(q)

    def log_slope(self, y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Log du/dy, from y."""
        return jnp.log(self._gain * self._bend.slope(jnp.clip(y - self._origin, *self._range)))

    def label_slope(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """dy/du, from u."""
        return 1.0 / (self._gain * self._bend.slope(self._bend.inverse(self._bent(u)[1])))

    def window(self, window: Window) -> Window:
        """The window with u in place of y."""
        return window._replace(y=self.to_inner(window.y), due_y=self.to_inner(window.due_y))

    def _bent(self, u: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        bent = (u - self._level) / self._gain
        low, high = (float(self._bend.fit(q)) for q in self._range)
        return bent, jnp.clip(bent, low, high)

    @property
    def _bend(self) -> _Bend:
        return KINDS[self.kind]

    @property
    def _origin(self) -> float:
        return (self.low - self.offset - self.loc) / self.scale

    @property
    def _range(self) -> tuple[float, float]:
        return self.offset / self.scale, (self.high - self.low + self.offset) / self.scale

    @property
    def _level(self) -> float:
        return (self._bend.level(self.scale) - self.centre) / self.spread

    @property
    def _gain(self) -> float:
        return self._bend.gain(self.scale) / self.spread


# Standardised labels come back from single precision with errors of this size, in units of `scale`; ...
_ROUNDING = 1e-6
# ... so that a smaller distance from `low` than this says nothing, and is not to be magnified.
_LEAST_OFFSET = 1e-4
_MANY = 0.001  # share of labels at `low` from which on they are no accident


def fit_transform(
    kind: str, labels: Float[np.ndarray, " n"], loc: float, scale: float
) -> dict[str, str | float]:
    """The transform that suits some labels: the setting `transform` of a model.

    `low` is 0 if no label is negative, else the smallest label; `high` is as far beyond the largest label as
    that is from `low`. The offset decides how far apart labels next to `low` are torn, to which the logarithm
    sets no bound of its own: one part in a hundred of the median distance from `low`; but where labels stand
    at `low` itself (empty hours of a counter) at least the distance at which others begin, for counts 1.
    Centre and spread are such that u has mean 0 and variance 1 on these labels.

    Args:
        kind: "sqrt" or "log".
        labels: original labels of the training part; those missing (NaN) are left out.
        loc: the standardised label is (label - loc) / scale.
        scale: see `loc`.
    """
    bend = choose("transform", kind, KINDS)
    known = np.asarray(labels, float)[np.isfinite(labels)]
    if not len(known) or np.ptp(known) <= _ROUNDING * scale:
        raise LatentTrackError("the labels are missing or all the same: leave the transform out")
    low = 0.0 if known.min() >= -_ROUNDING * scale else float(known.min())
    distance = np.maximum(known - low, 0.0)
    offset = _choose_offset(distance, scale)
    bent = bend.fit(distance + offset)
    curve = Curve(
        kind=kind,
        loc=float(loc),
        scale=float(scale),
        offset=offset,
        low=low,
        high=low + 2.0 * float(distance.max()),
        centre=float(bent.mean()),
        spread=float(bent.std()),
    )
    return asdict(curve)


def _choose_offset(distance: np.ndarray, scale: float) -> float:
    apart = distance > _ROUNDING * scale
    offset = max(0.01 * float(np.median(distance[apart])), _LEAST_OFFSET * scale)
    if np.mean(~apart) < _MANY:
        return offset
    return max(offset, float(np.quantile(distance[apart], 0.01)))


class Transformed(AbstractTracker):
    """`inner` tracks u. The outermost wrapper: safety net, recalibration and anchors all work on u.

    It has no belief of its own: the state is `inner`'s.
    """

    inner: AbstractTracker
    curve: Curve = eqx.field(static=True)

    def init(self) -> State:
        """The inner belief before any data."""
        return self.inner.init()

    def update(self, state: State, x: Float[Array, " F"], y: Float[Array, ""]) -> State:
        """The inner tracker learns from u."""
        return self.inner.update(state, x, self.curve.to_inner(y))

    def advance(self, state: State, x: Float[Array, " F"]) -> State:
        """The inner tracker takes note of x."""
        return self.inner.advance(state, x)

    def predict(self, state: State, x: Float[Array, " F"], key: PRNGKeyArray) -> Predictive:
        """The inner forecast of u, as one of y."""
        return TransformedPredictive.of(self.inner.predict(state, x, key), self.curve)

    def inside(self, window: Window) -> Window:
        """A stream as the inner tracker sees it."""
        return self.curve.window(window)

    def renew(self, state: State) -> State:
        """The inner tracker's."""
        return self.inner.renew(state)

    def window_terms(self, state: State, window: Window, key: PRNGKeyArray) -> tuple[Terms, State]:
        """The inner terms; densities are per unit of y."""
        terms, state = self.inner.window_terms(state, self.inside(window), key)
        log_slope = self.curve.log_slope(window.y)
        terms = terms._replace(
            log_likelihood=terms.log_likelihood + log_slope, log_predictive=terms.log_predictive + log_slope
        )
        return terms, state


class TransformedPredictive(Predictive):
    """The forecast of loc + scale y(U), where U has the forecast `base`: a mixture, possibly warped.

    Density, distribution function, quantiles and draws are exact. Mean and variance are integrals over a
    fixed grid of u, of what y(u) is apart from its tangent at the mean of U: exact where the curve is
    straight, and otherwise the mean to a thousandth of the standard deviation and the variance to one part in
    thirty; of a Student-t with fewer than 6 degrees of freedom it misses more, at 3 about a fifth, which lies
    beyond the grid. Aleatoric and epistemic variance are those of the transformed components (law of total
    variance), draw by draw; a warp keeps their ratio.

    `components` and `log_weights` are those of u.
    """

    base: Predictive
    curve: Curve = eqx.field(static=True)
    loc: Float[Array, ""]
    scale: Float[Array, ""]
    moments: "Moments"  # of y, before loc and scale

    @classmethod
    def of(cls, base: Predictive, curve: Curve) -> "TransformedPredictive":
        """The forecast of y, from that of u."""
        if isinstance(base, TransformedPredictive):
            raise LatentTrackError("a transformed tracker cannot be transformed again: transform last, once")
        zero = jnp.zeros_like(base.log_weights[0])
        moments = _moments(base, curve)
        return cls(base.components, base.log_weights, base, curve, zero, jnp.ones_like(zero), moments)

    @property
    def mixture(self) -> Predictive:
        """The forecast of u before any warp."""
        return _unwarped(self.base)

    def to_inner(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """The u of a label."""
        return self.curve.to_inner((y - self.loc) / self.scale)

    @property
    def mean(self) -> Float[Array, ""]:
        """E[y]."""
        return self.loc + self.scale * self.moments.mean

    @property
    def aleatoric(self) -> Float[Array, ""]:
        """Noise: the mean of the components' variances."""
        return self.scale**2 * self.moments.aleatoric

    @property
    def epistemic(self) -> Float[Array, ""]:
        """Ignorance: the variance of the components' means."""
        return self.scale**2 * self.moments.epistemic

    def log_prob(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """log p(u) + log du/dy."""
        standard = (y - self.loc) / self.scale
        log_slope = self.curve.log_slope(standard) - jnp.log(self.scale)
        return self.base.log_prob(self.curve.to_inner(standard)) + log_slope

    def cdf(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """P(U <= u): the curve rises."""
        return self.base.cdf(self.to_inner(y))

    def quantile(self, q: Float[Array, ""]) -> Float[Array, ""]:
        """The y of the quantile of U."""
        return self.loc + self.scale * self.curve.to_label(self.base.quantile(q))

    def quantiles(self, levels: Float[Array, " Q"]) -> Float[Array, " Q"]:
        """The y of the quantiles of U; an error of theirs grows or shrinks with the slope of the curve."""
        return self.loc + self.scale * self.curve.to_label(self.base.quantiles(levels))

    def sample(self, key: PRNGKeyArray) -> Float[Array, ""]:
        """The y of a draw of U."""
        return self.loc + self.scale * self.curve.to_label(self.base.sample(key))

    def affine(self, loc: Float[Array, ""], scale: Float[Array, ""]) -> "TransformedPredictive":
        """The same forecast of u, read in other units."""
        moved = (loc + scale * self.loc, scale * self.scale)
        return TransformedPredictive(
            self.components, self.log_weights, self.base, self.curve, *moved, self.moments
        )


class Moments(NamedTuple):
    """The first moment of a forecast, and the two halves of its variance."""

    mean: Float[Array, ""]
    aleatoric: Float[Array, ""]
    epistemic: Float[Array, ""]


def _unwarped(base: Predictive) -> Predictive:
    return base.base if isinstance(base, Warped) else base


def _moments(base: Predictive, curve: Curve) -> Moments:
    """E and Var of y(U), U a mixture, and what a warp changes in them.

    With y(u) = y(m) + b (u - m) + r(u), m = E U, component k has

        E_k[y - y(m)]   = b (m_k - m) + E_k r
        E_k[y - y(m)]^2 = b^2 (s_k^2 + (m_k - m)^2) + E_k[2 b (u - m) r + r^2]

    A warp H adds, with D = H(F) - F, -int y' D du to the mean and -2 int (y - E) y' D du to E(y - E)^2.
    """
    mixture = _unwarped(base)
    m, components, weights = mixture.mean, mixture.components, mixture.weights
    grid = lay_grid(mixture)
    start, slope = curve.to_label(m), curve.label_slope(m)
    line = slope * (grid.u - m)
    y = curve.to_label(grid.u) - start
    r = y - line

    away = slope * (components.mean() - m)
    first = away + r @ grid.mass
    second = slope**2 * components.variance() + away**2 + (r * (line + y)) @ grid.mass
    mean = jnp.sum(weights * first)
    epistemic = jnp.sum(weights * (components.by_draw(first) - mean) ** 2)
    total = jnp.sum(weights * second) - mean**2
    # Noise is never nothing: of a difference that is all rounding, a rounding is left.
    aleatoric = jnp.maximum(total - epistemic, jnp.finfo(total.dtype).eps * total)
    if not isinstance(base, Warped):
        return Moments(start + mean, aleatoric, epistemic)
    D = grid.step * curve.label_slope(grid.u) * warp_grid(base, grid)[1]
    shift = jnp.sum(D)
    variance = aleatoric + epistemic
    share = (variance - 2.0 * jnp.sum((y - mean) * D) - shift**2) / variance
    return Moments(start + mean - shift, share * aleatoric, share * epistemic)
