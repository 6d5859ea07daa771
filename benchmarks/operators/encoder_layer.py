"""Encoder layer, in the fifth place's size and narrower, beside torch.nn.TransformerEncoderLayer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..sections.kernels import Case, Setting

REQUIRED = 1.2
SHAPES = ((2000, 6, 256, 256, 2), (10_000, 6, 64, 128, 2))  # rows, tokens, columns, hidden columns, heads
QUICK = ((40, 6, 32, 32, 2),)


def cases(setting: Setting) -> Iterator[Case]:
    from tpugraphs import kernels

    for n, tokens, width, hidden, heads in QUICK if setting.quick else SHAPES:
        x, dy = setting.array(n, tokens * width), setting.array(n, tokens * width)
        weights = _weights(setting, width, hidden)
        flops = 12.0 * n * tokens * width * (2 * width + hidden)  # of the products, without attention
        for norm in ("post", "pre"):
            attrs: dict[str, Any] = {"tokens": tokens, "heads": heads, "hidden": hidden, "norm": norm}

            def ours(x: Any = x, dy: Any = dy, weights: Any = weights, attrs: Any = attrs) -> Any:
                y = kernels.encoder_layer(x, **weights, **attrs)
                return y, kernels.encoder_layer_backward(dy, x, **weights, **attrs)

            peers = {"PyTorch": _peer(setting.torch, x, dy, weights, attrs)} if setting.torch else {}
            name = f"encoder_layer {n} rows, {tokens} x {width}, {norm}-norm"
            yield Case(name, ours, peers, REQUIRED, flops)


def _weights(setting: Setting, width: int, hidden: int) -> dict[str, Any]:
    """By the names of the op; weights of norms lie around 1."""
    shapes = {
        "in_proj_weight": (3 * width, width),
        "in_proj_bias": (3 * width,),
        "out_proj_weight": (width, width),
        "out_proj_bias": (width,),
        "linear1_weight": (hidden, width),
        "linear1_bias": (hidden,),
        "linear2_weight": (width, hidden),
        "linear2_bias": (width,),
    }
    weights = {name: setting.array(*shape) / np.float32(np.sqrt(shape[-1])) for name, shape in shapes.items()}
    for i in (1, 2):
        weights |= {f"norm{i}_weight": np.ones(width, np.float32), f"norm{i}_bias": setting.array(width)}
    return weights


def _torch_name(name: str) -> str:
    if name.startswith("in_proj"):
        return f"self_attn.{name}"
    return ("self_attn." if name.startswith("out_proj") else "") + ".".join(name.rsplit("_", 1))


def _peer(torch: Any, x: Any, dy: Any, weights: dict[str, Any], attrs: dict[str, Any]) -> Any:
    tokens, width = attrs["tokens"], x.shape[1] // attrs["tokens"]
    layer = torch.nn.TransformerEncoderLayer(
        width, attrs["heads"], attrs["hidden"], 0.0, batch_first=True, norm_first=attrs["norm"] == "pre"
    )
    layer.load_state_dict({_torch_name(name): torch.tensor(value) for name, value in weights.items()})
    at = torch.tensor(x.reshape(-1, tokens, width), requires_grad=True)
    given = torch.tensor(dy.reshape(-1, tokens, width))

    def run() -> Any:
        layer.zero_grad()
        at.grad = None
        y = layer(at)
        y.backward(given)
        return y

    return run
