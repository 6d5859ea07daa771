"""Digits of layouts as columns, beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..sections.kernels import Call, Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    from tpugraphs import _core

    nodes, none = setting.size(10_000, 40), np.zeros(0, np.int64)
    digits = setting.rng.integers(-1, 6, (nodes, 6)).astype(np.int8)
    features, edges = np.zeros((nodes, 1), np.float32), np.zeros((0, 2), np.int64)
    graph = _core.ModelGraph(features, None, digits, edges, none)
    out = np.empty((nodes, 18), np.float32)
    peers: dict[str, Call] = {}
    if setting.torch:
        given = setting.torch.from_numpy(digits)
        peers["PyTorch"] = lambda: given.float().repeat(1, 3)
    yield Case(
        f"layout_columns {nodes} nodes, 3 copies",
        lambda: _core.op_forward("layout_columns", {"copies": 3}, (), (), graph, 1, 0, False, None, out),
        peers,
        1.0,
        notes="forward alone: nothing has a gradient",
    )
