"""Per head the dot product of its columns with a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "att")


def _heads(x: Array, att: Array) -> Array:
    return x.reshape(*x.shape[:-1], *att.shape)


def forward(x: Array, att: Array, heads: int = 1) -> Array:
    """y(...,H) = sum over columns of x(...,H,O) att(H,O)"""
    y: Array = (_heads(x, att) * att).sum(-1)
    return y


def backward(dy: Array, x: Array, att: Array, heads: int = 1) -> dict[str, Array]:
    """dx = dy att, datt = sum over rows of dy x"""
    datt = (dy[..., None] * _heads(x, att)).reshape(-1, *att.shape).sum(0)
    return {"x": (dy[..., None] * att).reshape(x.shape), "att": datt}


def _call(*rows: int, heads: int, cols: int) -> Any:
    def arguments(rng: np.random.Generator) -> dict[str, Array]:
        return {"x": rng.normal(size=(*rows, heads * cols)), "att": rng.normal(size=(heads, cols))}

    return arguments, {"heads": heads}


def cases() -> list[Any]:
    """Heads of all widths, fewer and more than a vector has floats."""
    return [
        (f"{'x'.join(map(str, rows))}-{heads}x{cols}", *_call(*rows, heads=heads, cols=cols))
        for rows in ((1,), (70,), (9, 5))
        for heads, cols in ((1, 1), (1, 64), (4, 16), (3, 7), (19, 1), (20, 33))
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [_call(3000, heads=4, cols=16), _call(150, 24, heads=3, cols=17)]
