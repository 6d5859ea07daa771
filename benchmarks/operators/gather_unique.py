"""Unique rows at 20,000 cells, nine of ten a repetition, beside PyTorch: forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpugraphs import kernels


def cases(quick: bool) -> list[dict[str, Any]]:
    """Forward and backward."""
    nodes, configs, width = (5, 20, 8) if quick else (200, 100, 256)
    rng = np.random.default_rng(0)
    kinds = rng.integers(-1, 6, (configs // 10, nodes, 18)).astype(np.int8)
    digits = kinds[rng.integers(0, len(kinds), configs)]
    feat = rng.normal(size=(nodes, 4)).astype(np.float32)
    numbers = np.unique(digits.swapaxes(0, 1).reshape(nodes * configs, 18), axis=0, return_inverse=True)[1]
    numbers = numbers.reshape(-1) + (int(numbers.max()) + 1) * np.repeat(np.arange(nodes), configs)
    numbers = np.unique(numbers, return_inverse=True)[1]
    x = rng.normal(size=(int(numbers.max()) + 1, width)).astype(np.float32)
    dy = rng.normal(size=(nodes, configs, width)).astype(np.float32)
    graph: Any = (digits, np.arange(nodes), feat)

    def ours() -> None:
        kernels.gather_unique(x, *graph)
        kernels.gather_unique_backward(dy, x, *graph)

    name = f"{len(x)} of {nodes * configs} cells, {width} wide"
    return [{"name": name, "ours": ours, "peer": _peer(x, dy, numbers), "peer_name": "PyTorch"}]


def _peer(x: Any, dy: Any, numbers: Any) -> Any:
    try:
        import torch
    except ImportError:
        return None
    at, given = torch.tensor(x, requires_grad=True), torch.tensor(dy.reshape(-1, x.shape[1]))
    index = torch.tensor(numbers)

    def run() -> None:
        at.grad = None
        at.index_select(0, index).backward(given)

    return run
