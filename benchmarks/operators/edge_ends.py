"""Rows of both ends of every edge beside PyTorch's index_select and cat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import beside
from ..sections.kernels import Case, Setting
from . import edge_graph

WIDTH, REQUIRED = 64, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    nodes, edges = setting.size(10_000, 60), setting.size(16_000, 90)
    graph, index = edge_graph(setting, nodes, edges)
    for configs in (0, 16):
        x = {"x": setting.array(*((nodes, configs, WIDTH) if configs else (nodes, WIDTH)))}

        def peer(x: Any) -> Any:
            u, v = setting.torch.from_numpy(index).T.contiguous()
            return setting.torch.cat([x.index_select(0, u), x.index_select(0, v)], -1)

        name = f"edge_ends N={nodes:,} E={edges:,} C={configs or 1} F={WIDTH}"
        yield beside(setting, name, "edge_ends", x, peer, graph, configs or 1, REQUIRED)
