"""Rows of the configurable nodes beside PyTorch: forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpugraphs import kernels


def cases(quick: bool) -> list[dict[str, Any]]:
    """Forward and backward."""
    nodes, k, configs, width = (40, 10, 3, 16) if quick else (5000, 500, 16, 128)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(nodes, configs, width)).astype(np.float32)
    dy = rng.normal(size=(k, configs, width)).astype(np.float32)
    ids = rng.permutation(nodes)[:k].astype(np.int64)

    def ours() -> None:
        kernels.take_config_nodes(x, ids)
        kernels.take_config_nodes_backward(dy, x, ids)

    name = f"{k} of {nodes} nodes, {configs} configs, {width} wide"
    return [{"name": name, "ours": ours, "peer": _peer(x, dy, ids), "peer_name": "PyTorch"}]


def _peer(x: Any, dy: Any, ids: Any) -> Any:
    try:
        import torch
    except ImportError:
        return None
    at, given, index = torch.tensor(x, requires_grad=True), torch.tensor(dy), torch.tensor(ids)

    def run() -> None:
        at.grad = None
        at.index_select(0, index).backward(given)

    return run
