"""Attention with its heads axis in several places, and transformer blocks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from tpugraphs.xla.zoo.layers import attend, causal_mask, layer_norm, relu, split_heads, swish
from tpugraphs.xla.zoo.registry import Arrays, Built, Draw, family


@family(
    "attention-bhtd",
    "attention",
    {"batch": 2, "heads": 4, "tokens": 128, "width": 32},
    {"batch": 1, "heads": 2, "tokens": 384, "width": 64},
    {"batch": 3, "heads": 8, "tokens": 256, "width": 64},
    {"batch": 2, "heads": 6, "tokens": 1024, "width": 64},
)
def attention_bhtd(draw: Draw, batch: int, heads: int, tokens: int, width: int) -> Built:
    """Attention on (b, h, t, d) by batched products."""

    def forward(q: Array, k: Array, v: Array) -> Array:
        scores = q @ jnp.swapaxes(k, 2, 3) / jnp.sqrt(width)
        return jax.nn.softmax(scores, axis=-1) @ v

    return forward, tuple(draw.normal(batch, heads, tokens, width) for _ in range(3))


@family(
    "attention-bthd",
    "attention",
    {"batch": 2, "heads": 4, "tokens": 128, "width": 32},
    {"batch": 16, "heads": 12, "tokens": 20, "width": 16},
    {"batch": 2, "heads": 8, "tokens": 256, "width": 32},
    {"batch": 3, "heads": 12, "tokens": 512, "width": 64},
)
def attention_bthd(draw: Draw, batch: int, heads: int, tokens: int, width: int) -> Built:
    """Causal attention on (b, t, h, d), with the projection of the heads."""

    def forward(q: Array, k: Array, v: Array, out: Array) -> Array:
        return jnp.einsum("bthd,hde->bte", attend(q, k, v, causal_mask(tokens)), out)

    arrays = [draw.normal(batch, tokens, heads, width) for _ in range(3)]
    return forward, (*arrays, draw.weights(heads, width, heads * width))


@family(
    "attention-fused",
    "attention",
    {"batch": 4, "heads": 4, "tokens": 64, "width": 128},
    {"batch": 1, "heads": 16, "tokens": 160, "width": 128},
    {"batch": 5, "heads": 8, "tokens": 128, "width": 256},
    {"batch": 5, "heads": 12, "tokens": 256, "width": 768},
)
def attention_fused(draw: Draw, batch: int, heads: int, tokens: int, width: int) -> Built:
    """Attention with queries, keys and values from one product; the heads come before the batch."""

    def forward(x: Array, joined: Array, out: Array) -> Array:
        qkv = (x @ joined).reshape(batch, tokens, 3, heads, width // heads)
        q, k, v = jnp.transpose(qkv, (2, 3, 0, 1, 4))  # each (h, b, t, d)
        scores = jnp.einsum("hbtd,hbsd->hbts", q, k) * (width // heads) ** -0.5
        y = jnp.einsum("hbts,hbsd->bthd", jax.nn.softmax(scores, axis=-1), v)
        return y.reshape(batch, tokens, width) @ out

    return forward, (
        draw.normal(batch, tokens, width),
        draw.weights(width, 3 * width),
        draw.weights(width, width),
    )


@family(
    "linear-attention",
    "linear attention",
    {"batch": 2, "heads": 4, "tokens": 256, "width": 32, "features": 32},
    {"batch": 1, "heads": 2, "tokens": 1024, "width": 16, "features": 64},
    {"batch": 2, "heads": 8, "tokens": 1024, "width": 32, "features": 32},
    {"batch": 4, "heads": 8, "tokens": 1300, "width": 64, "features": 64},
)
def linear_attention(draw: Draw, batch: int, heads: int, tokens: int, width: int, features: int) -> Built:
    """Attention through positive features: keys and values are summed up once."""

    def forward(q: Array, k: Array, v: Array, basis: Array) -> Array:
        q, k = jax.nn.softplus(q @ basis), jax.nn.softplus(k @ basis)  # (b, t, h, features)
        memory = jnp.einsum("bshf,bshd->bhfd", k, v)
        weight = jnp.einsum("bthf,bhf->bth", q, jnp.sum(k, axis=1))
        return jnp.einsum("bthf,bhfd->bthd", q, memory) / weight[..., None]

    arrays = [draw.normal(batch, tokens, heads, width) for _ in range(3)]
    return forward, (*arrays, draw.weights(width, features))


def attention_weights(draw: Draw, width: int) -> Arrays:
    """Weights of a projection to queries, keys, values, and of the one back."""
    return tuple(draw.weights(width, width) for _ in range(4))


def attend_to(x: Array, memory: Array, weights: tuple[Array, ...], heads: int, mask: Array | float) -> Array:
    """Project, attend from ``x`` (b, t, d) to ``memory`` (b, s, d), project back."""
    q, k, v = (split_heads(y @ w, heads) for y, w in zip((x, memory, memory), weights[:3], strict=True))
    return attend(q, k, v, mask).reshape(x.shape) @ weights[3]


@family(
    "encoder-block",
    "transformer",
    {"batch": 2, "heads": 4, "tokens": 64, "width": 128, "hidden": 256},
    {"batch": 1, "heads": 2, "tokens": 256, "width": 64, "hidden": 64},
    {"batch": 4, "heads": 8, "tokens": 128, "width": 256, "hidden": 1024},
    {"batch": 2, "heads": 12, "tokens": 256, "width": 768, "hidden": 3072},
)
def encoder_block(draw: Draw, batch: int, heads: int, tokens: int, width: int, hidden: int) -> Built:
    """Attention of all tokens to all, then a perceptron; normalised before."""

    def forward(x: Array, s1: Array, s2: Array, up: Array, down: Array, *weights: Array) -> Array:
        y = layer_norm(x, s1)
        x = x + attend_to(y, y, weights, heads, 0.0)
        return x + swish(layer_norm(x, s2) @ up) @ down

    scales = [draw.uniform(width, low=0.5, high=1.5) for _ in range(2)]
    perceptron = draw.weights(width, hidden), draw.weights(hidden, width)
    return forward, (draw.normal(batch, tokens, width), *scales, *perceptron, *attention_weights(draw, width))


@family(
    "decoder-block",
    "transformer",
    {"batch": 2, "heads": 4, "tokens": 48, "source": 64, "width": 128},
    {"batch": 1, "heads": 8, "tokens": 192, "source": 32, "width": 64},
    {"batch": 2, "heads": 8, "tokens": 128, "source": 192, "width": 256},
    {"batch": 4, "heads": 8, "tokens": 256, "source": 512, "width": 512},
)
def decoder_block(draw: Draw, batch: int, heads: int, tokens: int, source: int, width: int) -> Built:
    """Causal attention, attention to an encoded source, perceptron; normalised after."""

    def forward(x: Array, memory: Array, scale: Array, up: Array, down: Array, *weights: Array) -> Array:
        shift = 0.1 * scale
        x = layer_norm(x + attend_to(x, x, weights[:4], heads, causal_mask(tokens)), scale, shift)
        x = layer_norm(x + attend_to(x, memory, weights[4:], heads, 0.0), scale, shift)
        return layer_norm(x + relu(x @ up) @ down, scale, shift)

    arrays = draw.normal(batch, tokens, width), draw.normal(batch, source, width)
    perceptron = draw.weights(width, 2 * width), draw.weights(2 * width, width)
    weights = *attention_weights(draw, width), *attention_weights(draw, width)
    return forward, (*arrays, draw.uniform(width, low=0.5, high=1.5), *perceptron, *weights)
