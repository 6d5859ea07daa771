"""Softmax attention beside torch.nn.functional.scaled_dot_product_attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import case
from ..sections.kernels import Case, Setting

WIDTH = 64
SHAPES = (  # rows of q, of k: all nodes meet each other, or configs meet the nodes
    ("nodes", 2000, 2000),
    ("configs meet nodes", 128, 10_000),
)
QUICK = (("nodes", 60, 60), ("configs meet nodes", 7, 60))


def cases(setting: Setting) -> Iterator[Case]:
    for what, queries, keys in QUICK if setting.quick else SHAPES:
        for heads in (1, 4):
            yield from case(
                setting,
                "attention",
                {"q": setting.array(queries, WIDTH)} | {name: setting.array(keys, WIDTH) for name in "kv"},
                _peer(setting.torch, heads),
                what=f"{keys:,} keys, {what}, {heads} heads",
                flops=7 * 2.0 * queries * keys * WIDTH,
                kept=True,
                nodes=keys,
                configs=1 if queries == keys else queries,
                heads=heads,
            )


def _peer(torch: Any, heads: int) -> Any:
    def run(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.view(1, len(x), heads, -1).transpose(1, 2) for x in (q, k, v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(y.shape[2], -1)

    return run
