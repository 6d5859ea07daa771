"""Parts of `mix` one by one: GELU, self-channel attention, cross-config attention."""

from __future__ import annotations

import numpy as np

from tpugraphs.kernels.ops import Array, _require, mix, mix_backward


def _rows(x: Array, name: str) -> Array:
    _require(x, name, ("...", "F"))
    return x.reshape(-1, 1, x.shape[-1])


def gelu(x: Array) -> Array:
    """GELU, the exact one: ``x (1 + erf(x / sqrt 2)) / 2`` (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    x : (..., F) float32

    Returns
    -------
    (..., F) float32
    """
    return mix(_rows(x, "x"), act="gelu").reshape(x.shape)


def gelu_backward(dy: Array, x: Array) -> dict[str, Array]:
    """Gradient of `gelu`: key ``x``."""
    rows = _rows(x, "x")
    _require(dy, "dy", x.shape)
    return {"x": mix_backward(dy.reshape(rows.shape), rows, act="gelu")["z"].reshape(x.shape)}


def channel_attention(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    """Gate every channel by all channels of its node and config: ``sigmoid(w2 relu(w1 x + b1) + b2) * x``.

    Parameters
    ----------
    x : (N, C, D) float32
    w1, b1 : (R, D), (R,) float32
    w2, b2 : (D, R), (D,) float32

    Returns
    -------
    (N, C, D) float32
    """
    _require(x, "x", ("N", "C", "D"))
    _require(w1, "w1", ("R", x.shape[2]))
    return mix(x, None, w1, b1, w2, b2)


def channel_attention_backward(
    dy: Array, x: Array, w1: Array, b1: Array, w2: Array, b2: Array
) -> dict[str, Array]:
    """Gradients of `channel_attention`: keys ``x``, ``w1``, ``b1``, ``w2``, ``b2``."""
    _require(x, "x", ("N", "C", "D"))
    _require(w1, "w1", ("R", x.shape[2]))
    grads = mix_backward(dy, x, None, w1, b1, w2, b2)
    return {"x" if name == "z" else name: grad for name, grad in grads.items()}


def config_attention(x: Array, temperature: Array) -> Array:
    """Let the configs of a slate compare themselves: ``x * softmax_over_configs(x / temperature)``.

    Models put this beside `x` (see `mix`); here it stands alone.

    Parameters
    ----------
    x : (N, C, D) float32
    temperature : (1,) float32

    Returns
    -------
    (N, C, D) float32
    """
    _require(x, "x", ("N", "C", "D"))
    _require(temperature, "temperature", (1,))
    return np.ascontiguousarray(mix(x, temperature=temperature)[..., x.shape[2] :])


def config_attention_backward(dy: Array, x: Array, temperature: Array) -> dict[str, Array]:
    """Gradients of `config_attention`: keys ``x``, ``temperature``."""
    _require(x, "x", ("N", "C", "D"))
    _require(temperature, "temperature", (1,))
    _require(dy, "dy", x.shape)
    both = np.concatenate([np.zeros_like(dy), dy], axis=2)  # nothing comes back from x itself
    grads = mix_backward(both, x, temperature=temperature)
    return {"x": grads["z"], "temperature": grads["temperature"]}
