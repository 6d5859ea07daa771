"""Rows put in the places of the configurable nodes beside PyTorch: forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpugraphs import kernels


def cases(quick: bool) -> list[dict[str, Any]]:
    """Forward and backward."""
    nodes, k, configs, width = (40, 10, 3, 16) if quick else (5000, 500, 16, 128)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(k, configs, width)).astype(np.float32)
    rest = rng.normal(size=(nodes, width)).astype(np.float32)
    dy = rng.normal(size=(nodes, configs, width)).astype(np.float32)
    ids = rng.permutation(nodes)[:k].astype(np.int64)

    def ours() -> None:
        kernels.put_config_nodes(x, ids, rest=rest)
        kernels.put_config_nodes_backward(dy, x, ids, rest=rest)

    name = f"{k} of {nodes} nodes, {configs} configs, {width} wide"
    return [{"name": name, "ours": ours, "peer": _peer(x, rest, dy, ids), "peer_name": "PyTorch"}]


def _peer(x: Any, rest: Any, dy: Any, ids: Any) -> Any:
    try:
        import torch
    except ImportError:
        return None
    places = torch.tensor(ids)
    rows, others = torch.tensor(x, requires_grad=True), torch.tensor(rest, requires_grad=True)
    given = torch.tensor(dy)

    def run() -> None:
        rows.grad = others.grad = None
        wide = others[:, None].expand(-1, rows.shape[1], -1)
        wide.index_copy(0, places, rows).backward(given)

    return run
