"""Mean, maximum and sum over the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.instance_norm import draw

Array = np.ndarray[Any, Any]
GRADIENTS = ("x",)


def forward(x: Array, kind: str = "mean") -> Array:
    """(N,C,F) -> (C, F * kinds): mean, max or sum over the nodes; kinds joined by "+" are concatenated.

    (N,F) is one config.
    """
    if x.ndim == 2:
        x = x[:, None]
    how = {"mean": x.mean(0), "max": x.max(0), "sum": x.sum(0)}
    return np.concatenate([how[k] for k in kind.split("+")], axis=1)


def backward(dy: Array, x: Array, kind: str = "mean") -> dict[str, Array]:
    """mean: dy / N to all nodes; sum: dy to all; max: dy to the first node that has the maximum."""
    if x.ndim == 2:
        return {"x": backward(dy, x[:, None], kind)["x"][:, 0]}
    dx = np.zeros(x.shape, np.float64)
    for k, g in zip(kind.split("+"), np.split(dy, len(kind.split("+")), axis=1), strict=True):
        if k == "max":
            np.put_along_axis(first := np.zeros_like(dx), x.argmax(0)[None], g[None], axis=0)
            dx += first
        else:
            dx += g / len(x) if k == "mean" else g
    return {"x": dx}


def cases() -> list[tuple[Any, ...]]:
    """Kinds alone and together."""
    return [
        (f"{kind}-n{n}c{c}f{f}", draw(n, c, f), {"kind": kind})
        for kind in ("mean", "max", "sum", "mean+max", "mean+max+sum")
        for n, c, f in ((1, 1, 1), (17, 5, 3), (40, 3, 140), (200, 0, 30))
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [(draw(400, 24, 200), {"kind": "mean+max"}), (draw(3000, 0, 200), {"kind": "mean+max"})]
