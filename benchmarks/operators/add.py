"""Sums beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from ..passes import case
from ..sections.kernels import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """One row, or one per kind."""
    nodes, width = setting.size(10_000, 60), 64
    both = {"x": setting.array(nodes, width), "y": setting.array(nodes, width)}
    yield from case(setting, "add", both, lambda x, y: x + y)
    repeated = {"x": setting.array(nodes // 10, 10, width), "y": setting.array(nodes // 10, width)}
    yield from case(setting, "add", repeated, lambda x, y: x + y[:, None], what="rows of nodes repeated")
