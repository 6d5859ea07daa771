"""Weights of DropEdge beside PyG's dropout_edge, which makes a new list of edges instead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..sections.kernels import Call, Case, Setting
from . import random_graph


def cases(setting: Setting) -> Iterator[Case]:
    from tpugraphs import _core

    nodes, edges = setting.size(10_000, 60), setting.size(16_000, 90)
    index = random_graph(setting, nodes, edges)
    none = np.zeros(0, np.int64)
    graph = _core.ModelGraph(np.zeros((nodes, 1), np.float32), None, None, index, none)
    weights = np.empty((edges, 1), np.float32)
    peers: dict[str, Call] = {}
    if setting.torch:
        from torch_geometric.utils import dropout_edge

        tensor = setting.torch.from_numpy(index.T.copy())
        peers["PyG"] = lambda: dropout_edge(tensor, 0.2)
    yield Case(
        f"drop_edge E={edges:,}",
        lambda: _core.op_forward("drop_edge", {"p": 0.2}, (), (), graph, 1, 5, True, None, weights),
        peers,
        1.0,
        notes="forward alone: nothing has a gradient",
    )
