"""Gates beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting

WIDTH = 64


def cases(setting: Setting) -> Iterator[Case]:
    nodes = setting.size(10_000, 60)

    def unit(a: Any, x: Any) -> Any:
        return setting.torch.sigmoid(a) * x

    def between(a: Any, x: Any, y: Any) -> Any:
        return setting.torch.lerp(y, x, setting.torch.sigmoid(a))

    for names, peer, what in (("ax", unit, "a unit"), ("axy", between, "between two")):
        arrays = {name: setting.array(nodes, WIDTH) for name in names}
        yield from case(setting, "gate", arrays, peer, what=what)
