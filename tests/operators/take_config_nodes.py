"""The rows of the configurable nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

GRADIENTS = ("x",)


def forward(x: Array, config_nodes: Array) -> Array:
    """y(K,[C,]F)"""
    return x[config_nodes]


def backward(dy: Array, x: Array, config_nodes: Array) -> dict[str, Array]:
    """dx is 0 at the other nodes."""
    dx = np.zeros_like(x)
    dx[config_nodes] = dy
    return {"x": dx}


def arguments(rows: tuple[int, ...], cols: int, k: int) -> Callable[..., dict[str, Array]]:
    """Arguments of a call."""
    return lambda rng: {
        "x": rng.normal(size=(*rows, cols)),
        "config_nodes": rng.permutation(rows[0])[:k].astype(np.int64),
    }


def cases() -> list[tuple[Any, ...]]:
    """Small calls."""
    return [
        ("nodes", arguments((11,), 7, 4)),
        ("configs", arguments((9, 5), 17, 9)),
        ("many-configs", arguments((5, 150), 3, 2)),
        ("nothing", arguments((4, 3), 2, 0)),
    ]


def large() -> list[tuple[Any, ...]]:
    """Several chunks."""
    return [(arguments((400, 24), 48, 300), {})]
