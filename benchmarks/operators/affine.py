"""Scale and bias per column beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from ..passes import case
from ..sections.kernels import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """One row, or one per kind."""
    nodes, width = setting.size(10_000, 60), 64
    arrays = {"x": setting.array(nodes, width), "weight": setting.array(width), "bias": setting.array(width)}
    yield from case(setting, "affine", arrays, lambda x, weight, bias: x * weight + bias)
