"""Noise in training beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from ..passes import case
from ..sections.kernels import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """One row."""
    nodes, width = setting.size(10_000, 60), 64
    arrays = {"x": setting.array(nodes, width)}
    yield from case(
        setting,
        "noise",
        arrays,
        lambda x: x + 0.1 * setting.torch.randn_like(x),
        required=1.0,
        random=True,
        std=0.1,
        training=True,
    )
