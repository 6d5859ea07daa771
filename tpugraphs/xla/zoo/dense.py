"""Dense layers, chains of products, normalisations, elementwise chains."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from tpugraphs.xla.zoo.layers import dense, layer_norm, relu, swish
from tpugraphs.xla.zoo.registry import Arrays, Built, Draw, family


@family(
    "mlp",
    "perceptron",
    {"batch": 128, "widths": (128, 512, 512, 64)},
    {"batch": 8, "widths": (1024, 1024, 512, 10)},
    {"batch": 340, "widths": (512, 1024, 1024, 256)},
    {"batch": 540, "widths": (2048, 2048, 2048, 1000)},
)
def mlp(draw: Draw, batch: int, widths: tuple[int, ...]) -> Built:
    """Perceptron with biases and ReLU."""
    layers = len(widths) - 1

    def forward(x: Array, *weights: Array) -> Array:
        for w, b in zip(weights[: layers - 1], weights[layers:-1], strict=True):
            x = relu(dense(x, w, b))
        return dense(x, weights[layers - 1], weights[-1])

    return forward, (
        draw.normal(batch, widths[0]),
        *draw.chain(widths),
        *(draw.normal(n, scale=0.1) for n in widths[1:]),
    )


@family(
    "mlp-mixer",
    "mixer",
    {"batch": 4, "tokens": 64, "width": 128, "hidden": 64},
    {"batch": 2, "tokens": 196, "width": 64, "hidden": 256},
    {"batch": 2, "tokens": 196, "width": 256, "hidden": 128},
    {"batch": 5, "tokens": 400, "width": 512, "hidden": 256},
)
def mlp_mixer(draw: Draw, batch: int, tokens: int, width: int, hidden: int) -> Built:
    """Two blocks that mix along tokens, then along channels."""

    def block(x: Array, t1: Array, t2: Array, c1: Array, c2: Array, scale: Array) -> Array:
        y = jnp.swapaxes(layer_norm(x, scale), 1, 2)
        x = x + jnp.swapaxes(swish(y @ t1) @ t2, 1, 2)
        return x + swish(layer_norm(x, scale) @ c1) @ c2

    def forward(x: Array, *weights: Array) -> Array:
        return block(block(x, *weights[:5]), *weights[5:])

    def of_block() -> Arrays:
        mixing = draw.weights(tokens, hidden), draw.weights(hidden, tokens)
        channels = draw.weights(width, 2 * width), draw.weights(2 * width, width)
        return *mixing, *channels, draw.uniform(width, low=0.5, high=1.5)

    return forward, (draw.normal(batch, tokens, width), *of_block(), *of_block())


@family(
    "batched-products",
    "products",
    {"batch": 32, "m": 64, "k": 64, "n": 64},
    {"batch": 4, "m": 256, "k": 32, "n": 256},
    {"batch": 25, "m": 128, "k": 128, "n": 128},
    {"batch": 49, "m": 384, "k": 256, "n": 320},
)
def batched_products(draw: Draw, batch: int, m: int, k: int, n: int) -> Built:
    """Products of batches of matrices with transposed operands and a batch axis that moves."""

    def forward(a: Array, b: Array, c: Array, d: Array) -> Array:
        p = a @ jnp.swapaxes(b, 1, 2)  # (batch, m, n)
        q = jnp.swapaxes(p, 1, 2) @ a  # (batch, n, k)
        r = jnp.einsum("bnk,kbm->nbm", q, c) / m
        s = jnp.einsum("nbm,nb->mb", jnp.tanh(r), d)
        return s + jnp.einsum("bmn,nb->mb", p, d) / n

    arrays = draw.normal(batch, m, k, scale=k**-0.5), draw.normal(batch, n, k), draw.normal(k, batch, m)
    return forward, (*arrays, draw.normal(n, batch))


@family(
    "tensor-network",
    "tensor network",
    {"batch": 1024, "sites": 6, "bond": 16, "physical": 4},
    {"batch": 8, "sites": 5, "bond": 48, "physical": 8},
    {"batch": 8192, "sites": 8, "bond": 32, "physical": 4},
    {"batch": 49000, "sites": 12, "bond": 64, "physical": 2},
)
def tensor_network(draw: Draw, batch: int, sites: int, bond: int, physical: int) -> Built:
    """Contract a matrix product state with a batch of product states, and with itself for its norm."""

    def forward(x: Array, cores: Array) -> tuple[Array, Array]:
        left = jnp.ones((batch, bond)) / bond
        norm = jnp.eye(bond)
        for site in range(sites):
            left = jnp.einsum("bl,lpr,bp->br", left, cores[site], x[:, site])
            norm = jnp.einsum("lm,lpr,mps->rs", norm, cores[site], cores[site]) / physical
        return left, norm

    cores = draw.weights(sites, bond, physical, bond, fan_in=bond)
    return forward, (draw.normal(batch, sites, physical), cores)


@family(
    "elementwise-chain",
    "pointwise",
    {"shape": (256, 512)},
    {"shape": (8, 8192)},
    {"shape": (280, 2048)},
    {"shape": (21, 256, 1000)},
)
def elementwise_chain(draw: Draw, shape: tuple[int, ...]) -> Built:
    """Elementwise functions with an operand for every row and one for every column."""

    def forward(x: Array, y: Array, row: Array, column: Array) -> tuple[Array, Array]:
        u = jnp.tanh(x * row + y) + column
        v = jnp.exp(-jnp.square(u)) * jnp.where(x > y, x, 0.5 * (x + y))
        w = jnp.log1p(jnp.abs(v)) + jnp.sqrt(jnp.square(u) + 1.0)
        return v / w, jnp.sin(w) * jnp.cos(u) - row * v

    return forward, (
        draw.normal(*shape),
        draw.normal(*shape),
        draw.normal(shape[-1]),
        draw.normal(*shape[:-1], 1),
    )


@family(
    "softmax-layer-norm",
    "normalisation",
    {"batch": 8, "tokens": 128, "width": 256, "axis": -1},
    {"batch": 4, "tokens": 512, "width": 64, "axis": 1},
    {"batch": 21, "tokens": 512, "width": 256, "axis": -1},
    {"batch": 36, "tokens": 1024, "width": 512, "axis": 1},
)
def softmax_layer_norm(draw: Draw, batch: int, tokens: int, width: int, axis: int) -> Built:
    """Layer norm, softmax along an axis, weighted sum, layer norm."""

    def forward(x: Array, scale: Array, shift: Array, gate: Array) -> tuple[Array, Array]:
        y = layer_norm(x, scale, shift)
        p = jax.nn.softmax(y * gate, axis=axis)
        z = layer_norm(x + p * jnp.sum(p * y, axis=axis, keepdims=True), scale, shift)
        return z, jax.nn.logsumexp(z, axis=axis)

    vectors = draw.uniform(width, low=0.5, high=1.5), draw.normal(width, scale=0.1), draw.normal(width)
    return forward, (draw.normal(batch, tokens, width), *vectors)


@family(
    "group-norm",
    "normalisation",
    {"batch": 4, "side": 32, "width": 64, "groups": 8},
    {"batch": 1, "side": 128, "width": 16, "groups": 4},
    {"batch": 4, "side": 64, "width": 64, "groups": 8},
    {"batch": 3, "side": 128, "width": 96, "groups": 32},
)
def group_norm(draw: Draw, batch: int, side: int, width: int, groups: int) -> Built:
    """Two group norms with swish and a residual on images (b, h, w, c)."""

    def normalise(x: Array, scale: Array, shift: Array) -> Array:
        grouped = x.reshape(batch, side, side, groups, width // groups)
        return layer_norm(grouped, 1.0, axis=(1, 2, 4)).reshape(x.shape) * scale + shift

    def forward(x: Array, s1: Array, b1: Array, s2: Array, b2: Array) -> Array:
        y = swish(normalise(x, s1, b1))
        return x + swish(normalise(y, s2, b2))

    scales = [draw.uniform(width, low=0.5, high=1.5) for _ in range(2)]
    shifts = [draw.normal(width, scale=0.1) for _ in range(2)]
    return forward, (draw.normal(batch, side, side, width), scales[0], shifts[0], scales[1], shifts[1])


@family(
    "vae",
    "latent",
    {"batch": 64, "width": 784, "hidden": 128, "latent": 16},
    {"batch": 512, "width": 64, "hidden": 96, "latent": 32},
    {"batch": 550, "width": 784, "hidden": 400, "latent": 20},
    {"batch": 780, "width": 3072, "hidden": 1024, "latent": 64},
)
def vae(draw: Draw, batch: int, width: int, hidden: int, latent: int) -> Built:
    """Variational autoencoder: encode, sample with given noise, decode, evidence lower bound."""

    def forward(
        x: Array, noise: Array, enc: Array, to_mean: Array, to_spread: Array, dec: Array, out: Array
    ) -> tuple[Array, Array]:
        h = relu(x @ enc)
        mean, log_variance = h @ to_mean, jnp.tanh(h @ to_spread)
        z = mean + jnp.exp(0.5 * log_variance) * noise
        logits = relu(z @ dec) @ out
        fit = jnp.sum(x * logits - jnp.logaddexp(logits, 0.0), axis=-1)
        divergence = 0.5 * jnp.sum(jnp.exp(log_variance) + jnp.square(mean) - 1.0 - log_variance, axis=-1)
        return jnp.mean(fit - divergence) / width, jax.nn.sigmoid(logits)

    heads = draw.weights(hidden, latent), draw.weights(hidden, latent)
    ends = draw.weights(latent, hidden), draw.weights(hidden, width)
    return forward, (
        draw.uniform(batch, width),
        draw.normal(batch, latent),
        draw.weights(width, hidden),
        *heads,
        *ends,
    )
