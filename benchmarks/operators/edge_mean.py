"""Sums over neighbours beside PyG's SimpleConv: the mean of rows, and their sum with weights to learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..sections.kernels import Call, Case, Setting
from . import Array, Sandwich, TorchSandwich, random_graph, same_job

WIDTH, REQUIRED = 64, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    nodes, edges = setting.size(10_000, 60), setting.size(16_000, 90)
    index = random_graph(setting, nodes, edges)
    for kind, weight in (("mean", None), ("sum", setting.array(edges, 1))):
        for configs in (1, 16):
            x, inputs = setting.array(nodes, configs, WIDTH), ["x"] if weight is None else ["x", "weight"]
            step = {"op": "edge_mean", "name": "edges", "in": inputs, "out": "y", "attrs": {"kind": kind}}
            ours, peers = Sandwich([step], x, index, weight), dict[str, Call]()
            if setting.torch:
                peers["PyG"] = _peer(setting.torch, ours, kind, x, index, weight)
            name = f"edge_mean {kind}{'' if weight is None else ', weighted'}"
            yield Case(f"{name} N={nodes:,} E={edges:,} C={configs} F={WIDTH}", ours, peers, REQUIRED)


def _peer(
    torch: Any, ours: Sandwich, kind: str, x: Array, index: Array, weight: Array | None
) -> TorchSandwich:
    from torch_geometric.nn import SimpleConv

    class Layer(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = SimpleConv(aggr=kind)
            self.weight = None if weight is None else torch.nn.Parameter(torch.from_numpy(weight.ravel()))

        def forward(self, x: Any, edges: Any) -> Any:
            if self.weight is None:
                return self.conv(x, edges)
            return self.conv(x, edges, self.weight.repeat(edges.shape[1] // len(self.weight)))

    named = ours.parameters()
    head = named["head.weight"], named["head.bias"]
    return same_job(ours, TorchSandwich(torch, Layer(), head, x, index))
