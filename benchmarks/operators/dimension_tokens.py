"""Tokens of dimensions beside a linear layer of PyTorch, which is given their features side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..passes import ours
from ..sections.kernels import Case, Setting

REQUIRED = 1.5


def cases(setting: Setting) -> Iterator[Case]:
    rows, width, groups = setting.size(2000, 20), setting.size(256, 16), 29
    x, dy = setting.array(rows, 6 * groups), setting.array(rows, 6 * width)
    weights = {"weight": setting.array(width, groups), "bias": setting.array(width)}
    attrs = {"cols": width, "act": "relu", "column": 0, "groups": groups, "step": 6}
    call = ours("dimension_tokens", {"x": x, **weights}, dy, rows, 1, **attrs)
    peers = {"PyTorch": _peer(setting.torch, x, weights, dy)} if setting.torch else {}
    yield Case(f"dimension_tokens {rows} rows, 6 x {width}", call, peers, REQUIRED)


def _peer(torch: Any, x: Any, weights: dict[str, Any], dy: Any) -> Any:
    at = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    features = np.ascontiguousarray(x.reshape(len(x), -1, 6).swapaxes(1, 2))
    features, given = torch.tensor(features, requires_grad=True), torch.tensor(dy.reshape(len(dy), 6, -1))

    def run() -> Any:
        for tensor in (*at.values(), features):
            tensor.grad = None
        y = torch.relu(torch.nn.functional.linear(features, at["weight"], at["bias"]))
        y.backward(given)
        return y

    return run
