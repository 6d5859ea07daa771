"""Instance norm over the nodes of a config."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x",)
EPS = 1e-5


def forward(x: Array) -> Array:
    """y = (x - mean_N x) / sqrt(var_N x + 1e-5) per config and channel; biased variance; x (N,C,F)."""
    return (x - x.mean(0)) / np.sqrt(x.var(0) + EPS)


def backward(dy: Array, x: Array) -> dict[str, Array]:
    """dx = (dy - mean_N dy - y mean_N(dy y)) / sqrt(var + 1e-5)."""
    y = forward(x)
    return {"x": (dy - dy.mean(0) - y * (dy * y).mean(0)) / np.sqrt(x.var(0) + EPS)}


def draw(n: int, c: int, f: int, offset: float = 0.0) -> Callable[..., dict[str, Array]]:
    """Make x; c = 0: without configs."""
    shape = (n, f) if c == 0 else (n, c, f)
    return lambda rng: {"x": rng.normal(size=shape) * rng.uniform(0.5, 2.0, f) + offset}


def cases() -> list[tuple[Any, ...]]:
    """One or two nodes: the gradient is a difference of terms of size 1/std, up to 316, that cancel."""
    return [
        *(
            (f"n{n}c{c}f{f}", draw(n, c, f), {"floor": floor})
            for n, c, f, floor in ((1, 3, 5, 10.0), (2, 1, 1, 10.0), (17, 13, 3, 1e-4), (50, 4, 140, 1e-4))
        ),
        ("no-configs", draw(130, 0, 19)),
        ("offset", draw(33, 3, 17, offset=20.0)),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [(draw(400, 24, 48), {})]
