"""Softmax attention over the nodes of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("q", "k", "v")


def _heads(q: Array, k: Array, v: Array, heads: int) -> tuple[Array, Array, Array]:
    """Queries (G,R,H,D), keys (G,N,H,D), values (G,N,H,V): G groups, the configs if keys have them."""
    if k.ndim == 3:
        q = q.swapaxes(0, 1) if q.ndim == 3 else q[:, None]
        k, v = k.swapaxes(0, 1), v.swapaxes(0, 1)
    else:
        q, k, v = q.reshape(1, -1, q.shape[-1]), k[None], v[None]
    return tuple(x.reshape(*x.shape[:2], heads, -1) for x in (q, k, v))  # type: ignore[return-value]


def _back(x: Array, like: Array, per_config: bool) -> Array:
    """(G,R,H,D) in the order of rows of an array."""
    if per_config and like.ndim == 3:
        x = x.swapaxes(0, 1)
    return np.ascontiguousarray(x).reshape(*like.shape[:-1], -1)


def _weights(q: Array, k: Array) -> Array:  # (G,H,R,N)
    scores = np.einsum("grhd,gnhd->ghrn", q, k) / np.sqrt(q.shape[-1])
    power = np.exp(scores - scores.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def forward(q: Array, k: Array, v: Array, heads: int = 1) -> Array:
    """softmax(q k^T / sqrt(D)) v"""
    fq, fk, fv = _heads(q, k, v, heads)
    return _back(np.einsum("ghrn,gnhv->grhv", _weights(fq, fk), fv), q, k.ndim == 3)


def backward(dy: Array, q: Array, k: Array, v: Array, heads: int = 1) -> dict[str, Array]:
    """Through the softmax: ds = p (dp - p dp)."""
    fq, fk, fv = _heads(q, k, v, heads)
    g = _heads(dy, k, v, heads)[0]
    p = _weights(fq, fk)
    dp = np.einsum("grhv,gnhv->ghrn", g, fv)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / np.sqrt(fq.shape[-1])
    return {
        "q": _back(np.einsum("ghrn,gnhd->grhd", ds, fk), q, k.ndim == 3),
        "k": _back(np.einsum("ghrn,grhd->gnhd", ds, fq), k, k.ndim == 3),
        "v": _back(np.einsum("ghrn,grhv->gnhv", p, g), v, k.ndim == 3),
    }


def draw(q: tuple[int, ...], k: tuple[int, ...], wide: int, values: int, by: float = 1.0) -> Any:
    """Make rows q and k; `by`: how large the scores are."""
    return lambda rng: {
        "q": rng.normal(size=(*q, wide)) * by,
        "k": rng.normal(size=(*k, wide)),
        "v": rng.normal(size=(*k, values)),
    }


def cases() -> list[Any]:
    """All rows of q and k, heads of any width; with one node y is v, and gradients of q and k cancel."""
    return [
        ("one", draw((1,), (1,), 1, 1), {"floor": 1.0}),
        ("nodes", draw((70,), (70,), 17, 5)),
        ("blocks", draw((300,), (300,), 24, 48, 3.0), {"heads": 3}),
        ("sharp", draw((40,), (40,), 64, 64, 30.0), {"heads": 2}),
        ("configs-meet-nodes", draw((5,), (300,), 16, 32), {"heads": 2}),
        ("many-configs-meet-nodes", draw((150,), (9,), 7, 3)),
        ("node-configs-meet-nodes", draw((20, 7), (20,), 8, 8), {"heads": 4}),
        ("node-configs", draw((20, 7), (20, 7), 8, 10), {"heads": 2}),
        ("node-configs-blocks", draw((170, 2), (170, 2), 8, 8)),
        ("configs-meet-their-nodes", draw((7,), (20, 7), 8, 10), {"heads": 2}),
        ("one-config", draw((9, 1), (9, 1), 3, 5)),
    ]


def large() -> list[Any]:
    """Several chunks: of all, and of each config."""
    return [
        (draw((1500,), (1500,), 32, 48), {"heads": 2}),
        (draw((200,), (3000,), 32, 16), {}),
        (draw((400, 3), (400, 3), 16, 16), {"heads": 2}),
        (draw((300, 9), (300,), 16, 16), {}),
        (draw((40,), (700, 40), 16, 16), {}),
    ]
