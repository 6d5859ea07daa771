"""Places of dimensions at unique cells beside PyTorch, which scatters them as the fifth place does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..passes import ours
from ..sections.kernels import Case, Setting
from . import config_graph

REQUIRED = 0.5  # the peer need not find what is equal


def cases(setting: Setting) -> Iterator[Case]:
    nodes, configs, width = setting.size(200, 5), setting.size(10, 4), setting.size(156, 6)
    order = np.tile(np.arange(6, dtype=np.int8), (configs, nodes, 3, 1))
    digits, feat = setting.rng.permuted(order, axis=3), setting.array(nodes, width)
    dy = setting.array(nodes * configs, width + 18)
    graph = config_graph(nodes, np.arange(nodes), digits.reshape(configs, nodes, 18), feat)
    call = ours("cell_columns", {"x": feat}, dy, graph, configs)
    rows = digits.swapaxes(0, 1).reshape(-1, 3, 6)
    peers = {"PyTorch": _peer(setting.torch, feat, rows, configs, dy)} if setting.torch else {}
    notes = "ours finds the unique cells, in either direction, and has a gradient of the digits"
    yield Case(f"cell_columns {len(dy)} cells, {width} wide", call, peers, REQUIRED, notes=notes)


def _peer(torch: Any, x: Any, digits: Any, configs: int, dy: Any) -> Any:
    at, layouts = torch.tensor(x, requires_grad=True), torch.tensor(digits.astype(np.int64))
    node, given = torch.arange(len(x)).repeat_interleave(configs), torch.tensor(dy)

    def run() -> Any:
        at.grad = None
        places = torch.full(layouts.shape, -1.0)
        places.scatter_(2, layouts, torch.arange(6.0).expand(layouts.shape))
        y = torch.cat([at.index_select(0, node), places.flatten(1)], 1)
        y.backward(given)
        return y

    return run
