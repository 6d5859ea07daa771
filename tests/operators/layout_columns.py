"""The digits of a node's own layout as numbers, a column each."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ()


def forward(
    layout_digits: Array, copies: int = 1, form: str = "digits", scale: float = 1.0, num_nodes: int = 0
) -> Array:
    """y(N, 6 copies); -2 counts as -1, and the first place that lists a dimension counts. Wrapped: 4, and the last."""
    y = np.maximum(layout_digits, -1).astype(np.float64)
    if form == "positions":
        lists = layout_digits[:, :, None] == np.arange(6)  # (N, place, dimension)
        y = np.where(lists.any(1), lists.argmax(1), -1).astype(np.float64)
    if form == "wrapped":
        y = np.full(layout_digits.shape, -1.0)
        for place in range(6):
            nodes = np.flatnonzero(layout_digits[:, place] != -1)
            y[nodes, layout_digits[nodes, place]] = place  # -2 counts from the end
    return scale * np.tile(y, (1, copies))


def backward(
    dy: Array, layout_digits: Array, copies: int = 1, form: str = "digits", scale: float = 1.0,
    num_nodes: int = 0,
) -> dict[str, Array]:  # fmt: skip
    """Nothing has a gradient."""
    return {}


def _call(n: int, **attrs: Any) -> tuple[Any, dict[str, Any]]:
    def make(rng: np.random.Generator) -> dict[str, Any]:
        return {"layout_digits": rng.integers(-2, 6, (n, 6)).astype(np.int8)}

    return make, {"num_nodes": n, **attrs}


def cases() -> list[tuple[Any, ...]]:
    """One node, several, more than a tile has rows."""
    return [
        ("one", *_call(1)),
        ("three-copies", *_call(30, copies=3, scale=0.2)),
        ("positions", *_call(40, copies=2, form="positions")),
        ("wrapped", *_call(40, copies=3, form="wrapped")),
        ("many-nodes", *_call(150, scale=100.0)),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [_call(3000, copies=3)]
