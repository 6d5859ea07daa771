"""A token per dimension of every unique cell: features of the dimension, and its positions in the layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from reference.activations import PRELU, activate, activate_slope, draw_slope, slope_gradient
from reference.cells import unique_cells

Array = np.ndarray[Any, Any]

GRADIENTS = ("x", "position", "bias", "weight", "slope")


def _layouts(
    digits: Array, config_nodes: Array, node_feat: Array, node_opcode: Array | None, tokens: int
) -> tuple[Array, Array, Array]:
    """Of every unique cell: layouts (U,S,T), the node, and the cell's number k * C + c."""
    _, at = unique_cells(digits, config_nodes, node_feat, node_opcode)
    k, c = at // len(digits), at % len(digits)
    layouts = digits[c, k].reshape(len(at), digits.shape[2] // tokens, tokens)
    return layouts.astype(np.int64), config_nodes[k], at


def _positions(layouts: Array) -> Array:
    """(U,S,T): 1 + the first place that lists dimension t, or 0."""
    lists = layouts[:, :, :, None] == np.arange(layouts.shape[2])  # (U,S,place,t)
    return np.where(lists.any(2), lists.argmax(2) + 1, 0)


def _columns(tokens: int, column: int, groups: int, step: int) -> Array:
    """(T,G)"""
    return column + np.arange(groups) * step + np.arange(tokens)[:, None]


def _rows(positions: Array) -> Array:
    """(U,T,S) rows of the table of positions."""
    tensors, tokens = positions.shape[1:]
    return np.swapaxes(positions + np.arange(tensors)[:, None] * (tokens + 1), 1, 2)


class Call:
    """What both directions need: features (U,T,G) or None, table rows (U,T,S), sums z (U,T,W)."""

    def __init__(
        self, digits: Array, config_nodes: Array, node_feat: Array, position: Array, bias: Array,
        weight: Array | None, x: Array | None, node_opcode: Array | None, tokens: int, column: int,
        groups: int, step: int,
    ) -> None:  # fmt: skip
        self.layouts, self.nodes, self.at = _layouts(digits, config_nodes, node_feat, node_opcode, tokens)
        self.positions = _positions(self.layouts)
        self.rows, self.columns = _rows(self.positions), _columns(tokens, column, groups, step)
        self.z = bias + position[self.rows].sum(2)
        self.f = None if x is None else x[self.nodes[:, None, None], self.columns]
        if self.f is not None:
            assert weight is not None
            self.z = self.z + self.f @ weight.T


def forward(
    digits: Array, config_nodes: Array, node_feat: Array, position: Array, bias: Array,
    weight: Array | None = None, slope: Array | None = None, x: Array | None = None,
    node_opcode: Array | None = None, tokens: int = 6, cols: int = 64, act: str = "none",
    per_column: bool = False, column: int = 21, groups: int = 1, step: int = 8, digit_rows: int = 8,
) -> Array:  # fmt: skip
    """y(U, T W)"""
    call = Call(
        digits, config_nodes, node_feat, position, bias, weight, x, node_opcode, tokens, column, groups, step
    )
    return activate(call.z, act, slope).reshape(len(call.z), tokens * cols)


def backward(
    dy: Array, digits: Array, config_nodes: Array, node_feat: Array, position: Array, bias: Array,
    weight: Array | None = None, slope: Array | None = None, x: Array | None = None,
    node_opcode: Array | None = None, tokens: int = 6, cols: int = 64, act: str = "none",
    per_column: bool = False, column: int = 21, groups: int = 1, step: int = 8, digit_rows: int = 8,
) -> dict[str, Array]:  # fmt: skip
    """With dz = dy act'(z): sums of it by table row, over all, and along the features."""
    call = Call(
        digits, config_nodes, node_feat, position, bias, weight, x, node_opcode, tokens, column, groups, step
    )
    given = dy.reshape(call.z.shape)
    dz = given * activate_slope(call.z, act, slope)
    grads = {"position": np.zeros_like(position), "bias": dz.sum((0, 1))}
    grads |= slope_gradient(given, call.z, slope)
    np.add.at(grads["position"], call.rows, dz[:, :, None])
    if x is not None and weight is not None and call.f is not None:
        grads["weight"] = np.einsum("utw,utg->wg", dz, call.f)
        grads["x"] = np.zeros_like(x)
        np.add.at(grads["x"], (call.nodes[:, None, None], call.columns), dz @ weight)
    grads["digits"] = _digit_gradient(call, dz, digits, position, digit_rows)
    return grads


def _digit_gradient(call: Call, dz: Array, digits: Array, position: Array, digit_rows: int) -> Array:
    """(C,K,D,digit_rows): what changes when a place lists t and no longer does not, at the first of equal cells."""
    grads = np.zeros((*digits.shape, digit_rows))
    configs = len(digits)
    for u, at in enumerate(call.at):
        for s, layout in enumerate(call.layouts[u]):
            for i in range(len(layout)):
                for t in range(min(len(layout), digit_rows - 2)):
                    both = []
                    for digit in (t, -1):
                        changed = layout.copy()
                        if changed[i] == t or digit == t:
                            changed[i] = digit
                        places = np.flatnonzero(changed == t)
                        row = s * (len(layout) + 1) + (places[0] + 1 if len(places) else 0)
                        both.append(position[row] @ dz[u, t])
                    place = s * len(layout) + i
                    grads[at % configs, at // configs, place, t + 2] = both[0] - both[1]
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
    nodes: int,
    k: int,
    configs: int,
    tokens: int,
    tensors: int,
    cols: int,
    groups: int = 0,
    kinds: int = 3,
    **attrs: Any,
) -> Callable[..., dict[str, Array | None]]:
    """Arguments of a call; x, when there are groups, is node_feat in float64."""

    def make(rng: np.random.Generator) -> dict[str, Array | None]:
        given = cells(rng, nodes, k, configs, tokens * tensors, 60, kinds)
        return {
            **given,
            "x": given["node_feat"].astype(np.float64) if groups else None,
            "position": rng.normal(size=(tensors * (tokens + 1), cols)),
            "bias": rng.normal(size=cols),
            "weight": rng.normal(size=(cols, groups)) if groups else None,
        } | draw_slope(rng, attrs, cols)

    return make


def cases() -> list[tuple[Any, ...]]:
    """Small calls."""
    published = {"tokens": 6, "cols": 20, "act": "relu"}
    return [
        ("published", arguments(12, 7, 9, 6, 3, 20, 1), published),
        ("windows", arguments(12, 7, 9, 6, 3, 17, 3), published | {"cols": 17, "column": 31, "groups": 3}),
        ("overlapping", arguments(9, 9, 4, 6, 3, 5, 3), {"cols": 5, "groups": 3, "step": 2, "act": "gelu"}),
        ("positions-only", arguments(12, 7, 9, 6, 3, 33), {"cols": 33, "act": "gelu"}),
        (
            "other-digits",
            arguments(8, 5, 6, 3, 5, 8, 1),
            {"tokens": 3, "cols": 8, "column": 0, "digit_rows": 9},
        ),
        ("alike", arguments(20, 20, 5, 6, 3, 8, 1, kinds=1), {"cols": 8, "act": "tanh"}),
        ("one", arguments(1, 1, 1, 1, 1, 1, 1), {"tokens": 1, "cols": 1, "column": 59, "digit_rows": 10}),
        ("nothing", arguments(3, 0, 4, 6, 3, 8, 1), {"cols": 8}),
        *(
            (name, arguments(12, 7, 9, 6, 3, 17, 1, **attrs), {"cols": 17, **attrs})
            for name, attrs in PRELU.items()
        ),
    ]


def large() -> list[tuple[Any, ...]]:
    """Several chunks."""

    def make(rng: np.random.Generator) -> dict[str, Array | None]:
        made = arguments(300, 200, 24, 6, 3, 32, 2, kinds=150)(rng)
        made["digits"] = rng.integers(-1, 6, (24, 200, 18)).astype(np.int8)
        return made

    return [
        (make, {"cols": 32, "groups": 2, "act": "gelu"}),
        (arguments(300, 200, 24, 6, 3, 32, kinds=150, act="prelu"), {"cols": 32, "act": "prelu"}),
    ]
