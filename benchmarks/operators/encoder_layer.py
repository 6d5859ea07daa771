"""Encoder layer of the fifth place's size beside torch.nn.TransformerEncoderLayer: forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpugraphs import kernels

SHAPES = {  # name -> rows, tokens, columns of a token, hidden columns, heads
    "2000 rows, 6 x 256": (2000, 6, 256, 256, 2),
    "10000 rows, 6 x 64": (10000, 6, 64, 128, 2),
}
QUICK = {"40 rows, 6 x 32": (40, 6, 32, 32, 2)}


def _peer(
    x: Any, dy: Any, weights: dict[str, Any], tokens: int, heads: int, hidden: int, norm_first: bool
) -> Any:
    import torch

    width = x.shape[1] // tokens
    layer = torch.nn.TransformerEncoderLayer(
        width, heads, hidden, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    layer.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    at = torch.tensor(x.reshape(-1, tokens, width), requires_grad=True)
    given = torch.tensor(dy.reshape(-1, tokens, width))

    def run() -> None:
        layer.zero_grad()
        at.grad = None
        layer(at).backward(given)

    return run


def cases(quick: bool) -> list[dict[str, Any]]:
    """Forward and backward of one layer."""
    rng, rows = np.random.default_rng(0), []
    for name, (n, tokens, width, hidden, heads) in (QUICK if quick else SHAPES).items():
        x = rng.normal(size=(n, tokens * width)).astype(np.float32)
        dy = rng.normal(size=x.shape).astype(np.float32)
        shapes = {
            "in_proj_weight": ("self_attn.in_proj_weight", (3 * width, width)),
            "in_proj_bias": ("self_attn.in_proj_bias", (3 * width,)),
            "out_proj_weight": ("self_attn.out_proj.weight", (width, width)),
            "out_proj_bias": ("self_attn.out_proj.bias", (width,)),
            "linear1_weight": ("linear1.weight", (hidden, width)),
            "linear1_bias": ("linear1.bias", (hidden,)),
            "linear2_weight": ("linear2.weight", (width, hidden)),
            "linear2_bias": ("linear2.bias", (width,)),
        }
        shapes |= {
            f"norm{i}_{part}": (f"norm{i}.{part}", (width,)) for i in (1, 2) for part in ("weight", "bias")
        }
        weights = {
            ours: (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)
            for ours, (_, shape) in shapes.items()
        }
        for norm in ("post", "pre"):
            attrs: dict[str, Any] = {"tokens": tokens, "heads": heads, "hidden": hidden, "norm": norm}

            def ours(x: Any = x, dy: Any = dy, weights: Any = weights, attrs: Any = attrs) -> None:
                kernels.encoder_layer(x, **weights, **attrs)
                kernels.encoder_layer_backward(dy, x, **weights, **attrs)

            named = {shapes[k][0]: value for k, value in weights.items()}
            try:
                peer = _peer(x, dy, named, tokens, heads, hidden, norm == "pre")
            except ImportError:
                peer = None
            rows.append({"name": f"{name}, {norm}-norm", "ours": ours, "peer": peer, "peer_name": "PyTorch"})
    return rows
