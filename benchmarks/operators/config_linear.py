"""Configurable nodes with their digits as numbers, beside PyTorch's product; all nodes are in *profile*.

Both are averaged over these nodes and made scores, as in models, which ask for no gradient of digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..sections.kernels import Call, Case, Setting
from . import Array, config_graph

WIDTH, REQUIRED = 64, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    from tpugraphs import _core

    nodes, configs = setting.size(10_000, 60), setting.size(16, 3)
    digits = setting.rng.integers(-1, 6, (configs, nodes, 18)).astype(np.int8)
    features = setting.array(nodes, WIDTH)
    graph = config_graph(nodes, np.arange(nodes, dtype=np.int64), digits, features)
    linear = {"out": WIDTH, "column": WIDTH, "values": "numbers", "scale": 0.2}
    steps = [
        {"op": "take_config_nodes", "name": "take", "in": ["node_feat"], "out": "h"},
        {"op": "config_linear", "name": "first", "in": ["h"], "out": "y", "attrs": linear},
        {"op": "pool", "name": "pool", "in": ["y"], "out": "pooled", "attrs": {"kind": "mean"}},
        {"op": "linear", "name": "head", "in": ["pooled"], "out": "scores", "attrs": {"out": 1}},
    ]
    model = _core.Model(steps, 0, WIDTH)
    trainer, values = _core.Trainer(model), np.arange(configs, dtype=np.float64)

    def ours() -> Any:
        return trainer.gradients([(graph, np.arange(configs))], {"value": [values]}, [{"loss": "mse"}])

    peers = dict[str, Call]()
    if setting.torch:
        weights = [model.params[at : at + int(np.prod(s))].reshape(s) for _, at, s in model.layout]
        peers["PyTorch"] = _peer(setting.torch, weights, features, digits)
        assert np.isclose(ours()[0], peers["PyTorch"](), rtol=1e-4), "not the same job"
    name = f"config_linear of {nodes:,} configurable nodes, {configs} configs, numbers, {WIDTH} to {WIDTH}"
    yield Case(name, ours, peers, REQUIRED)


def _peer(torch: Any, weights: list[Array], features: Array, digits: Array) -> Call:
    functional = torch.nn.functional
    first, bias, head, last = (torch.tensor(w, requires_grad=True) for w in weights)
    h, numbers = torch.tensor(features), torch.tensor(digits.swapaxes(0, 1).astype(np.float32) / 5)
    values = torch.arange(len(digits), dtype=torch.float32)

    def run() -> float:
        for tensor in (first, bias, head, last):
            tensor.grad = None
        x = torch.cat([h[:, None].expand(-1, len(digits), -1), numbers], -1)
        pooled = functional.linear(x, first, bias).mean(0)
        loss = ((functional.linear(pooled, head, last).flatten() - values) ** 2).mean()
        loss.backward()
        return float(loss)

    return run
