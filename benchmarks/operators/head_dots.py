"""Dot products per head beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting

WIDTH, HEADS, REQUIRED = 64, 4, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    """As GAT scores its nodes."""
    nodes = setting.size(10_000, 60)
    arrays = {"x": setting.array(nodes, WIDTH), "att": setting.array(HEADS, WIDTH // HEADS)}

    def peer(x: Any, att: Any) -> Any:
        return (x.view(nodes, HEADS, -1) * att).sum(-1)

    yield from case(setting, "head_dots", arrays, peer, required=REQUIRED, heads=HEADS)
