"""Mean over tokens beside PyTorch: forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpugraphs import kernels


def cases(quick: bool) -> list[dict[str, Any]]:
    """Forward and backward."""
    n, tokens, width = (40, 6, 32) if quick else (10000, 6, 256)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, tokens * width)).astype(np.float32)
    dy = rng.normal(size=(n, width)).astype(np.float32)

    def ours() -> None:
        kernels.pool_tokens(x, tokens=tokens)
        kernels.pool_tokens_backward(dy, x, tokens=tokens)

    return [
        {"name": f"{n} rows, {tokens} x {width}", "ours": ours, "peer": _peer(x, dy), "peer_name": "PyTorch"}
    ]


def _peer(x: Any, dy: Any) -> Any:
    try:
        import torch
    except ImportError:
        return None
    at = torch.tensor(x.reshape(len(x), -1, dy.shape[1]), requires_grad=True)
    given = torch.tensor(dy)

    def run() -> None:
        at.grad = None
        at.mean(1).backward(given)

    return run
