"""Linear attention beside the same in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting

WIDTH, REQUIRED = 64, 3.0


def cases(setting: Setting) -> Iterator[Case]:
    nodes = setting.size(10_000, 60)
    for heads, normalise in ((1, 1), (4, 1), (4, 0)):

        def peer(q: Any, k: Any, v: Any, heads: int = heads, normalise: int = normalise) -> Any:
            elu = setting.torch.nn.functional.elu
            q, k, v = (x.view(nodes, heads, -1).transpose(0, 1) for x in (q, k, v))
            q, k = elu(q) + 1, elu(k) + 1
            y = q @ (k.transpose(1, 2) @ v)
            if normalise:
                y = y / (q @ k.sum(1).unsqueeze(-1) + 1e-6)
            return y.transpose(0, 1).reshape(nodes, -1)

        yield from case(
            setting,
            "linear_attention",
            {name: setting.array(nodes, WIDTH) for name in "qkv"},
            peer,
            what=f"{heads} heads{'' if normalise else ', not normalised'}",
            required=REQUIRED,
            flops=6 * 2.0 * nodes * WIDTH * WIDTH / heads,
            kept=True,
            heads=heads,
            normalise=normalise,
        )
