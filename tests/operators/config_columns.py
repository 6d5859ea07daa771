"""The digits of a node's config as numbers, a column each."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ()


def forward(
    digits: Array, config_nodes: Array, of: str = "nodes", scale: float = 1.0, num_nodes: int = 0,
    digit_rows: int = 8, nudge: Array | None = None,
) -> Array:  # fmt: skip
    """y(N,C,P) or y(K,C,P). nudge (C,K,P,V) is added to the one-hot vectors of the digits."""
    own = np.swapaxes(digits, 0, 1).astype(np.float64)
    if nudge is not None:
        own = own + np.einsum("ckpv,v->kcp", nudge, _numbers(digit_rows))
    if of == "config_nodes":
        return scale * own
    configs, _, places = digits.shape
    y = np.zeros((num_nodes, configs, places))
    y[config_nodes] = own
    return scale * y


def _numbers(digit_rows: int) -> Array:
    """What the entries of a one-hot vector stand for; the first is "not configurable"."""
    return np.array([0.0, *range(-1, digit_rows - 2)])


def backward(
    dy: Array, digits: Array, config_nodes: Array, of: str = "nodes", scale: float = 1.0, num_nodes: int = 0,
    digit_rows: int = 8, nudge: Array | None = None,
) -> dict[str, Array]:  # fmt: skip
    """digits (C,K,P,V)"""
    own = dy if of == "config_nodes" else dy[config_nodes]
    return {"digits": scale * np.einsum("kcp,v->ckpv", own, _numbers(digit_rows))}


def _call(n: int, c: int, k: int, **attrs: Any) -> tuple[Any, dict[str, Any]]:
    def make(rng: np.random.Generator) -> dict[str, Any]:
        return {
            "digits": rng.integers(-1, 6, (c, k, 18)).astype(np.int8),
            "config_nodes": rng.permutation(n)[:k].astype(np.int64),
        }

    return make, {"num_nodes": n, **attrs}


def cases() -> list[tuple[Any, ...]]:
    """From no to only configurable nodes, and more configs than a tile has rows."""
    return [
        (f"{of}-n{n}c{c}k{k}", *_call(n, c, k, of=of, scale=scale))
        for of, scale in (("nodes", 100.0), ("config_nodes", 0.2))
        for n, c, k in ((1, 1, 1), (7, 5, 0), (7, 5, 7), (30, 17, 12), (4, 150, 2))
        if k > 0 or of == "nodes"
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [_call(150, 24, 40), _call(300, 24, 200, of="config_nodes")]
