"""For every unique cell the row of its node, and the place of every dimension in each of its layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from reference.cells import unique_cells

Array = np.ndarray[Any, Any]

GRADIENTS = ("x",)


def _cells(
    digits: Array, config_nodes: Array, node_feat: Array, node_opcode: Array | None, tokens: int
) -> tuple[Array, Array, Array]:
    """Of every unique cell: layouts (U,S,T), the node, and the cell's number k * C + c."""
    _, at = unique_cells(digits, config_nodes, node_feat, node_opcode)
    k, c = at // len(digits), at % len(digits)
    layouts = digits[c, k].reshape(len(at), digits.shape[2] // tokens, tokens)
    return layouts.astype(np.int64), config_nodes[k], at


def _place(layout: Array, t: int) -> int:
    """The first place of a layout that lists dimension t, from 0, or -1."""
    found = np.flatnonzero(layout == t)
    return int(found[0]) if len(found) else -1


def forward(
    digits: Array, config_nodes: Array, node_feat: Array, x: Array | None = None, node_opcode: Array | None = None,
    tokens: int = 6, digit_rows: int = 8,
) -> Array:  # fmt: skip
    """y(U, F + D)"""
    layouts, nodes, _ = _cells(digits, config_nodes, node_feat, node_opcode, tokens)
    places = [[_place(layout, t) for layout in one for t in range(tokens)] for one in layouts]
    places = np.array(places, np.float64).reshape(len(layouts), digits.shape[2])
    return places if x is None else np.concatenate([x[nodes], places], 1)


def backward(
    dy: Array, digits: Array, config_nodes: Array, node_feat: Array, x: Array | None = None,
    node_opcode: Array | None = None, tokens: int = 6, digit_rows: int = 8,
) -> dict[str, Array]:  # fmt: skip
    """dx sums over the cells of a node; of a digit what changes when its place lists t and no longer does not."""
    layouts, nodes, at = _cells(digits, config_nodes, node_feat, node_opcode, tokens)
    given = dy[:, dy.shape[1] - digits.shape[2] :].reshape(layouts.shape)
    grads = {"digits": np.zeros((*digits.shape, digit_rows))}
    if x is not None:
        grads["x"] = np.zeros_like(x)
        np.add.at(grads["x"], nodes, dy[:, : x.shape[1]])
    for u, s, i in np.ndindex(layouts.shape):
        for t in range(min(tokens, digit_rows - 2)):
            lists, does_not = layouts[u, s].copy(), layouts[u, s].copy()
            lists[i] = t
            does_not[i] = -1 if does_not[i] == t else does_not[i]
            change = (_place(lists, t) - _place(does_not, t)) * given[u, s, t]
            grads["digits"][at[u] % len(digits), at[u] // len(digits), s * tokens + i, t + 2] = change
    return grads


def cells(
    rng: np.random.Generator, nodes: int, k: int, configs: int, digits: int, columns: int, kinds: int
) -> dict[str, Array]:
    """Graph arrays of few kinds of nodes and few configs per kind: equal cells abound."""
    feat = rng.normal(size=(kinds, columns)).astype(np.float32)[rng.integers(0, kinds, nodes)]
    few = rng.integers(-1, 6, (4, digits)).astype(np.int8)
    for row in few[:3]:  # real layouts: permutations, cut short
        for at in range(0, digits, 6):
            width = len(row[at : at + 6])
            row[at : at + width] = np.where(rng.permutation(width) < width - 1, rng.permutation(width), -1)
    return {
        "digits": few[rng.integers(0, 4, (configs, k))],
        "config_nodes": rng.permutation(nodes)[:k].astype(np.int64),
        "node_feat": feat,
    }


def arguments(
    nodes: int, k: int, configs: int, digits: int, x: bool = True, kinds: int = 3
) -> Callable[..., dict[str, Array | None]]:
    """Arguments of a call; x is node_feat in float64."""

    def make(rng: np.random.Generator) -> dict[str, Array | None]:
        given = cells(rng, nodes, k, configs, digits, 5, kinds)
        return {**given, "x": given["node_feat"].astype(np.float64) if x else None}

    return make


def cases() -> list[tuple[Any, ...]]:
    """Small calls."""
    return [
        ("published", arguments(12, 7, 9, 18), {}),
        ("places-only", arguments(12, 7, 9, 18, x=False), {}),
        ("other-digits", arguments(8, 5, 6, 15), {"tokens": 3, "digit_rows": 9}),
        ("alike", arguments(20, 20, 5, 18, kinds=1), {}),
        ("one", arguments(1, 1, 1, 1), {"tokens": 1, "digit_rows": 10}),
        ("nothing", arguments(3, 0, 4, 18), {}),
    ]


def large() -> list[tuple[Any, ...]]:
    """Several chunks."""

    def make(rng: np.random.Generator) -> dict[str, Array | None]:
        made = arguments(300, 200, 24, 18, kinds=150)(rng)
        made["digits"] = rng.integers(-1, 6, (24, 200, 18)).astype(np.int8)
        return made

    return [(make, {})]
