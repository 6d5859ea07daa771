"""Rows of configurable nodes in their places among all nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

GRADIENTS = ("x", "rest")


def _configs(a: Array, b: Array) -> tuple[Array, Array]:
    """Both with a configs axis, if one has it."""
    if a.ndim == b.ndim:
        return a, b
    wide = max(a.shape[1] if a.ndim == 3 else 1, b.shape[1] if b.ndim == 3 else 1)
    spread = [v if v.ndim == 3 else np.broadcast_to(v[:, None], (len(v), wide, v.shape[-1])) for v in (a, b)]
    return spread[0], spread[1]


def forward(x: Array, config_nodes: Array, rest: Array | None = None, num_nodes: int | None = None) -> Array:
    """y(N,[C,]F)"""
    if rest is None:
        assert num_nodes is not None
        rest = np.zeros((num_nodes, *x.shape[1:]))
    x, rest = _configs(x, rest)
    y = np.array(rest)
    y[config_nodes] = x
    return y


def backward(
    dy: Array, x: Array, config_nodes: Array, rest: Array | None = None, num_nodes: int | None = None
) -> dict[str, Array]:
    """dx, and drest: 0 at the configurable nodes; sums over configs where an input has none."""
    grads = {"x": dy[config_nodes]}
    if rest is not None:
        grads["rest"] = dy.copy()
        grads["rest"][config_nodes] = 0
    shapes = {"x": x.ndim, "rest": 0 if rest is None else rest.ndim}
    return {k: g.sum(1) if g.ndim > shapes[k] else g for k, g in grads.items()}


def arguments(
    nodes: int, k: int, cols: int, configs: int, x: bool, rest: bool | None
) -> Callable[..., dict[str, Array | None]]:
    """Arguments of a call; x and rest: whether they have configs (None: not given)."""

    def make(rng: np.random.Generator) -> dict[str, Array | None]:
        def rows(count: int, wide: bool) -> Array:
            return rng.normal(size=(count, configs, cols) if wide else (count, cols))

        return {
            "x": rows(k, x),
            "config_nodes": rng.permutation(nodes)[:k].astype(np.int64),
            "rest": None if rest is None else rows(nodes, rest),
        }

    return make


def cases() -> list[tuple[Any, ...]]:
    """Small calls."""
    return [
        ("zeros", arguments(11, 4, 7, 5, True, None), {"num_nodes": 11}),
        ("zeros-no-configs", arguments(11, 4, 7, 5, False, None), {"num_nodes": 11}),
        ("nodes", arguments(9, 5, 17, 6, True, False)),
        ("both", arguments(9, 5, 17, 6, True, True)),
        ("no-configs", arguments(9, 5, 17, 6, False, False)),
        ("x-without-configs", arguments(9, 5, 3, 6, False, True)),
        ("many-configs", arguments(4, 2, 3, 150, True, False)),
        ("many-configs-x-without", arguments(4, 2, 3, 150, False, True)),
        ("all", arguments(5, 5, 3, 4, True, False)),
        ("none", arguments(5, 0, 3, 4, True, True)),
    ]


def large() -> list[tuple[Any, ...]]:
    """Several chunks."""
    return [(arguments(400, 150, 48, 24, True, False), {})]
