"""Some neighbouring columns of every row."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x",)


def forward(x: Array, first: int = 0, count: int = 1) -> Array:
    """x[..., first : first + count]"""
    return x[..., first : first + count].copy()


def backward(dy: Array, x: Array, first: int = 0, count: int = 1) -> dict[str, Array]:
    """0 in the other columns."""
    dx = np.zeros_like(x)
    dx[..., first : first + count] = dy
    return {"x": dx}


def _draw(*shape: int) -> Any:
    return lambda rng: {"x": rng.normal(size=shape)}


def cases() -> list[tuple[Any, ...]]:
    """All columns, one, some at the beginning, inside, at the end."""
    return [
        ("all", _draw(1, 1), {}),
        ("one", _draw(9, 33), {"first": 32}),
        ("beginning", _draw(5, 3, 20), {"count": 17}),
        ("inside", _draw(70, 40), {"first": 3, "count": 33}),
        ("end", _draw(4, 70, 12), {"first": 7, "count": 5}),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [(_draw(3000, 64), {"first": 5, "count": 50}), (_draw(300, 24, 32), {"first": 16, "count": 16})]
