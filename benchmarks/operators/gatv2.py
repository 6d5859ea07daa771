"""GATv2 beside PyG's GATv2Conv with the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..sections.kernels import Call, Case, Setting
from . import Array, Sandwich, TorchSandwich, random_graph, same_job

WIDTH, HEADS, REQUIRED = 64, 4, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    nodes, edges = setting.size(10_000, 60), setting.size(16_000, 90)
    index = random_graph(setting, nodes, edges)
    for configs in (1, 16):
        x = setting.array(nodes, configs, WIDTH)
        attrs = {"cols": WIDTH // HEADS, "heads": HEADS}
        step = {"op": "gatv2", "name": "gat", "in": ["x"], "out": "y", "attrs": attrs}
        ours, peers = Sandwich([step], x, index), dict[str, Call]()
        if setting.torch:
            peers["PyG"] = _peer(setting.torch, ours, x, index)
        yield Case(
            f"gatv2 N={nodes:,} E={edges:,} C={configs} F={WIDTH} H={HEADS}",
            ours,
            peers,
            REQUIRED,
            6 * 2.0 * nodes * configs * WIDTH * WIDTH,
            "roof: two products for all rows, three times; those of nodes without edges are left out",
        )


def _peer(torch: Any, ours: Sandwich, x: Array, index: Array) -> TorchSandwich:
    from torch_geometric.nn import GATv2Conv

    conv = GATv2Conv(WIDTH, WIDTH // HEADS, HEADS, add_self_loops=False)
    named = ours.parameters()
    with torch.no_grad():
        for parameter, name in (
            (conv.lin_l.weight, "weight_l"), (conv.lin_l.bias, "bias_l"), (conv.lin_r.weight, "weight_r"),
            (conv.lin_r.bias, "bias_r"), (conv.att, "att"), (conv.bias, "bias"),
        ):  # fmt: skip
            parameter[:] = torch.tensor(named[f"gat.{name}"]).view(parameter.shape)
    head = named["head.weight"], named["head.bias"]
    return same_job(ours, TorchSandwich(torch, conv, head, x, index))
