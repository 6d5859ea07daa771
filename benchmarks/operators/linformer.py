"""Attention to projected keys beside the same in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..passes import case
from ..sections.kernels import Case, Setting

WIDTH, PROJECT, BINS = 64, 64, 256


def cases(setting: Setting) -> Iterator[Case]:
    nodes, project, bins = setting.size(10_000, 60), setting.size(PROJECT, 5), setting.size(BINS, 8)
    rows = {name: setting.array(nodes, WIDTH) for name in "qkv"}
    weights = {f"project_{name}": setting.array(project, bins) / np.float32(np.sqrt(bins)) for name in "kv"}
    for heads in (1, 4):
        yield from case(
            setting,
            "linformer",
            rows | weights,
            _peer(setting.torch, nodes, bins, heads) if setting.torch else None,
            what=f"{project} keys, {heads} heads",
            flops=7 * 2.0 * nodes * project * WIDTH,
            kept=True,
            heads=heads,
            project=project,
            bins=bins,
        )


def _peer(torch: Any, nodes: int, bins: int, heads: int) -> Any:
    at = torch.arange(nodes) * bins // nodes
    share = 1 / torch.bincount(at, minlength=bins).clamp(min=1)

    def means(x: Any) -> Any:
        return torch.zeros(bins, x.shape[1]).index_add(0, at, x) * share[:, None]

    def run(q: Any, k: Any, v: Any, project_k: Any, project_v: Any) -> Any:
        rows = (q, project_k @ means(k), project_v @ means(v))
        y = torch.nn.functional.scaled_dot_product_attention(
            *(x.view(1, len(x), heads, -1).transpose(1, 2) for x in rows)
        )
        return y.transpose(1, 2).reshape(nodes, -1)

    return run
