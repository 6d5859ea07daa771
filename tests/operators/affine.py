"""Scale and bias per column."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "weight", "bias")


def _factor(x: Array, column: int, scale: float) -> Array:
    return np.where(np.arange(x.shape[-1]) < column, 1.0, scale)


def forward(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    learn: str = "",
    column: int = 0,
    scale: float = 1.0,
) -> Array:
    """scale * x * weight + bias, with scale 1 before `column`."""
    scaled: Array = _factor(x, column, scale) * x * (1.0 if weight is None else weight)
    return scaled + (0.0 if bias is None else bias)


def backward(
    dy: Array,
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    learn: str = "",
    column: int = 0,
    scale: float = 1.0,
) -> dict[str, Array]:
    """Gradients of what is given."""
    rows, factor = tuple(range(x.ndim - 1)), _factor(x, column, scale)
    out = {"x": dy * factor * (1.0 if weight is None else weight)}
    out |= {} if weight is None else {"weight": factor * (dy * x).sum(rows)}
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
    out += [
        (
            f"{learn}-from-{column}",
            _draw(7, 3, 20, learn=learn),
            {"learn": learn, "column": column, "scale": 3.0},
        )
        for learn, column in (("weight+bias", 12), ("none", 19))
    ]
    return out


def large() -> list[Any]:
    """Several chunks."""
    return [(_draw(3000, 50), {}), (_draw(300, 24, 48), {"scale": 3.0})]
