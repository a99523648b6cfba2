"""Credit weights: how much each step of a window counts, detached from the gradient.

    fixed recency    w_tau = lambda^(t - tau),  t the window's last step
    surprise-aware   w_tau = lambda^(t - tau) * exp(alpha * max(0, NLL_tau - EMA_NLL_tau))

The loss of a window is sum(w L) / max(sum(w), eps).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

_LONGEST_SURPRISE = 20.0  # exp(20) is already the whole window; more would overflow


def recency(steps: int, decay: float) -> Float[Array, " W"]:
    """lambda^(t - tau) for tau = t - W + 1 ... t."""
    return decay ** jnp.arange(steps - 1, -1, -1, dtype=jnp.float32)


def surprise(
    nll: Float[Array, " W"], observed: Bool[Array, " W"], ema: Float[Array, ""], *, alpha: float, rate: float
) -> tuple[Float[Array, " W"], Float[Array, ""]]:
    """exp(alpha [NLL - EMA]_+) for each step, and the running mean after the window.

    The first observed step sets the mean (it starts as NaN), so that it causes no surprise.
    """
    nll = jax.lax.stop_gradient(nll)

    def body(ema: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        value, seen = row
        ema = jnp.where(jnp.isnan(ema) & seen, value, ema)
        excess = jnp.where(seen, jnp.maximum(value - ema, 0.0), 0.0)
        return jnp.where(seen, ema + rate * (value - ema), ema), excess

    ema, excess = jax.lax.scan(body, ema, (nll, observed))
    return jnp.exp(jnp.minimum(alpha * excess, _LONGEST_SURPRISE)), ema
