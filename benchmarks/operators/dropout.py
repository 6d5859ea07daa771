"""Dropout in training beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from ..passes import case
from ..sections.kernels import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """One row, or one per kind."""
    nodes, width = setting.size(10_000, 60), 64
    arrays = {"x": setting.array(nodes, width)}
    yield from case(
        setting,
        "dropout",
        arrays,
        lambda x: setting.torch.nn.functional.dropout(x, 0.2),
        required=3.0,
        random=True,
        p=0.2,
        training=True,
    )
