"""Attention to keys and values that are projected along the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import attention

Array = np.ndarray[Any, Any]
GRADIENTS = ("q", "k", "v", "project_k", "project_v")


def _bins(nodes: int, bins: int) -> Array:
    """(bins, N): what averages the nodes of a bin."""
    at = np.arange(nodes) * bins // nodes
    member = (at == np.arange(bins)[:, None]).astype(float)
    return member / np.maximum(member.sum(1, keepdims=True), 1)


def _project(weight: Array, x: Array) -> Array:
    return np.einsum("pb,bn,n...->p...", weight, _bins(len(x), weight.shape[1]), x, optimize=True)


def forward(
    q: Array, k: Array, v: Array, project_k: Array, project_v: Array, heads: int = 1, project: int = 0,
    bins: int = 0,
) -> Array:  # fmt: skip
    """Attention to E b(k) and F b(v), b the means of the bins."""
    return attention.forward(q, _project(project_k, k), _project(project_v, v), heads)


def backward(
    dy: Array, q: Array, k: Array, v: Array, project_k: Array, project_v: Array, heads: int = 1,
    project: int = 0, bins: int = 0,
) -> dict[str, Array]:  # fmt: skip
    """That of attention, and through two products each."""
    few = attention.backward(dy, q, _project(project_k, k), _project(project_v, v), heads)
    out = {"q": few["q"]}
    for name, x, weight in (("k", k, project_k), ("v", v, project_v)):
        mean = _bins(len(x), weight.shape[1])
        d = few[name].reshape(len(weight), -1)
        out[name] = (mean.T @ (weight.T @ d)).reshape(x.shape)
        out[f"project_{name}"] = d @ (mean @ x.reshape(len(x), -1)).T
    return out


def _draw(
    q: tuple[int, ...], k: tuple[int, ...], wide: int, values: int, project: int, bins: int, heads: int = 1
) -> Any:
    inputs = attention.draw(q, k, wide, values)

    def make(rng: np.random.Generator) -> dict[str, Array]:
        weights = {name: rng.normal(size=(project, bins)) for name in ("project_k", "project_v")}
        return inputs(rng) | weights

    return make, {"heads": heads, "project": project, "bins": bins}


def cases() -> list[Any]:
    """More nodes than bins, and fewer; all rows of q and k."""
    return [
        ("one", *_draw((1,), (1,), 3, 2, 2, 1)),
        ("nodes", *_draw((70,), (70,), 17, 5, 9, 16)),
        ("few-nodes", *_draw((5,), (5,), 8, 8, 4, 12, heads=2)),
        ("blocks", *_draw((300,), (300,), 16, 32, 150, 40, heads=2)),
        ("configs-meet-nodes", *_draw((5,), (50,), 16, 8, 7, 8, heads=2)),
        ("node-configs-meet-nodes", *_draw((20, 7), (20,), 8, 8, 6, 7, heads=4)),
        ("node-configs", *_draw((20, 7), (20, 7), 8, 10, 6, 7, heads=2)),
        ("configs-meet-their-nodes", *_draw((7,), (20, 7), 8, 10, 6, 7, heads=2)),
    ]


def large() -> list[Any]:
    """Several chunks: of all, and of each config."""
    return [
        _draw((3000,), (3000,), 32, 48, 40, 64, heads=2),
        _draw((700, 3), (700, 3), 16, 16, 20, 32),
        _draw((300, 9), (300,), 16, 16, 20, 32),
    ]
