"""Mean over tokens beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..passes import ours
from ..sections.kernels import Case, Setting

REQUIRED = 1.0


def cases(setting: Setting) -> Iterator[Case]:
    n, tokens, width = setting.size(10_000, 40), 6, setting.size(256, 16)
    x, dy = setting.array(n, tokens * width), setting.array(n, width)

    call = ours("pool_tokens", {"x": x}, dy, tokens=tokens)
    peers = {"PyTorch": _peer(setting.torch, x, dy)} if setting.torch else {}
    yield Case(f"pool_tokens {n} rows, {tokens} x {width}", call, peers, REQUIRED)


def _peer(torch: Any, x: Any, dy: Any) -> Any:
    at, given = torch.tensor(x.reshape(len(x), -1, dy.shape[1]), requires_grad=True), torch.tensor(dy)

    def run() -> Any:
        at.grad = None
        y = at.mean(1)
        y.backward(given)
        return y

    return run
