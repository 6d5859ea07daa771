"""SAGEConv with mean aggregation, of x or of x normalised over the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cases as graphs
import numpy as np

from operators import instance_norm

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "weight_l", "bias_l", "weight_r")


def _messages(edge_index: Array, direction: str) -> tuple[Array, Array]:
    """Senders and receivers of row (u,v). forward: v receives from u; reverse: u from v.

    both: the union of the two as a multiset (a self loop counts twice).
    """
    u, v = edge_index.T
    ways = {"forward": [(u, v)], "reverse": [(v, u)], "both": [(u, v), (v, u)]}[direction]
    sender, receiver = (np.concatenate(side) for side in zip(*ways, strict=True))
    return sender, receiver


def _degree(receiver: Array, x: Array) -> Array:
    return np.maximum(np.bincount(receiver, minlength=len(x)), 1).reshape(-1, *[1] * (x.ndim - 1))


def _mean(x: Array, edge_index: Array, direction: str) -> Array:
    """m_i = mean over messages j -> i of x_j; 0 without any. x (N,...)."""
    sender, receiver = _messages(edge_index, direction)
    total = np.zeros(x.shape, np.float64)
    np.add.at(total, receiver, x[sender])
    return total / _degree(receiver, x)


def _mean_backward(dm: Array, edge_index: Array, direction: str) -> Array:
    """dx_j = sum over messages j -> i of dm_i / degree_i."""
    sender, receiver = _messages(edge_index, direction)
    dx = np.zeros(dm.shape, np.float64)
    np.add.at(dx, sender, (dm / _degree(receiver, dm))[receiver])
    return dx


def forward(
    x: Array, edge_index: Array, weight_l: Array, bias_l: Array, weight_r: Array, direction: str = "forward",
    norm: bool = False, out: int = 1,
) -> Array:  # fmt: skip
    """y_i = weight_l(O,F) mean_{j -> i} x_j + bias_l(O) + weight_r(O,F) x_i; x (N,F) or (N,C,F)."""
    x = instance_norm.forward(x) if norm else x
    return _mean(x, edge_index, direction) @ weight_l.T + bias_l + x @ weight_r.T


def backward(
    dy: Array, x: Array, edge_index: Array, weight_l: Array, bias_l: Array, weight_r: Array,
    direction: str = "forward", norm: bool = False, out: int = 1,
) -> dict[str, Array]:  # fmt: skip
    """dweight_l = dy^T m, dbias_l = sum dy, dweight_r = dy^T x, dx = dy weight_r + transposed mean of dy weight_l."""
    own = instance_norm.forward(x) if norm else x
    mean, flat = _mean(own, edge_index, direction), dy.reshape(-1, dy.shape[-1])
    dx = dy @ weight_r + _mean_backward(dy @ weight_l, edge_index, direction)
    return {
        "x": instance_norm.backward(dx, x)["x"] if norm else dx,
        "weight_l": flat.T @ mean.reshape(len(flat), -1),
        "bias_l": flat.sum(0),
        "weight_r": flat.T @ own.reshape(len(flat), -1),
    }


def call(
    kind: str, n: int, c: int, f: int, o: int, **attrs: Any
) -> tuple[Callable[..., dict[str, Array]], dict[str, Any]]:
    """Arguments and attributes of a call; c = 0: without configs."""

    def make(rng: np.random.Generator) -> dict[str, Array]:
        scale = 1.0 / np.sqrt(f)
        return {
            "x": rng.normal(size=(n, f) if c == 0 else (n, c, f)),
            "edge_index": graphs.edges(kind, n, rng),
            "weight_l": rng.normal(size=(o, f)) * scale,
            "bias_l": rng.normal(size=o),
            "weight_r": rng.normal(size=(o, f)) * scale,
        }

    return make, {"out": o, **attrs}


def cases() -> list[tuple[Any, ...]]:
    """Every direction over every kind of graph."""
    out: list[tuple[Any, ...]] = []
    for direction in ("forward", "reverse", "both"):
        for kind, n, c, f, o in (
            ("none", 1, 1, 1, 1),
            ("none", 5, 3, 17, 3),
            ("line", 6, 0, 3, 17),  # no config axis
            ("star", 40, 1, 8, 5),
            ("random", 30, 13, 24, 16),
            ("odd", 21, 5, 17, 33),
        ):
            name = f"{direction}-{kind}-n{n}c{c}-{f}to{o}"
            out.append((name, *call(kind, n, c, f, o, direction=direction)))
        normed = call("odd", 21, 5, 17, 33, direction=direction, norm=True)
        out.append((f"{direction}-normed", *normed))
    out.append(("normed-no-configs", *call("random", 60, 0, 9, 12, norm=True)))
    out.append(("default-wide", *call("random", 40, 9, 140, 128)))
    return out


def large() -> list[Any]:
    """Several chunks."""
    return [call("random", 150, 24, 48, 64, direction="both"), call("random", 3000, 0, 48, 32)]
