"""Mean over the configurable nodes beside PyTorch; that over all nodes is in *profile*."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..passes import beside
from ..sections.kernels import Case, Setting
from . import config_graph

WIDTH, REQUIRED = 64, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    nodes, configs = setting.size(10_000, 60), setting.size(16, 3)
    graph = config_graph(2 * nodes, 2 * np.arange(nodes, dtype=np.int64))
    for rows, what in (((nodes,), "graph"), ((nodes, configs), f"{configs} configs")):
        x = {"x": setting.array(*rows, WIDTH)}
        name = f"pool mean of {nodes:,} configurable nodes, {what}, {WIDTH} wide"

        def peer(x: object) -> object:
            return x.mean(0, keepdim=x.ndim == 2)  # type: ignore[attr-defined]

        yield beside(setting, name, "pool", x, peer, graph, configs if len(rows) == 2 else 1, REQUIRED)
