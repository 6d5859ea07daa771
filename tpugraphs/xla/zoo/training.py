"""Steps of training: loss, gradients, update of the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import NDArray

from tpugraphs.xla.zoo.attention import attend_to, attention_weights
from tpugraphs.xla.zoo.layers import causal_mask, conv, layer_norm, relu
from tpugraphs.xla.zoo.registry import Built, Draw, family

Loss = Callable[[tuple[Array, ...], Array, Array], Array]


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Mean of the negative log-likelihood of ``labels`` (...,) under ``logits`` (..., classes)."""
    hit = jax.nn.one_hot(labels, logits.shape[-1])
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - jnp.sum(hit * logits, axis=-1))


def momentum_step(loss: Loss, weights: list[Any], x: NDArray[Any], labels: NDArray[Any]) -> Built:
    """Return a step of gradient descent with momentum, and its arguments."""
    count = len(weights)

    def step(x: Array, labels: Array, *state: Array) -> tuple[Array, list[Array], list[Array]]:
        value, slopes = jax.value_and_grad(loss)(state[:count], x, labels)
        speeds = [0.9 * v + g for v, g in zip(state[count:], slopes, strict=True)]
        return value, [w - 0.1 * v for w, v in zip(state[:count], speeds, strict=True)], speeds

    return step, (x, labels, *weights, *(0.01 * w for w in weights))


def adam_step(loss: Loss, weights: list[Any], x: NDArray[Any], labels: NDArray[Any]) -> Built:
    """Return a step of Adam with decaying weights, and its arguments."""
    count = len(weights)

    def step(x: Array, labels: Array, *state: Array) -> tuple[Array, list[tuple[Array, ...]]]:
        value, slopes = jax.value_and_grad(loss)(state[:count], x, labels)
        updated: list[tuple[Array, ...]] = []
        for w, m, v, g in zip(
            state[:count], state[count : 2 * count], state[2 * count :], slopes, strict=True
        ):
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * jnp.square(g)
            updated.append((w - 0.01 * (m / (jnp.sqrt(v) + 1e-3) + 0.1 * w), m, v))
        return value, updated

    return step, (x, labels, *weights, *(0.01 * w for w in weights), *(1e-4 + 0.01 * w * w for w in weights))


@family(
    "training-mlp",
    "perceptron",
    {"batch": 64, "widths": (256, 256, 128, 10)},
    {"batch": 1024, "widths": (32, 64, 32, 2)},
    {"batch": 230, "widths": (784, 512, 256, 10)},
    {"batch": 150, "widths": (2048, 2048, 1024, 100)},
)
def training_mlp(draw: Draw, batch: int, widths: tuple[int, ...]) -> Built:
    """Adam on a perceptron."""

    def loss(weights: tuple[Array, ...], x: Array, labels: Array) -> Array:
        for w in weights[:-1]:
            x = relu(x @ w)
        return cross_entropy(x @ weights[-1], labels)

    return adam_step(loss, draw.chain(widths), draw.normal(batch, widths[0]), draw.below(widths[-1], batch))


@family(
    "training-cnn",
    "cnn",
    {"batch": 8, "side": 16, "widths": (3, 16, 32)},
    {"batch": 2, "side": 32, "widths": (1, 8, 8)},
    {"batch": 34, "side": 32, "widths": (3, 32, 64)},
    {"batch": 60, "side": 64, "widths": (3, 32, 64, 128)},
)
def training_cnn(draw: Draw, batch: int, side: int, widths: tuple[int, ...]) -> Built:
    """Momentum on a small CNN."""

    def loss(weights: tuple[Array, ...], x: Array, labels: Array) -> Array:
        for kernel in weights[:-1]:
            x = relu(conv(x, kernel, stride=2))
        return cross_entropy(jnp.mean(x, axis=(1, 2)) @ weights[-1], labels)

    weights = [*draw.chain(widths, 3, 3), draw.weights(widths[-1], 10)]
    return momentum_step(loss, weights, draw.normal(batch, side, side, widths[0]), draw.below(10, batch))


@family(
    "training-transformer",
    "transformer",
    {"batch": 2, "heads": 2, "tokens": 32, "width": 64, "words": 100},
    {"batch": 1, "heads": 4, "tokens": 128, "width": 32, "words": 50},
    {"batch": 3, "heads": 4, "tokens": 64, "width": 128, "words": 1000},
    {"batch": 1, "heads": 8, "tokens": 256, "width": 256, "words": 8000},
)
def training_transformer(draw: Draw, batch: int, heads: int, tokens: int, width: int, words: int) -> Built:
    """Momentum on a language model of one block, its embedding shared with its output."""

    def loss(weights: tuple[Array, ...], text: Array, labels: Array) -> Array:
        table, up, down, *projections = weights
        x = jnp.take(table, text, axis=0)
        x = x + attend_to(x, x, tuple(projections), heads, causal_mask(tokens))
        x = x + relu(layer_norm(x, 1.0) @ up) @ down
        return cross_entropy(x @ table.T / jnp.sqrt(width), labels)

    perceptron = draw.weights(width, 2 * width), draw.weights(2 * width, width)
    weights = [draw.normal(words, width), *perceptron, *attention_weights(draw, width)]
    return momentum_step(loss, weights, draw.below(words, batch, tokens), draw.below(words, batch, tokens))
