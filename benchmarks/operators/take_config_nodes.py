"""Rows of the configurable nodes beside PyTorch."""

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
    x, dy = setting.array(nodes, configs, width), setting.array(nodes // 10, configs, width)
    ids = setting.rng.permutation(nodes)[: len(dy)].astype(np.int64)

    call = ours("take_config_nodes", {"x": x}, dy, config_graph(nodes, ids), configs)
    peers = {"PyTorch": _peer(setting.torch, x, dy, ids)} if setting.torch else {}
    name = f"take_config_nodes {len(ids)} of {nodes} nodes, {configs} configs, {width} wide"
    yield Case(name, call, peers, REQUIRED)


def _peer(torch: Any, x: Any, dy: Any, ids: Any) -> Any:
    at, given, index = torch.tensor(x, requires_grad=True), torch.tensor(dy), torch.tensor(ids)

    def run() -> Any:
        at.grad = None
        y = at.index_select(0, index)
        y.backward(given)
        return y

    return run
