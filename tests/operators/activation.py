"""Activations of every element."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference.ops import ACTIVATIONS, activate, activate_slope

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "slope")
WITH_ATTRIBUTES = ("elu", "leaky", "prelu")


def _below(
    x: Array, act: str, slope: Array | None, negative_slope: float = 0.01, alpha: float = 1.0, **rest: Any
) -> tuple[Array, Array, Any]:
    """What the function is where x <= 0 but for a factor, its slope, and the factor."""
    if act == "elu":
        return np.expm1(np.minimum(x, 0)), np.exp(np.minimum(x, 0)), alpha
    return x, np.ones_like(x), slope if act == "prelu" else negative_slope


def forward(x: Array, slope: Array | None = None, act: str = "relu", **attrs: Any) -> Array:
    """act(x)"""
    if act not in WITH_ATTRIBUTES:
        return activate(x, act)
    value, _, factor = _below(x, act, slope, **attrs)
    return np.where(x > 0, x, factor * value)


def backward(
    dy: Array, x: Array, slope: Array | None = None, act: str = "relu", **attrs: Any
) -> dict[str, Array]:
    """dy act'(x), and for PReLU the gradient of its slope."""
    if act not in WITH_ATTRIBUTES:
        return {"x": dy * activate_slope(x, act)}
    value, gradient, factor = _below(x, act, slope, **attrs)
    out = {"x": dy * np.where(x > 0, 1.0, factor * gradient)}
    if slope is not None:
        each = np.where(x > 0, 0.0, dy * value).reshape(-1, x.shape[-1]).sum(0)
        out["slope"] = each if attrs.get("per_column") else each.sum(keepdims=True)
    return out


def _draw(*shape: int, slopes: int = 0) -> Any:
    return lambda rng: {"x": rng.normal(size=shape)} | ({"slope": rng.normal(size=slopes)} if slopes else {})


def cases() -> list[Any]:
    """All of them."""
    out: list[Any] = [
        (f"{act}-{'x'.join(map(str, shape))}", _draw(*shape), {"act": act})
        for act in ACTIVATIONS
        for shape in ((5, 1), (9, 4, 19))
    ]
    return [
        *out,
        ("steep", _draw(70, 17), {"act": "leaky", "negative_slope": -0.3}),
        ("elu-alpha", _draw(70, 17), {"act": "elu", "alpha": 1.7}),
        ("prelu", _draw(70, 17, slopes=1), {"act": "prelu"}),
        ("prelu-columns", _draw(9, 5, 33, slopes=33), {"act": "prelu", "per_column": True}),
        ("prelu-parts-of-nodes", _draw(3, 150, 7, slopes=7), {"act": "prelu", "per_column": True}),
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [
        (_draw(3000, 50), {"act": "silu"}),
        (_draw(3000, 50, slopes=1), {"act": "prelu"}),
        (_draw(300, 24, 48, slopes=48), {"act": "prelu", "per_column": True}),
    ]
