"""Scale and bias per column."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "weight", "bias")


def forward(
    x: Array, weight: Array | None = None, bias: Array | None = None, learn: str = "", column: int = 0,
    per_column: bool = True, scale: float = 1.0,
) -> Array:  # fmt: skip
    """scale * x * weight + bias from `column` on; a parameter of one entry is that of all columns."""
    w, b = 1.0 if weight is None else weight, 0.0 if bias is None else bias
    return np.concatenate([x[..., :column], scale * x[..., column:] * w + b], -1)


def backward(
    dy: Array, x: Array, weight: Array | None = None, bias: Array | None = None, learn: str = "", column: int = 0,
    per_column: bool = True, scale: float = 1.0,
) -> dict[str, Array]:  # fmt: skip
    """Gradients of what is given."""
    rows, d = tuple(range(x.ndim - 1)), dy[..., column:]
    w = 1.0 if weight is None else weight

    def of(gradient: Array) -> Array:
        summed: Array = gradient.sum(rows)
        return summed if per_column else summed.sum(keepdims=True)

    out = {"x": np.concatenate([dy[..., :column], scale * d * w], -1)}
    out |= {} if weight is None else {"weight": of(scale * d * x[..., column:])}
    return out | ({} if bias is None else {"bias": of(d)})


def _draw(*shape: int, learn: str = "weight+bias", column: int = 0, per_column: bool = True) -> Any:
    size = shape[-1] - column if per_column else 1
    return lambda rng: (
        {"x": rng.normal(size=shape)}
        | {name: rng.normal(size=size) for name in ("weight", "bias") if name in learn}
    )


def cases() -> list[Any]:
    """All choices, with and without configs, of all columns or from one on, with an entry per column or one."""
    out: list[Any] = [
        (f"{learn}-{'x'.join(map(str, shape))}", _draw(*shape, learn=learn), {"learn": learn, "scale": scale})
        for learn in ("weight+bias", "weight", "bias", "none")
        for shape, scale in (((1, 1), 1.0), ((70, 17), -0.5), ((9, 5, 64), 2.0))
    ]
    return out + [
        (
            f"{learn}-from-{column}{'' if per_column else '-one'}",
            _draw(7, 3, 20, learn=learn, column=column, per_column=per_column),
            {"learn": learn, "column": column, "per_column": per_column, "scale": 3.0},
        )
        for learn, column in (("weight+bias", 12), ("weight", 1), ("bias", 3), ("none", 19))
        for per_column in (True, False)
    ]


def large() -> list[Any]:
    """Several chunks."""
    one = {"column": 5, "per_column": False}
    return [(_draw(3000, 50), {}), (_draw(300, 24, 48), {"scale": 3.0}), (_draw(3000, 50, **one), one)]
