"""Norm of every column over the configs of a slate."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x",)


def forward(x: Array, eps: float = 1e-5) -> Array:
    """(x - mean) / sqrt(var + eps) over the rows x(C,F)"""
    return (x - x.mean(0)) / np.sqrt(x.var(0) + eps)


def backward(dy: Array, x: Array, eps: float = 1e-5) -> dict[str, Array]:
    """Through mean and variance."""
    y = forward(x, eps)
    return {"x": (dy - dy.mean(0) - y * (dy * y).mean(0)) / np.sqrt(x.var(0) + eps)}


def _draw(*shape: int, offset: float = 0.5) -> Any:
    return lambda rng: {"x": rng.normal(size=shape) * rng.uniform(0.5, 2.0, shape[-1]) + offset}


def cases() -> list[Any]:
    """One or two configs: the gradient is a difference of terms of size 1 / std that cancel."""
    return [
        ("one-config", _draw(1, 5), {"floor": 10.0}),
        ("two-configs", _draw(2, 5), {"floor": 10.0}),
        ("configs", _draw(70, 17)),
        ("offset", _draw(240, 16, offset=20.0)),
        ("many-columns", _draw(4, 700)),
        ("wide-eps", _draw(9, 7), {"eps": 0.1}),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [(_draw(9000, 50), {})]
