"""Graph norm over the nodes of a config."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "weight", "bias", "mean_scale")


def _centred(x: Array, mean_scale: Array, eps: float) -> tuple[Array, Array]:
    o = x - mean_scale * x.mean(0)
    return o, 1.0 / np.sqrt((o * o).mean(0) + eps)


def forward(x: Array, weight: Array, bias: Array, mean_scale: Array, eps: float = 1e-5) -> Array:
    """o / sqrt(mean(o^2) + eps) * weight + bias with o = x - mean_scale * mean"""
    o, rstd = _centred(x, mean_scale, eps)
    return o * rstd * weight + bias


def backward(
    dy: Array, x: Array, weight: Array, bias: Array, mean_scale: Array, eps: float = 1e-5
) -> dict[str, Array]:
    """Through o, then through the mean."""
    o, rstd = _centred(x, mean_scale, eps)
    rows = tuple(range(x.ndim - 1))
    d = dy * weight
    do = rstd * (d - o * rstd * (d * o * rstd).mean(0))
    return {
        "x": do - mean_scale * do.mean(0),
        "weight": (dy * o * rstd).sum(rows),
        "bias": dy.sum(rows),
        "mean_scale": -(do * x.mean(0)).sum(rows),
    }


def _draw(*shape: int, offset: float = 0.5, free: bool = True) -> Any:
    def make(rng: np.random.Generator) -> dict[str, Array]:
        return {
            "x": rng.normal(size=shape) * rng.uniform(0.5, 2.0, shape[-1]) + offset,
            "weight": rng.normal(size=shape[-1]),
            "bias": rng.normal(size=shape[-1]),
            "mean_scale": rng.uniform(0, 1.5, shape[-1]) if free else np.ones(shape[-1]),
        }

    return make


def cases() -> list[Any]:
    """One or two nodes: the gradient is a difference of terms of size 1 / std that cancel."""
    return [
        ("one-node", _draw(1, 3, 5), {"floor": 10.0}),
        ("two-nodes-centred", _draw(2, 3, 5, free=False), {"floor": 10.0}),
        ("nodes", _draw(70, 17)),
        ("configs", _draw(50, 5, 33)),
        ("offset", _draw(80, 3, 16, offset=20.0, free=False)),
        ("wide-eps", _draw(9, 5, 7), {"eps": 0.1}),
        ("parts-of-nodes", _draw(6, 300, 7)),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [(_draw(3000, 50), {}), (_draw(300, 24, 48), {})]
