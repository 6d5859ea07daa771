"""Attention over edges beside the same in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting
from . import Array, random_graph

WIDTH, HEADS, REQUIRED = 64, 4, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    """The scores of TransformerConv and of GAT."""
    nodes, edges = setting.size(10_000, 60), setting.size(16_000, 90)
    index = random_graph(setting, nodes, edges)
    for score, wide in (("dot", WIDTH), ("additive", HEADS)):
        for configs in (0, 16):
            rows = (nodes,) if configs == 0 else (nodes, configs)
            arrays = {n: setting.array(*rows, c) for n, c in (("q", wide), ("k", wide), ("v", WIDTH))}
            peer = _peer(setting.torch, index, score) if setting.torch else None
            yield from case(
                setting, "edge_attention", arrays, peer, what=score, required=REQUIRED, kept=True,
                edge_index=index, score=score, heads=HEADS,
            )  # fmt: skip


def _peer(torch: Any, index: Array, score: str) -> Any:
    source, target = (torch.from_numpy(column.copy()) for column in index.T)

    def peer(q: Any, k: Any, v: Any) -> Any:
        q, k, heads = (x.view(*x.shape[:-1], HEADS, -1) for x in (q, k, v))
        far, own = k.index_select(0, source), q.index_select(0, target)
        if score == "dot":
            scores = (far * own).sum(-1, keepdim=True) * q.shape[-1] ** -0.5
        else:
            scores = torch.nn.functional.leaky_relu(far + own, 0.2)
        at = target.view(-1, *[1] * (scores.ndim - 1)).expand_as(scores)
        lowest = torch.full((len(v), *scores.shape[1:]), float("-inf"))
        top = lowest.scatter_reduce(0, at, scores.detach(), "amax")
        power = (scores - top.index_select(0, target)).exp()
        total = torch.zeros_like(top).index_add(0, target, power)
        weight = power / total.index_select(0, target)
        y = torch.zeros_like(heads).index_add(0, target, weight * heads.index_select(0, source))
        return y.view_as(v)

    return peer
