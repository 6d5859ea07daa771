"""Tokens of unique cells beside an embedding and a linear layer of PyTorch.

The peer is given the positions of the dimensions and their features, which we look up in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..passes import ours
from ..sections.kernels import Case, Setting
from . import config_graph

REQUIRED = 1.5


def cases(setting: Setting) -> Iterator[Case]:
    nodes, configs, width, groups = setting.size(200, 5), setting.size(10, 4), setting.size(256, 16), 3
    order = np.tile(np.arange(6, dtype=np.int8), (configs, nodes, 3, 1))
    digits = setting.rng.permuted(order, axis=3)
    feat, dy = setting.array(nodes, 60), setting.array(nodes * configs, 6 * width)
    weights = {
        "position": setting.array(21, width),
        "bias": setting.array(width),
        "weight": setting.array(width, groups),
    }
    graph = config_graph(nodes, np.arange(nodes), digits.reshape(configs, nodes, 18), feat)
    attrs = {"cols": width, "act": "relu", "column": 37, "groups": groups, "step": 8}
    call = ours("dimension_tokens", {"x": feat, **weights}, dy, graph, configs, **attrs)
    positions = np.argsort(digits, axis=3).swapaxes(0, 1).reshape(-1, 3, 6) + 1 + 7 * np.arange(3)[:, None]
    features = np.repeat(feat[:, 37 + 8 * np.arange(groups) + np.arange(6)[:, None]], configs, axis=0)
    rows = np.ascontiguousarray(positions.swapaxes(1, 2)), features
    peers = {"PyTorch": _peer(setting.torch, *rows, weights, dy)} if setting.torch else {}
    notes = "ours finds the unique cells, in either direction, and has a gradient of the digits"
    yield Case(f"dimension_tokens {len(dy)} cells, 6 x {width}", call, peers, REQUIRED, notes=notes)


def _peer(torch: Any, positions: Any, features: Any, weights: dict[str, Any], dy: Any) -> Any:
    at = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    rows, given = torch.tensor(positions), torch.tensor(dy.reshape(len(dy), 6, -1))
    features = torch.tensor(features, requires_grad=True)
    functions = torch.nn.functional

    def run() -> Any:
        for tensor in (*at.values(), features):
            tensor.grad = None
        z = functions.linear(features, at["weight"], at["bias"])
        y = torch.relu(z + functions.embedding(rows, at["position"]).sum(2))
        y.backward(given)
        return y

    return run
