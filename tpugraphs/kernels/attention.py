"""Parts of `mix` one by one: GELU, self-channel attention, cross-config attention."""

from __future__ import annotations

import numpy as np

from tpugraphs.kernels.calls import Array, Outs, _require
from tpugraphs.kernels.ops import mix, mix_backward


def _rows(x: Array, name: str) -> Array:
    _require(x, name, ("...", "F"))
    return x.reshape(-1, 1, x.shape[-1])


def gelu(x: Array, out: Array | None = None) -> Array:
    """GELU, the exact one: ``x (1 + erf(x / sqrt 2)) / 2`` (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    x : (..., F) float32

    Returns
    -------
    (..., F) float32
    """
    rows = _rows(x, "x")
    if out is None:
        return mix(rows, act="gelu").reshape(x.shape)
    _require(out, "out", x.shape)
    mix(rows, act="gelu", out=out.reshape(rows.shape))
    return out


def gelu_backward(dy: Array, x: Array, out: Outs | None = None) -> dict[str, Array]:
    """Gradient of `gelu`: key ``x``."""
    rows = _rows(x, "x")
    _require(dy, "dy", x.shape)
    given = {}
    if out is not None:
        for name, array in _renamed(out, "z").items():
            _require(array, "out['x']", x.shape)
            given[name] = array.reshape(rows.shape)
    dz = mix_backward(dy.reshape(rows.shape), rows, act="gelu", out=given)["z"]
    return {"x": dz.reshape(x.shape) if out is None or "x" not in out else out["x"]}


def _renamed(out: Outs, name: str) -> dict[str, Array]:
    """`out` with ``x`` called `name`."""
    return {name if key == "x" else key: array for key, array in out.items()}


def channel_attention(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, out: Array | None = None
) -> Array:
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
    return mix(x, None, w1, b1, w2, b2, out=out)


def channel_attention_backward(
    dy: Array, x: Array, w1: Array, b1: Array, w2: Array, b2: Array, out: Outs | None = None
) -> dict[str, Array]:
    """Gradients of `channel_attention`: keys ``x``, ``w1``, ``b1``, ``w2``, ``b2``."""
    _require(x, "x", ("N", "C", "D"))
    _require(w1, "w1", ("R", x.shape[2]))
    given = None if out is None else _renamed(out, "z")
    grads = mix_backward(dy, x, None, w1, b1, w2, b2, out=given)
    return {"x" if name == "z" else name: grad for name, grad in grads.items()}


def config_attention(x: Array, temperature: Array, out: Array | None = None) -> Array:
    """Let the configs of a slate compare themselves: ``x * softmax_over_configs(x / temperature)``.

    Models append this to `x` (see `mix`); here it stands alone.

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
    half = mix(x, temperature=temperature)[..., x.shape[2] :]
    if out is None:
        return np.ascontiguousarray(half)
    _require(out, "out", x.shape)
    np.copyto(out, half)
    return out


def config_attention_backward(
    dy: Array, x: Array, temperature: Array, out: Outs | None = None
) -> dict[str, Array]:
    """Gradients of `config_attention`: keys ``x``, ``temperature``."""
    _require(x, "x", ("N", "C", "D"))
    _require(temperature, "temperature", (1,))
    _require(dy, "dy", x.shape)
    both = np.concatenate([np.zeros_like(dy), dy], axis=2)  # nothing comes back from x itself
    given = None if out is None else _renamed(out, "z")
    grads = mix_backward(both, x, temperature=temperature, out=given)
    return {"x": grads["z"], "temperature": grads["temperature"]}
