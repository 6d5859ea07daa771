"""Rows put in the places of the configurable nodes beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..passes import ours
from ..sections.kernels import Case, Setting
from . import config_graph

REQUIRED = 1.5


def cases(setting: Setting) -> Iterator[Case]:
    nodes, configs, width = setting.size(5000, 40), setting.size(16, 3), setting.size(128, 16)
    x, rest = setting.array(nodes // 10, configs, width), setting.array(nodes, width)
    dy = setting.array(nodes, configs, width)
    ids = setting.rng.permutation(nodes)[: len(x)].astype(np.int64)

    call = ours("put_config_nodes", {"x": x, "rest": rest}, dy, config_graph(nodes, ids), configs)
    peers = {"PyTorch": _peer(setting.torch, x, rest, dy, ids)} if setting.torch else {}
    name = f"put_config_nodes {len(ids)} of {nodes} nodes, {configs} configs, {width} wide"
    yield Case(name, call, peers, REQUIRED)


def _peer(torch: Any, x: Any, rest: Any, dy: Any, ids: Any) -> Any:
    places, given = torch.tensor(ids), torch.tensor(dy)
    rows, others = torch.tensor(x, requires_grad=True), torch.tensor(rest, requires_grad=True)

    def run() -> Any:
        rows.grad = others.grad = None
        y = others[:, None].expand(-1, rows.shape[1], -1).index_copy(0, places, rows)
        y.backward(given)
        return y

    return run
