"""The hypernetwork: a latent z becomes every weight and bias of a small predictor.

    g = act(G z + c)                     features of the latent
    theta(z) = theta_0 + A g             all weights and biases, linear in g
    f_theta(x)                           a multi-layer perceptron with those weights

Because theta is linear in g, the first layer needs no weight matrix per latent:
x . W_1(z) = (x . A_1) g(z). x meets the generator once, and the K latents meet the small result.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from latenttrack.errors import LatentTrackError
from latenttrack.models.base import Constant, make_dropout

Activation = Callable[[Array], Array]


class GeneratedLinear(eqx.Module):
    """A linear layer whose weight and bias are affine in the latent features g."""

    base_weight: Float[Array, "out in"]
    base_bias: Float[Array, " out"]
    weight: Float[Array, "G out in"]
    bias: Float[Array, "G out"]
    gain: Constant

    def __init__(
        self,
        in_size: int,
        out_size: int,
        features: int,
        *,
        generator_scale: float,
        gain: float,
        key: PRNGKeyArray,
    ):
        k1, k2, k3 = jax.random.split(key, 3)
        limit = in_size**-0.5
        # theta_0 starts as an ordinary network; A is small, and scaled by the fan-in of the layer it
        # generates.
        self.base_weight = jax.random.uniform(k1, (out_size, in_size), minval=-limit, maxval=limit)
        self.base_bias = jnp.zeros(out_size)
        spread = generator_scale * features**-0.5
        self.weight = (spread * limit / gain) * jax.random.normal(k2, (features, out_size, in_size))
        self.bias = spread * limit * jax.random.normal(k3, (features, out_size))
        self.gain = Constant(jnp.float32(gain))

    def generate(self, g: Float[Array, " G"]) -> tuple[Float[Array, "out in"], Float[Array, " out"]]:
        """The weight and bias for one latent, written out."""
        weight = self.base_weight + self.gain.value * jnp.einsum("g,goi->oi", g, self.weight)
        return weight, self.base_bias + g @ self.bias

    def shared_input(self, x: Float[Array, " in"], g: Float[Array, "K G"]) -> Float[Array, "K out"]:
        """One x for all K latents: contract x with the generator first, then with the latents."""
        generated = self.gain.value * jnp.einsum("goi,i->go", self.weight, x) + self.bias
        return g @ generated + (self.base_weight @ x + self.base_bias)

    def own_input(self, a: Float[Array, "K in"], g: Float[Array, "K G"]) -> Float[Array, "K out"]:
        """Each latent has its own input, so its weights are written out: the later layers are small."""
        weight = self.base_weight + self.gain.value * jnp.einsum("kg,goi->koi", g, self.weight)
        # A sum of products compiles to faster code than K products of small matrices with vectors.
        return jnp.sum(weight * a[:, None, :], axis=-1) + g @ self.bias + self.base_bias


class Hypernetwork(eqx.Module):
    """z -> weights of the predictor, and the predictor applied with them."""

    features: eqx.nn.Linear
    layers: tuple[GeneratedLinear, ...]
    skip: GeneratedLinear | None
    dropout: eqx.nn.Dropout
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        latent_size: int,
        sizes: tuple[int, ...],
        *,
        features: int,
        activation: Activation,
        skip: bool = False,
        dropout: float = 0.0,
        generator_scale: float = 0.3,
        gain: float = 1.0,
        key: PRNGKeyArray,
    ):
        """`sizes`: the predictor's inputs, hidden layers, outputs. `skip`: a generated path x -> mean.

        With a `gain` below 1 the generators of weights start alike and learn more slowly than the rest: theta
        is theta_0 + gain A g, and A is drawn larger in proportion. Those of biases, through which the latent
        acts like one more input, are not held back.
        """
        if len(sizes) < 2:
            raise LatentTrackError(f"predictor sizes {sizes} need at least an input and an output size")
        key, k_features, k_skip = jax.random.split(key, 3)
        self.features = eqx.nn.Linear(latent_size, features, key=k_features)
        self.layers = tuple(
            GeneratedLinear(a, b, features, generator_scale=generator_scale, gain=gain, key=k)
            for a, b, k in zip(sizes[:-1], sizes[1:], jax.random.split(key, len(sizes) - 1), strict=True)
        )
        self.skip = (
            GeneratedLinear(sizes[0], 1, features, generator_scale=generator_scale, gain=gain, key=k_skip)
            if skip
            else None
        )
        self.dropout = make_dropout(dropout)
        self.activation = activation

    def __call__(
        self, x: Float[Array, " F"], z: Float[Array, "K dz"], key: PRNGKeyArray | None = None
    ) -> Float[Array, "K out"]:
        """f_{theta(z_k)}(x) for K latents, without writing theta out. `key` turns dropout on."""
        inference = self.dropout.inference or key is None
        g = self.activation(jax.vmap(self.features)(z))
        out = self.layers[0].shared_input(x, g)
        for layer in self.layers[1:]:
            hidden = self.dropout(self.activation(out), key=key, inference=inference)
            out = layer.own_input(hidden, g)
        if self.skip is not None:
            out = out.at[:, 0].add(self.skip.shared_input(x, g)[:, 0])
        return out

    def plain(self, x: Float[Array, " F"], z: Float[Array, " dz"]) -> Float[Array, " out"]:
        """The same for one latent the plain way: write every weight out, then run the network with them."""
        g = self.activation(self.features(z))
        out = x
        for i, layer in enumerate(self.layers):
            weight, bias = layer.generate(g)
            out = weight @ (out if i == 0 else self.activation(out)) + bias
        if self.skip is not None:
            weight, bias = self.skip.generate(g)
            out = out.at[0].add((weight @ x + bias)[0])
        return out
