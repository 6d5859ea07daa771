"""Table rows of a node's opcode, or of its layout digits, behind its columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "weight")


def _rows(opcode: Array | None, digits: Array | None, source: str, rows: int) -> Array:
    """Table row of every index (N,n): opcode: itself, 0 outside the table; layout: digit + 2."""
    if source == "layout":
        assert digits is not None
        return digits.astype(np.int64) + 2
    assert opcode is not None
    return np.where(opcode < rows, opcode, 0).astype(np.int64)[:, None]


def _scale(weight: Array, max_norm: float) -> tuple[Array, Array]:
    """Length of every row, and what it is multiplied by (V,1)."""
    length = np.linalg.norm(weight, axis=1, keepdims=True)
    return length, np.where((max_norm > 0) & (length > max_norm), max_norm / length, 1.0)


def forward(
    x: Array, weight: Array, node_opcode: Array | None = None, layout_digits: Array | None = None,
    source: str = "opcode", rows: int = 0, cols: int = 0, max_norm: float = 0.0,
) -> Array:  # fmt: skip
    """y(N, F + n D) = [x(N,F) | weight(V,D)[row of index(N,n)]], long rows scaled down to max_norm."""
    read = weight * _scale(weight, max_norm)[1]
    looked_up = read[_rows(node_opcode, layout_digits, source, len(weight))]
    return np.concatenate([x, looked_up.reshape(len(x), -1)], axis=1)


def backward(
    dy: Array, x: Array, weight: Array, node_opcode: Array | None = None, layout_digits: Array | None = None,
    source: str = "opcode", rows: int = 0, cols: int = 0, max_norm: float = 0.0,
) -> dict[str, Array]:  # fmt: skip
    """dx = dy[:, :F]; dweight[row] = the dy columns of all its look-ups, through its scaling."""
    dweight = np.zeros_like(weight)
    at = _rows(node_opcode, layout_digits, source, len(weight))
    np.add.at(dweight, at, dy[:, x.shape[1] :].reshape(*at.shape, -1))
    length, scale = _scale(weight, max_norm)
    along = np.where(scale < 1, (weight * dweight).sum(1, keepdims=True) / length**2, 0.0)
    return {"x": dy[:, : x.shape[1]].copy(), "weight": (dweight - along * weight) * scale}


def call(
    n: int, f: int, v: int, d: int, source: str, **attrs: float
) -> tuple[Callable[..., dict[str, Array]], dict[str, Any]]:
    """Arguments and attributes of a call; ids outside the table included."""

    def make(rng: np.random.Generator) -> dict[str, Array]:
        return {
            "x": rng.normal(size=(n, f)),
            "node_opcode": rng.integers(0, 256, n).astype(np.uint8),
            "layout_digits": rng.integers(-2, 6, (n, 6)).astype(np.int8),
            "weight": rng.normal(size=(v, d)),
        }

    return make, {"source": source, "rows": v, "cols": d} | attrs


def cases() -> list[tuple[Any, ...]]:
    """Both sources; with max_norm some rows are longer and some are not."""
    opcodes = ((1, 1, 1, 1), (7, 140, 120, 16), (30, 3, 17, 5), (5, 17, 256, 3))
    layouts = ((1, 1, 1), (9, 134, 4), (40, 3, 7))
    return [
        *((f"opcode-{n}x{f}-{v}x{d}", *call(n, f, v, d, "opcode")) for n, f, v, d in opcodes),
        *((f"layout-{n}x{f}-{d}", *call(n, f, 8, d, "layout")) for n, f, d in layouts),
        ("opcode-max-norm", *call(300, 3, 120, 16, "opcode", max_norm=4.0)),
        ("layout-max-norm", *call(40, 3, 8, 5, "layout", max_norm=2.0)),
        ("opcode-all-longer", *call(40, 3, 17, 5, "opcode", max_norm=0.1)),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [
        call(3000, 48, 120, 16, "opcode"),
        call(3000, 48, 8, 16, "layout"),
        call(3000, 48, 120, 16, "opcode", max_norm=4.0),
    ]
