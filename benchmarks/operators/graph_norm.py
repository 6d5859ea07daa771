"""Graph norm beside PyG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """One row, or one per kind."""
    nodes, width = setting.size(10_000, 60), 64
    arrays = {"x": setting.array(nodes, width)}
    arrays |= {name: setting.array(width) for name in ("weight", "bias", "mean_scale")}

    def peer(x: Any, weight: Any, bias: Any, mean_scale: Any) -> Any:
        from torch_geometric.nn import GraphNorm

        norm = GraphNorm(width)
        norm.weight, norm.bias, norm.mean_scale = (
            setting.torch.nn.Parameter(p.detach()) for p in (weight, bias, mean_scale)
        )
        return norm(x)

    yield from case(setting, "graph_norm", arrays, peer, peer="PyG", required=3.0, kept=True)
