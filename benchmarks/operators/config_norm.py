"""Norm over configs beside PyTorch's batch norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """One row, or one per kind."""
    configs, width = setting.size(10_000, 60), 64

    def peer(x: Any) -> Any:
        return setting.torch.nn.functional.batch_norm(x, None, None, training=True)

    arrays = {"x": setting.array(configs, width)}
    yield from case(setting, "config_norm", arrays, peer, kept=True, nodes=1, configs=configs)
