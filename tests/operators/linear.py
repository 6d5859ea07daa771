"""Linear layer, with one row before every row of x if that is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from reference.activations import ACTIVATIONS, PRELU, activate, activate_slope, draw_slope, slope_gradient

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "row", "weight", "bias", "slope")


def _joined(x: Array, row: Array | None) -> Array:
    """Every row of x(...,F) with row(1,G) before it."""
    if row is None:
        return x
    return np.concatenate([np.broadcast_to(row[0], (*x.shape[:-1], row.shape[1])), x], axis=-1)


def forward(
    x: Array, weight: Array, bias: Array | None = None, slope: Array | None = None, row: Array | None = None,
    act: str = "none", per_column: bool = False, out: int = 1, use_bias: float = 1.0,
) -> Array:  # fmt: skip
    """y(...,O) = act(x(...,F) weight(O,F)^T + bias(O)); with row(1,G): of [row | x], weight(O,G+F)."""
    return activate(_joined(x, row) @ weight.T + (0.0 if bias is None else bias), act, slope)


def backward(
    dy: Array, x: Array, weight: Array, bias: Array | None = None, slope: Array | None = None,
    row: Array | None = None, act: str = "none", per_column: bool = False, out: int = 1, use_bias: float = 1.0,
) -> dict[str, Array]:  # fmt: skip
    """With g = dy act'(z): d[row | x] = g W, of which row sums its part over rows, dW = g^T [row | x], db = sum g."""
    wide = _joined(x, row)
    z = wide @ weight.T + (0.0 if bias is None else bias)
    g = dy * activate_slope(z, act, slope)
    flat, dx, split = g.reshape(-1, len(weight)), g @ weight, wide.shape[-1] - x.shape[-1]
    grads = {"weight": flat.T @ wide.reshape(len(flat), -1)} | slope_gradient(dy, z, slope)
    if bias is not None:
        grads["bias"] = flat.sum(0)
    if row is not None:
        grads["row"] = dx[..., :split].reshape(-1, split).sum(0, keepdims=True)
    return {"x": dx[..., split:], **grads}


def call(
    rows: tuple[int, ...], f: int, o: int, joined: int = 0, **attrs: Any
) -> tuple[Callable[..., dict[str, Array | None]], dict[str, Any]]:
    """Arguments and attributes of a call."""

    def make(rng: np.random.Generator) -> dict[str, Array | None]:
        scale = 1.0 / np.sqrt(joined + f)
        return {
            "x": rng.normal(size=(*rows, f)),
            "weight": rng.normal(size=(o, joined + f)) * scale,
            "bias": rng.normal(size=o) if attrs.get("use_bias", 1) else None,
            "row": rng.normal(size=(1, joined)) if joined else None,
        } | draw_slope(rng, attrs, o)

    return make, {"out": o, **attrs}


def cases() -> list[tuple[Any, ...]]:
    """All activations, with and without a row before."""
    out: list[tuple[Any, ...]] = []
    for rows, f, o in (((1,), 1, 1), ((5,), 3, 17), ((7, 3), 140, 1), ((33,), 17, 140), ((20, 13), 64, 48)):
        name = f"{'x'.join(map(str, rows))}-{f}to{o}"
        out += [(f"{name}-{act}", *call(rows, f, o, act=act)) for act in ACTIVATIONS]
        out.append((f"{name}-prelu-columns", *call(rows, f, o, **PRELU["prelu-columns"])))
        out.append((f"{name}-joined", *call(rows, f, o, 1 + f % 5, act="gelu")))
        out.append((f"{name}-joined-prelu", *call(rows, f, o, 1 + f % 5, act="prelu")))
        out.append((f"{name}-no-bias", *call(rows, f, o, use_bias=0)))
        out.append((f"{name}-no-bias-joined", *call(rows, f, o, 1 + f % 5, act="gelu", use_bias=0)))
    out.append(("long-joined-700x64-512to40", *call((700,), 64, 40, 512)))
    out.append(("long-2000x3-256to5", *call((2000, 3), 256, 5)))
    return out


def large() -> list[Any]:
    """Several chunks."""
    return [
        call((150, 24), 64, 64, act="gelu"),
        call((3000,), 64, 96, 256, act="gelu"),
        *(call((150, 24), 64, 64, **attrs) for attrs in PRELU.values()),
    ]
