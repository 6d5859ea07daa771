"""Rows of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x",)


def _length(x: Array) -> Array:
    return np.sqrt((x * x).sum(-1, keepdims=True))


def forward(x: Array, eps: float = 1e-12) -> Array:
    """x / max(|x|, eps)"""
    return x / np.maximum(_length(x), eps)


def backward(dy: Array, x: Array, eps: float = 1e-12) -> dict[str, Array]:
    """A row below eps is divided by a constant."""
    length, y = _length(x), forward(x, eps)
    along = np.where(length < eps, 0.0, (dy * y).sum(-1, keepdims=True))
    return {"x": (dy - y * along) / np.maximum(length, eps)}


def _draw(*shape: int, scale: float = 1.0) -> Any:
    return lambda rng: {"x": rng.normal(size=shape) * scale}


def cases() -> list[Any]:
    """Rows longer and shorter than eps."""
    return [
        ("one-column", _draw(7, 1), {"floor": 1.0}),  # the gradient is 0
        ("nodes", _draw(70, 17)),
        ("configs", _draw(9, 5, 64, scale=1e-3)),
        ("some-below-eps", _draw(40, 4), {"eps": 2.0}),
        ("parts-of-nodes", _draw(2, 150, 7)),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [(_draw(3000, 50), {}), (_draw(300, 24, 48), {})]
