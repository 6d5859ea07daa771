"""Tokens of 2,000 unique cells beside embedding tables and a linear layer of PyTorch: forward and backward.

The peer is given the positions of the dimensions and the features, which we find in the graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tpugraphs import kernels


def cases(quick: bool) -> list[dict[str, Any]]:
    """Forward and backward."""
    nodes, configs, width, groups = (5, 4, 16, 3) if quick else (200, 10, 256, 3)
    rng = np.random.default_rng(0)
    digits = rng.permuted(np.tile(np.arange(6, dtype=np.int8), (configs, nodes, 3, 1)), axis=3)
    feat = rng.normal(size=(nodes, 60)).astype(np.float32)
    attrs: dict[str, Any] = {"cols": width, "act": "relu", "column": 37, "groups": groups, "step": 8}
    weights = {
        "position": rng.normal(size=(21, width)).astype(np.float32),
        "bias": rng.normal(size=width).astype(np.float32),
        "weight": rng.normal(size=(width, groups)).astype(np.float32),
    }
    graph: Any = (digits.reshape(configs, nodes, 18), np.arange(nodes), feat)
    dy = rng.normal(size=(nodes * configs, 6 * width)).astype(np.float32)

    def ours() -> None:
        kernels.dimension_tokens(*graph, **weights, x=feat, **attrs)
        kernels.dimension_tokens_backward(dy, *graph, **weights, x=feat, **attrs)

    positions = np.argsort(digits, axis=3).swapaxes(0, 1).reshape(-1, 3, 6) + 1 + 7 * np.arange(3)[:, None]
    columns = 37 + 8 * np.arange(groups) + np.arange(6)[:, None]
    features = np.repeat(feat[:, columns], configs, axis=0)
    peer = _peer(positions.swapaxes(1, 2), features, weights, dy)
    name = f"{nodes * configs} cells, 6 x {width}"
    return [{"name": name, "ours": ours, "peer": peer, "peer_name": "PyTorch"}]


def _peer(positions: Any, features: Any, weights: dict[str, Any], dy: Any) -> Any:
    try:
        import torch
    except ImportError:
        return None
    at = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    rows, given = torch.tensor(positions.copy()), torch.tensor(dy.reshape(len(dy), 6, -1))
    features = torch.tensor(features, requires_grad=True)

    def run() -> None:
        for tensor in (*at.values(), features):
            tensor.grad = None
        z = torch.nn.functional.linear(features, at["weight"], at["bias"])
        z = z + torch.nn.functional.embedding(rows, at["position"]).sum(2)
        torch.relu(z).backward(given)

    return run
