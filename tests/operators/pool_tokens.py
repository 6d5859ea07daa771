"""Mean or sum over the tokens of each row."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

GRADIENTS = ("x",)


def forward(x: Array, tokens: int = 6, kind: str = "mean") -> Array:
    """y(..., W) of x(..., T W)."""
    at = x.reshape(*x.shape[:-1], tokens, x.shape[-1] // tokens)
    return at.mean(-2) if kind == "mean" else at.sum(-2)


def backward(dy: Array, x: Array, tokens: int = 6, kind: str = "mean") -> dict[str, Array]:
    """The same gradient for every token."""
    share = dy / tokens if kind == "mean" else dy
    return {"x": np.tile(share, tokens)}


def cases() -> list[tuple[Any, ...]]:
    """Small calls."""
    return [
        (f"{kind}-{'x'.join(map(str, rows))}-{tokens}x{width}", (lambda rng, s=(*rows, tokens * width): {"x": rng.normal(size=s)}), {"tokens": tokens, "kind": kind})
        for kind in ("mean", "sum")
        for rows, tokens, width in (((11,), 6, 17), ((5, 7), 3, 32), ((4,), 1, 5))
    ]  # fmt: skip


def large() -> list[tuple[Any, ...]]:
    """Several chunks."""
    return [(lambda rng: {"x": rng.normal(size=(3000, 6 * 32))}, {})]
