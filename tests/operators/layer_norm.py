"""Layer norm of every row."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "weight", "bias")


def _unit(x: Array, eps: float) -> tuple[Array, Array]:
    rstd = 1.0 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - x.mean(-1, keepdims=True)) * rstd, rstd


def forward(
    x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5, affine: bool = True
) -> Array:
    """(x - mean) / sqrt(var + eps) * weight + bias"""
    xh, _ = _unit(x, eps)
    return xh if weight is None else xh * weight + bias


def backward(
    dy: Array,
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    affine: bool = True,
) -> dict[str, Array]:
    """Gradients of what is given."""
    xh, rstd = _unit(x, eps)
    d = dy if weight is None else dy * weight
    out = {"x": rstd * (d - d.mean(-1, keepdims=True) - xh * (d * xh).mean(-1, keepdims=True))}
    rows = tuple(range(x.ndim - 1))
    return out if weight is None else out | {"weight": (dy * xh).sum(rows), "bias": dy.sum(rows)}


def _draw(*shape: int, affine: bool = True, offset: float = 0.0) -> Any:
    return lambda rng: (
        {"x": rng.normal(size=shape) * rng.uniform(0.5, 2.0, (*shape[:-1], 1)) + offset}
        | ({name: rng.normal(size=shape[-1]) for name in ("weight", "bias")} if affine else {})
    )


def cases() -> list[Any]:
    """Rows of any length; in one of two columns every gradient is a difference of terms of size 1 / std."""
    return [
        ("one-column", _draw(3, 1), {"floor": 10.0}),
        ("two-columns", _draw(5, 2), {"floor": 10.0}),
        ("nodes", _draw(70, 17)),
        ("configs", _draw(9, 5, 64)),
        ("plain", _draw(9, 5, 33, affine=False), {"affine": 0, "eps": 1e-3}),
        ("offset", _draw(33, 40, offset=20.0)),
        ("long", _draw(3, 1030)),
        ("parts-of-nodes", _draw(2, 150, 7)),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [(_draw(3000, 50), {}), (_draw(300, 24, 48), {})]
