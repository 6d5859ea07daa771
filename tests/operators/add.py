"""Sum of inputs, those without configs or nodes repeated."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "y", "z", "u")


def aligned(arrays: list[Array]) -> list[Array]:
    """Views that NumPy broadcasts as the op does: nodes, configs, columns.

    Among arrays of two dimensions and different lengths, the first is that of nodes.
    """
    deep = next((a.shape for a in arrays if a.ndim == 3), None)
    lengths = list(dict.fromkeys(len(a) for a in arrays if len(a) > 1))
    if deep is None and len(lengths) < 2:
        return arrays
    nodes = lengths[0] if deep is None else deep[0]
    return [a if a.ndim == 3 else a[:, None] if len(a) == nodes else a[None] for a in arrays]


def summed(dy: Array, view: Array) -> Array:
    """`dy` summed over the axes along which `view` is repeated."""
    axes = tuple(i for i in range(view.ndim - 1) if view.shape[i] == 1 != dy.shape[i])
    return dy.sum(axes, keepdims=True)


def forward(*, x: Array, y: Array, z: Array | None = None, u: Array | None = None) -> Array:
    """x + y [+ z [+ u]]"""
    return sum(aligned([a for a in (x, y, z, u) if a is not None]))


def backward(dy: Array, **given: Array) -> dict[str, Array]:
    """The same gradient for every input."""
    views = aligned(list(given.values()))
    return {
        name: summed(dy, view).reshape(a.shape) for (name, a), view in zip(given.items(), views, strict=True)
    }


def draw(**shapes: tuple[int, ...]) -> Any:
    """Make arrays of these shapes."""
    return lambda rng: {name: rng.normal(size=shape) for name, shape in shapes.items()}


REPEATED = {
    "alike": {"x": (9, 7), "y": (9, 7)},
    "four": {"x": (5, 3, 17), "y": (5, 3, 17), "z": (5, 3, 17), "u": (5, 3, 17)},
    "node": {"x": (9, 4, 19), "y": (9, 19)},
    "node-first": {"x": (9, 19), "y": (9, 4, 19)},
    "config": {"x": (9, 4, 19), "y": (4, 19)},
    "slate": {"x": (9, 4, 19), "y": (1, 19)},
    "slate-over-nodes": {"x": (70, 5), "y": (1, 5)},
    "all": {"x": (9, 19), "y": (9, 4, 19), "z": (4, 19), "u": (1, 19)},
    "one-config": {"x": (9, 1, 3), "y": (9, 3)},
    "parts-of-nodes": {"x": (7, 150, 5), "y": (7, 5), "z": (150, 5), "u": (1, 5)},
}


def cases() -> list[Any]:
    """Every kind of repeated input."""
    return [(name, draw(**shapes)) for name, shapes in REPEATED.items()]


def large() -> list[Any]:
    """Several chunks."""
    return [
        (draw(x=(3000, 48), y=(3000, 48), z=(1, 48)), {}),
        (draw(x=(300, 48), y=(300, 24, 48), z=(24, 48), u=(1, 48)), {}),
    ]
