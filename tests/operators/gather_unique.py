"""Rows of unique cells at all cells that equal them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from reference.cells import unique_cells

from operators.cell_columns import cells

Array = np.ndarray[Any, Any]

GRADIENTS = ("x",)


def forward(
    x: Array, digits: Array, config_nodes: Array, node_feat: Array, node_opcode: Array | None = None
) -> Array:
    """y(K,C,F)"""
    of, _ = unique_cells(digits, config_nodes, node_feat, node_opcode)
    return x[of]


def backward(
    dy: Array,
    x: Array,
    digits: Array,
    config_nodes: Array,
    node_feat: Array,
    node_opcode: Array | None = None,
) -> dict[str, Array]:
    """dx sums over equal cells."""
    of, _ = unique_cells(digits, config_nodes, node_feat, node_opcode)
    dx = np.zeros_like(x)
    np.add.at(dx, of, dy)
    return {"x": dx}


def arguments(nodes: int, k: int, configs: int, cols: int, kinds: int) -> Callable[..., dict[str, Array]]:
    """Arguments of a call."""

    def make(rng: np.random.Generator) -> dict[str, Array]:
        given = cells(rng, nodes, k, configs, 18, 5, kinds)
        _, at = unique_cells(**given)
        return {"x": rng.normal(size=(len(at), cols)), **given}

    return make


def cases() -> list[tuple[Any, ...]]:
    """Small calls."""
    return [
        ("few-kinds", arguments(12, 9, 11, 17, 2)),
        ("all-alike", arguments(70, 70, 40, 3, 1)),
        ("all-different", arguments(9, 9, 1, 24, 1000)),
        ("nothing", arguments(4, 0, 3, 5, 2)),
        ("one", arguments(1, 1, 1, 1, 1)),
    ]


def large() -> list[tuple[Any, ...]]:
    """Several chunks."""
    return [(arguments(500, 500, 24, 48, 400), {})]
