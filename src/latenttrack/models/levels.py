"""Where a distribution function reaches given levels: Newton's method within brackets, all at once."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

_MOST_ROUNDS = 256  # ends the search should a NaN ever enter it; it needs far fewer
_SURE = 5e-3  # a Newton step of this share of the smallest scale is the last one
_ROUNDING = 2e-7  # of a distribution function: nearer to its level it says nothing
_HALF = 1e-6  # of the smallest scale: so close bisection comes, where there is no slope to follow


class _Search(NamedTuple):
    lo: Float[Array, " Q"]
    hi: Float[Array, " Q"]
    y: Float[Array, " Q"]
    step: Float[Array, " Q"]
    before: Float[Array, " Q"]  # the step before that
    settled: Bool[Array, " Q"]
    rounds: Int[Array, ""]


def bracket_levels(
    levels: Float[Array, " Q"], mean: Float[Array, ""], sd: Float[Array, ""]
) -> tuple[Float[Array, " Q"], Float[Array, " Q"]]:
    """Where the quantiles of any distribution with this mean and deviation must lie (Cantelli's inequality).

    P(Y <= mean - k sd) <= 1 / (1 + k^2), and the same above. A little more, for rounding.
    """
    odds = jnp.sqrt((1.0 - levels) / levels)
    slack = 1e-3 + 4.0 * jnp.finfo(levels.dtype).eps * jnp.abs(mean) / sd
    return mean - sd * (1.01 * odds + slack), mean + sd * (1.01 / odds + slack)


def find_levels(
    measure: Callable[[Float[Array, " Q"]], tuple[Float[Array, " Q"], Float[Array, " Q"]]],
    levels: Float[Array, " Q"],
    start: Float[Array, " Q"],
    bracket: tuple[Float[Array, " Q"], Float[Array, " Q"]],
    scale: Float[Array, ""],
) -> Float[Array, " Q"]:
    """The y with F(y) = q for each level q.

    Every round measures F and the density p at the newest points, which narrows the brackets, and takes a
    Newton step d = (q - F) / p; or halves the bracket, if d would leave it or does not shrink. The error that
    a Newton step leaves is d^2 |p'| / 2 p. The log density of a normal or Student-t component of scale s
    falls by at most u / s per unit, u = |y - loc| / s, and where u > 13 single precision knows of no density.
    So after a last step of at most 5e-3 s, s the smallest scale, less than 2e-4 s is left (4e-5 s at u < 3,
    where quantiles usually are).

    Args:
        measure: y -> (F, p).
        levels: between 0 and 1.
        start: the better it is, the fewer rounds; from a good ladder one or two.
        bracket: (lo, hi), sure to hold the quantiles.
        scale: the smallest of any component, s.
    """
    lo, hi = bracket
    start = jnp.clip(start, lo, hi)
    never = jnp.zeros(levels.shape, bool)
    first = _Search(lo, hi, start, hi - lo, hi - lo, never, jnp.zeros((), jnp.int32))

    def narrow(s: _Search) -> _Search:
        F, p = measure(s.y)
        miss = F - levels
        lo, hi = jnp.where(miss < 0, s.y, s.lo), jnp.where(miss < 0, s.hi, s.y)
        newton = -miss / p  # infinite or NaN on a plateau: refused below
        good = (s.y + newton >= lo) & (s.y + newton <= hi) & (jnp.abs(newton) <= 0.5 * jnp.abs(s.before))
        y = jnp.where(s.settled, s.y, jnp.where(good, s.y + newton, lo + 0.5 * (hi - lo)))
        step = y - s.y
        near = jnp.where(good, _SURE, _HALF) * scale + jnp.finfo(y.dtype).eps * jnp.abs(y)
        settled = s.settled | (jnp.abs(step) <= near) | (jnp.abs(miss) <= _ROUNDING)
        return _Search(lo, hi, y, step, s.step, settled, s.rounds + 1)

    return jax.lax.while_loop(lambda s: (s.rounds < _MOST_ROUNDS) & ~jnp.all(s.settled), narrow, first).y
