"""Unique cells: equal digits at configurable nodes that are alike, numbered as they appear, node by node."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def unique_cells(
    digits: Array, config_nodes: Array, node_feat: Array, node_opcode: Array | None = None
) -> tuple[Array, Array]:
    """Number of every cell (K,C), and position k * C + c of the first cell of each number (U,)."""
    configs, nodes = digits.shape[:2]
    numbers: dict[tuple[Any, ...], int] = {}
    of, at = np.zeros((nodes, configs), np.int64), []
    for k, node in enumerate(config_nodes):
        opcode = None if node_opcode is None else int(node_opcode[node])
        alike = opcode, np.ascontiguousarray(node_feat[node]).tobytes()
        for c in range(configs):
            key = (alike, digits[c, k].tobytes())
            if key not in numbers:
                numbers[key] = len(at)
                at.append(k * configs + c)
            of[k, c] = numbers[key]
    return of, np.array(at, np.int64)
