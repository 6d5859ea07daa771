"""Gate between two inputs, or of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import add

Array = np.ndarray[Any, Any]
GRADIENTS = ("a", "x", "y")


def forward(*, a: Array, x: Array, y: Array | None = None) -> Array:
    """s x + (1 - s) y with s = sigmoid(a)"""
    views = add.aligned([v for v in (a, x, y) if v is not None])
    s = 1 / (1 + np.exp(-views[0]))
    return s * views[1] + ((1 - s) * views[2] if y is not None else 0)


def backward(dy: Array, **given: Array) -> dict[str, Array]:
    """Of what is repeated, summed."""
    views = add.aligned(list(given.values()))
    s = 1 / (1 + np.exp(-views[0]))
    apart = views[1] - (views[2] if "y" in given else 0)
    whole = (dy * apart * s * (1 - s), dy * s, dy * (1 - s))
    return {
        name: add.summed(np.broadcast_to(d, dy.shape), view).reshape(array.shape)
        for (name, array), view, d in zip(given.items(), views, whole, strict=False)
    }


SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "one": {"a": (1, 1), "x": (1, 1)},
    "unit": {"a": (70, 17), "x": (70, 17)},
    "unit-configs": {"a": (9, 5, 64), "x": (9, 5, 64)},
    "both": {"a": (70, 17), "x": (70, 17), "y": (70, 17)},
    "both-configs": {"a": (9, 5, 3), "x": (9, 5, 3), "y": (9, 5, 3)},
    "gate-of-nodes": {"a": (9, 19), "x": (9, 4, 19), "y": (9, 4, 19)},
    "gate-of-configs": {"a": (4, 19), "x": (9, 4, 19), "y": (9, 19)},
    "one-gate": {"a": (1, 5), "x": (70, 5), "y": (70, 5)},
    "all-repeated": {"a": (9, 4, 5), "x": (1, 5), "y": (4, 5)},
    "parts-of-nodes": {"a": (7, 5), "x": (7, 150, 5), "y": (150, 5)},
}


def cases() -> list[Any]:
    """With and without y, every kind of repeated input."""
    return [(name, add.draw(**shapes)) for name, shapes in SHAPES.items()]


def large() -> list[Any]:
    """Several chunks."""
    return [
        (add.draw(a=(3000, 48), x=(3000, 48), y=(3000, 48)), {}),
        (add.draw(a=(1, 48), x=(3000, 48)), {}),
        (add.draw(a=(300, 48), x=(300, 24, 48), y=(24, 48)), {}),
    ]
