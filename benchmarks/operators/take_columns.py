"""Some columns beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from ..passes import case
from ..sections.kernels import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """Half of the columns."""
    arrays = {"x": setting.array(setting.size(10_000, 60), 128)}
    half = {"first": 64, "count": 64}
    yield from case(setting, "take_columns", arrays, lambda x: x[:, 64:].contiguous(), **half)
