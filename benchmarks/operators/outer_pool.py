"""Sums of outer products over the nodes beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting

WIDTH, REQUIRED = 16, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    nodes, configs = setting.size(10_000, 60), setting.size(16, 3)
    for what, a, b in (
        ("graph", (), ()),
        ("configs of both", (configs,), (configs,)),
        ("configs of b", (), (configs,)),
    ):

        def peer(a: Any, b: Any) -> Any:
            if a.ndim == b.ndim == 2:
                return (a.T @ b).view(1, -1)
            if a.ndim == 2:  # one product for all configs
                return (
                    (a.T @ b.view(nodes, -1)).view(WIDTH, configs, WIDTH).transpose(0, 1).reshape(configs, -1)
                )
            return (a.permute(1, 2, 0) @ b.transpose(0, 1)).reshape(configs, -1)

        yield from case(
            setting,
            "outer_pool",
            {"a": setting.array(nodes, *a, WIDTH), "b": setting.array(nodes, *b, WIDTH)},
            peer,
            what=f"{nodes:,} nodes, {what}",
            required=REQUIRED,
            flops=3 * 2.0 * nodes * max((*a, *b, 1)) * WIDTH * WIDTH,
        )
