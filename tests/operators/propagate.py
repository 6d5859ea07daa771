"""Rounds of propagation along edges, by a dense matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases as graphs
import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x",)


def matrix(n: int, edge_index: Array, norm: str, self_loops: float, direction: str) -> Array:
    """P(N,N): row i is what i receives, of the edges counted and normalised."""
    u, v = edge_index.T
    ways = {"forward": [(u, v)], "reverse": [(v, u)], "both": [(u, v), (v, u)]}[direction]
    a = np.zeros((n, n))
    for j, i in ways:
        np.add.at(a, (i, j), 1.0)
    if self_loops:
        np.fill_diagonal(a, 1.0)
    degree = a.sum(1)
    inverse = np.divide(1.0, degree, out=np.zeros(n), where=degree > 0)
    if norm == "sym":
        return np.sqrt(inverse)[:, None] * a * np.sqrt(inverse)
    return inverse[:, None] * a if norm == "mean" else a


def _rounds(p: Array, x: Array, steps: int, alpha: float) -> Array:
    start = rows = x.reshape(len(x), -1)
    for _ in range(steps):
        rows = (1 - alpha) * (p @ rows) + alpha * start
    return rows.reshape(x.shape)


def forward(
    x: Array, edge_index: Array, norm: str = "sym", self_loops: float = 1.0, direction: str = "forward",
    transposed: float = 0.0, steps: int = 1, alpha: float = 0.0,
) -> Array:  # fmt: skip
    """x <- (1 - alpha) P x + alpha x0, steps times."""
    p = matrix(len(x), edge_index, norm, self_loops, direction)
    return _rounds(p.T if transposed else p, x, steps, alpha)


def backward(
    dy: Array, x: Array, edge_index: Array, norm: str = "sym", self_loops: float = 1.0,
    direction: str = "forward", transposed: float = 0.0, steps: int = 1, alpha: float = 0.0,
) -> dict[str, Array]:  # fmt: skip
    """Round by round from the last: g <- (1 - alpha) P^T g, and alpha g to the gradient of x0."""
    p = matrix(len(x), edge_index, norm, self_loops, direction)
    p = p if transposed else p.T
    g, start = dy.reshape(len(x), -1), np.zeros((len(x), dy[0].size))
    for _ in range(steps):
        start += alpha * g
        g = (1 - alpha) * (p @ g)
    return {"x": (start + g).reshape(x.shape)}


def _call(kind: str, n: int, c: int, f: int, **attrs: Any) -> Any:
    def arguments(rng: np.random.Generator) -> dict[str, Array]:
        return {
            "x": rng.normal(size=(n, f) if c == 0 else (n, c, f)),
            "edge_index": graphs.edges(kind, n, rng),
        }

    return arguments, attrs


def cases() -> Iterator[Any]:
    """All norms and directions, one round and several; "odd" has repeated edges and loops of its own."""
    for direction in ("forward", "reverse", "both"):
        for norm in ("sym", "mean", "sum"):
            for self_loops in (1, 0):
                attrs = {"direction": direction, "norm": norm, "self_loops": self_loops}
                for kind, n, c, f, steps, alpha in (
                    ("none", 5, 3, 7, 2, 0.3),
                    ("line", 6, 0, 3, 1, 0.0),
                    ("star", 40, 1, 9, 2, 0.0),
                    ("random", 30, 13, 64, 1, 0.1),
                    ("odd", 21, 5, 17, 3, 0.2),
                ):
                    name = f"{norm}-{direction}-{kind}-n{n}c{c}f{f}{'' if self_loops else '-no-loops'}"
                    yield name, *_call(kind, n, c, f, steps=steps, alpha=alpha, **attrs)
    for steps in (10, 64):
        yield f"appnp-{steps}", *_call("random", 70, 0, 20, steps=steps, alpha=0.1)
    for norm in ("sym", "mean", "sum"):
        for direction in ("forward", "both"):
            attrs = {"norm": norm, "direction": direction, "transposed": 1}
            yield f"transposed-{norm}-{direction}", *_call("odd", 21, 5, 17, steps=2, alpha=0.2, **attrs)
    yield "only-the-input", *_call("random", 12, 0, 5, steps=2, alpha=1.0)
    yield "many-configs", *_call("odd", 6, 150, 5, steps=4, direction="both")


def large() -> list[Any]:
    """Several chunks."""
    return [
        _call("random", 150, 24, 48, steps=5, alpha=0.1, direction="both"),
        _call("random", 3000, 0, 48, steps=10, alpha=0.1),
        _call("random", 3000, 0, 48, norm="mean"),
    ]
