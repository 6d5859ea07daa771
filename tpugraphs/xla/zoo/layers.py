"""Layers that several families are built of. Shapes: b batch, t time or token, d width, h heads."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

__all__ = ["NHWC", "attend", "causal_mask", "conv", "dense", "layer_norm", "relu", "split_heads", "swish"]

NHWC = ("NHWC", "HWIO", "NHWC")


def relu(x: Array) -> Array:
    """Return the positive part."""
    return jnp.maximum(x, 0.0)


def swish(x: Array) -> Array:
    """Return x * sigmoid(x)."""
    return x * lax.logistic(x)


def dense(x: Array, w: Array, b: Array) -> Array:
    """Multiply the last axis by ``w`` (in, out) and add ``b`` (out,)."""
    return x @ w + b


def layer_norm(
    x: Array, scale: Array | float, shift: Array | float = 0.0, axis: int | tuple[int, ...] = -1
) -> Array:
    """Centre and scale along axes to variance 1, then apply a scale and a shift that broadcast."""
    centred = x - jnp.mean(x, axis, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * scale + shift


def conv(
    x: Array,
    kernel: Array,
    stride: int = 1,
    padding: str = "SAME",
    layout: tuple[str, str, str] = NHWC,
    groups: int = 1,
) -> Array:
    """Convolve in any number of dimensions; ``layout`` names the axes of input, kernel and output."""
    strides = (stride,) * (x.ndim - 2)
    return lax.conv_general_dilated(
        x, kernel, strides, padding, dimension_numbers=layout, feature_group_count=groups
    )


def split_heads(x: Array, heads: int) -> Array:
    """Turn (b, t, heads * d) into (b, t, heads, d)."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def causal_mask(t: int) -> Array:
    """Return (t, t): 0 for what a token may see, -1e9 for what comes after it."""
    rows, columns = lax.iota(jnp.int32, t)[:, None], lax.iota(jnp.int32, t)[None, :]
    return jnp.where(columns <= rows, 0.0, -1e9)


def attend(q: Array, k: Array, v: Array, mask: Array | float = 0.0) -> Array:
    """Attend with softmax over keys: (b, t, h, d), (b, s, h, d), (b, s, h, d) to (b, t, h, d)."""
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(q.shape[-1]) + mask
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-1), v)
