"""Propagation along edges beside the same in PyTorch, whose weights of edges are made beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..passes import case
from ..sections.kernels import Case, Setting
from . import Array, random_graph

WIDTH, REQUIRED = 64, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    """A layer of GCN, and APPNP."""
    nodes, edges = setting.size(10_000, 60), setting.size(16_000, 90)
    index = random_graph(setting, nodes, edges)
    for name, steps, alpha in (("GCN", 1, 0.0), ("APPNP", 10, 0.1)):
        for configs in (0, 16):
            x = setting.array(nodes, WIDTH) if configs == 0 else setting.array(nodes, configs, WIDTH)
            peer = _peer(setting.torch, index, nodes, steps, alpha, x.ndim) if setting.torch else None
            yield from case(
                setting, "propagate", {"x": x}, peer, what=name, required=REQUIRED, edge_index=index,
                steps=steps, alpha=alpha,
            )  # fmt: skip


def _peer(torch: Any, index: Array, nodes: int, steps: int, alpha: float, dims: int) -> Any:
    loops = np.arange(nodes)
    apart = index[index[:, 0] != index[:, 1]]
    source, target = (torch.from_numpy(np.concatenate([column, loops])) for column in apart.T)
    root = torch.bincount(target, minlength=nodes).float().rsqrt()
    weight = (root[source] * root[target]).view(-1, *[1] * (dims - 1))

    def peer(x: Any) -> Any:
        y = x
        for _ in range(steps):
            sums = torch.zeros_like(x).index_add(0, target, weight * y.index_select(0, source))
            y = sums if alpha == 0 else (1 - alpha) * sums + alpha * x
        return y

    return peer
