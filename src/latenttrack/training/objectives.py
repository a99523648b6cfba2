"""What is maximised: per-step values L_t from a model's terms.

ELBO              L_t = E_q[log p(y_t | x_t; g(z_t))] - beta KL_t      (the model's KL is structured or not)
static ELBO       L_t = E_q[log p(y_t | x_t, w)]      - beta KL(q(w) || p(w)) / N,  N training steps
prior predictive  L_t = log 1/K sum_k p(y_t | x_t; g(z_k)),  z_k from the prior: what the filter is scored on
NLL               L_t = E[log p(y_t | x_t)]
"""

from collections.abc import Callable

from jaxtyping import Array, Float

from latenttrack.models.base import Terms

# (terms [W], beta, number of training steps) -> value of each step [W], to be maximised
Steps = int | Float[Array, ""]
Objective = Callable[[Terms, Float[Array, ""], Steps], Float[Array, " W"]]


def elbo(terms: Terms, beta: Float[Array, ""], steps: Steps) -> Float[Array, " W"]:
    """The filtering ELBO; whether it is structured is the model's choice of KL."""
    del steps
    return terms.log_likelihood - beta * terms.kl


def static_elbo(terms: Terms, beta: Float[Array, ""], steps: Steps) -> Float[Array, " W"]:
    """The ELBO of a fixed posterior over weights, its KL spread over the training steps."""
    return terms.log_likelihood - beta * terms.kl / steps


def prior_predictive(terms: Terms, beta: Float[Array, ""], steps: Steps) -> Float[Array, " W"]:
    """The log-likelihood of the forecast itself: train on what is used."""
    del beta, steps
    return terms.log_predictive


def nll(terms: Terms, beta: Float[Array, ""], steps: Steps) -> Float[Array, " W"]:
    """The plain log-likelihood, averaged over draws or members."""
    del beta, steps
    return terms.log_likelihood


OBJECTIVES: dict[str, Objective] = {
    "elbo": elbo,
    "static-elbo": static_elbo,
    "prior-predictive": prior_predictive,
    "nll": nll,
}


def kl_weight(update: Float[Array, ""], beta_max: float, warmup: int) -> Float[Array, ""]:
    """Beta rises linearly from 0 to beta_max over `warmup` optimiser updates."""
    return beta_max * (update / max(warmup, 1)).clip(0.0, 1.0)
