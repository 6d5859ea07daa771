"""Rows of edges at their consumers beside PyTorch's index_add."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..passes import beside
from ..sections.kernels import Case, Setting
from . import edge_graph

WIDTH, REQUIRED = 64, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    nodes, edges = setting.size(10_000, 60), setting.size(16_000, 90)
    graph, index = edge_graph(setting, nodes, edges)
    counts = np.maximum(np.bincount(index[:, 0], minlength=nodes), 1).astype(np.float32)
    consumers, divisors = (
        (setting.torch.tensor(a) for a in (index[:, 0], counts)) if setting.torch else (0, 0)
    )
    for kind, configs in (("sum", 0), ("mean", 0), ("mean", 16)):
        rows = (edges, configs, WIDTH) if configs else (edges, WIDTH)

        def peer(x: Any, kind: str = kind) -> Any:
            y = x.new_zeros((nodes, *x.shape[1:])).index_add(0, consumers, x)
            return y if kind == "sum" else y / divisors.view(-1, *[1] * (x.ndim - 1))

        name = f"edge_pool {kind} N={nodes:,} E={edges:,} C={configs or 1} F={WIDTH}"
        x = {"x": setting.array(*rows)}
        yield beside(setting, name, "edge_pool", x, peer, graph, configs or 1, REQUIRED, kind=kind)
