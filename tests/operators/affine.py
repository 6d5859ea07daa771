"""Scale and bias per column."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "weight", "bias")


def forward(
    x: Array, weight: Array | None = None, bias: Array | None = None, learn: str = "", scale: float = 1.0
) -> Array:
    """scale * x * weight + bias"""
    return scale * x * (1.0 if weight is None else weight) + (0.0 if bias is None else bias)


def backward(
    dy: Array,
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    learn: str = "",
    scale: float = 1.0,
) -> dict[str, Array]:
    """Gradients of what is given."""
    rows = tuple(range(x.ndim - 1))
    out = {"x": dy * scale * (1.0 if weight is None else weight)}
    out |= {} if weight is None else {"weight": scale * (dy * x).sum(rows)}
    return out | ({} if bias is None else {"bias": dy.sum(rows)})


def _draw(*shape: int, learn: str = "weight+bias") -> Any:
    return lambda rng: (
        {"x": rng.normal(size=shape)}
        | {name: rng.normal(size=shape[-1]) for name in ("weight", "bias") if name in learn}
    )


def cases() -> list[Any]:
    """All choices, with and without configs."""
    out: list[Any] = [
        (f"{learn}-{'x'.join(map(str, shape))}", _draw(*shape, learn=learn), {"learn": learn, "scale": scale})
        for learn in ("weight+bias", "weight", "bias", "none")
        for shape, scale in (((1, 1), 1.0), ((70, 17), -0.5), ((9, 5, 64), 2.0))
    ]
    return out


def large() -> list[Any]:
    """Several chunks."""
    return [(_draw(3000, 50), {}), (_draw(300, 24, 48), {"scale": 3.0})]
