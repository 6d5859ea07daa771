"""Attention over the edges into a node, of queries, keys and values that are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases as graphs
import numpy as np

from .gatv2 import _edges, _sums

Array = np.ndarray[Any, Any]
GRADIENTS = ("q", "k", "v")


def _heads(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:-1], heads, -1)


def _attend(
    q: Array, k: Array, edge_index: Array, heads: int, score: str, slope: float, direction: str
) -> tuple[Array, ...]:
    """Of every edge: sender, receiver, the slope of its score, and the weights (E,...,H)."""
    j, i = _edges(edge_index, direction)
    if score == "dot":
        bend = np.array(1 / np.sqrt(q.shape[-1] / heads))
        scores = bend * (_heads(q, heads)[i] * _heads(k, heads)[j]).sum(-1)
    else:
        z = q[i] + k[j]
        bend = np.where(z > 0, 1.0, slope)
        scores = bend * z
    top = np.full((len(q), *scores.shape[1:]), -np.inf)
    np.maximum.at(top, i, scores)
    power = np.exp(scores - top[i])
    return j, i, bend, power / _sums(power, i, len(q))[i]


def forward(
    q: Array, k: Array, v: Array, edge_index: Array, score: str = "dot", heads: int = 1,
    merge: str = "concat", slope: float = 0.2, direction: str = "forward",
) -> Array:  # fmt: skip
    """y_i = sum of weight v_j"""
    j, i, _, weight = _attend(q, k, edge_index, heads, score, slope, direction)
    y = _sums(weight[..., None] * _heads(v, heads)[j], i, len(v))
    mean: Array = y.mean(-2)
    return mean if merge == "mean" else y.reshape(v.shape)


def backward(
    dy: Array, q: Array, k: Array, v: Array, edge_index: Array, score: str = "dot", heads: int = 1,
    merge: str = "concat", slope: float = 0.2, direction: str = "forward",
) -> dict[str, Array]:  # fmt: skip
    """Through values and weights."""
    j, i, bend, weight = _attend(q, k, edge_index, heads, score, slope, direction)
    values, n = _heads(v, heads), len(v)
    g = np.broadcast_to(dy[..., None, :] / heads, values.shape) if merge == "mean" else _heads(dy, heads)
    dweight = (g[i] * values[j]).sum(-1)
    d = bend * weight * (dweight - _sums(weight * dweight, i, n)[i])
    dq = d[..., None] * _heads(k, heads)[j] if score == "dot" else d
    dk = d[..., None] * _heads(q, heads)[i] if score == "dot" else d
    return {
        "q": _sums(dq, i, n).reshape(q.shape),
        "k": _sums(dk, j, n).reshape(k.shape),
        "v": _sums(weight[..., None] * g[i], j, n).reshape(v.shape),
    }


def _call(kind: str, n: int, c: int, d: int, o: int, heads: int = 1, score: str = "dot", **attrs: Any) -> Any:
    def arguments(rng: np.random.Generator) -> dict[str, Array]:
        rows, wide = (n,) if c == 0 else (n, c), heads * (d if score == "dot" else 1)
        return {
            "q": rng.normal(size=(*rows, wide)),
            "k": rng.normal(size=(*rows, wide)),
            "v": rng.normal(size=(*rows, heads * o)),
            "edge_index": graphs.edges(kind, n, rng),
        }

    return arguments, {"heads": heads, "score": score, **attrs}


def cases() -> Iterator[Any]:
    """Both scores, all directions, heads side by side and averaged; keys wider and narrower than values."""
    for direction in ("forward", "reverse", "both"):
        for score in ("dot", "additive"):
            for kind, n, c, d, o, heads, merge in (
                ("none", 5, 3, 4, 3, 2, "mean"),
                ("line", 6, 0, 3, 17, 1, "concat"),  # forward and in reverse every weight is 1
                ("star", 40, 1, 8, 5, 3, "concat"),
                ("star", 9, 7, 6, 33, 2, "mean"),
                ("random", 30, 13, 16, 16, 4, "concat"),
                ("random", 30, 5, 24, 8, 8, "mean"),
                ("random", 25, 0, 64, 64, 1, "mean"),
                ("odd", 21, 5, 17, 3, 5, "concat"),
                ("odd", 21, 0, 2, 20, 17, "mean"),  # more heads than a vector has floats
            ):
                name = f"{score}-{direction}-{kind}-n{n}c{c}-{heads}x{d}x{o}-{merge}"
                yield name, *_call(kind, n, c, d, o, heads, score, merge=merge, direction=direction)
    for slope in (0.0, 0.5, 0.9):  # with 1, q counts for nothing
        yield f"slope-{slope}", *_call("random", 12, 3, 1, 6, 2, "additive", slope=slope)
    for score in ("dot", "additive"):
        yield f"{score}-many-configs", *_call("odd", 6, 150, 5, 4, 2, score, direction="both")


def large() -> list[Any]:
    """Several chunks."""
    return [
        _call("random", 150, 24, 16, 16, 4, direction="both"),
        _call("random", 3000, 0, 16, 16, 2, merge="mean"),
        _call("random", 3000, 0, 1, 16, 4, "additive"),
    ]
