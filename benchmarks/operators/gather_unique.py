"""Rows of unique cells at all cells, nine of ten repeated, beside PyTorch, which is given their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..passes import ours
from ..sections.kernels import Case, Setting
from . import config_graph

REQUIRED = 1.5


def cases(setting: Setting) -> Iterator[Case]:
    nodes, configs, width = setting.size(200, 5), setting.size(100, 20), setting.size(256, 8)
    kinds = setting.rng.integers(-1, 6, (configs // 10, nodes, 18)).astype(np.int8)
    chosen = setting.rng.permutation(np.arange(configs) % len(kinds))
    graph = config_graph(nodes, np.arange(nodes), kinds[chosen], setting.array(nodes, 4))
    first = np.unique(chosen, return_index=True)[1]  # numbers follow the first appearance, node by node
    order = np.argsort(np.argsort(first))[chosen]
    numbers = (order + len(kinds) * np.arange(nodes)[:, None]).reshape(-1)
    x, dy = setting.array(nodes * len(kinds), width), setting.array(nodes, configs, width)

    call = ours("gather_unique", {"x": x}, dy, graph, configs)
    peers = {"PyTorch": _peer(setting.torch, x, dy, numbers)} if setting.torch else {}
    name = f"gather_unique {len(x)} of {numbers.size} cells, {width} wide"
    yield Case(name, call, peers, REQUIRED, notes="ours finds the equal cells, in either direction")


def _peer(torch: Any, x: Any, dy: Any, numbers: Any) -> Any:
    at, given = torch.tensor(x, requires_grad=True), torch.tensor(dy.reshape(-1, x.shape[1]))
    index = torch.tensor(numbers)

    def run() -> Any:
        at.grad = None
        y = at.index_select(0, index)
        y.backward(given)
        return y

    return run
