"""Activations of every element."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference.activations import PLAIN, activate, activate_slope, slope_gradient

Array = np.ndarray[Any, Any]
GRADIENTS = ("x", "slope")


def _elu(x: Array, alpha: float) -> tuple[Array, Array]:
    """The function and its slope."""
    low = np.minimum(x, 0)
    return np.where(x > 0, x, alpha * np.expm1(low)), np.where(x > 0, 1.0, alpha * np.exp(low))


def _slope(act: str, slope: Array | None, attrs: dict[str, Any]) -> Array | None:
    """Below 0, where that is a straight line: leaky ReLU is a PReLU that learns nothing."""
    return np.full(1, attrs.get("negative_slope", 0.01)) if act == "leaky" else slope


def forward(x: Array, slope: Array | None = None, act: str = "relu", **attrs: Any) -> Array:
    """act(x)"""
    if act == "elu":
        return _elu(x, attrs.get("alpha", 1.0))[0]
    return activate(x, act, _slope(act, slope, attrs))


def backward(
    dy: Array, x: Array, slope: Array | None = None, act: str = "relu", **attrs: Any
) -> dict[str, Array]:
    """dy act'(x), and for PReLU the gradient of its slope."""
    if act == "elu":
        return {"x": dy * _elu(x, attrs.get("alpha", 1.0))[1]}
    dx = dy * activate_slope(x, act, _slope(act, slope, attrs))
    return {"x": dx} | slope_gradient(dy, x, slope)


def _draw(*shape: int, slopes: int = 0) -> Any:
    return lambda rng: {"x": rng.normal(size=shape)} | ({"slope": rng.normal(size=slopes)} if slopes else {})


def cases() -> list[Any]:
    """All of them."""
    out: list[Any] = [
        (f"{act}-{'x'.join(map(str, shape))}", _draw(*shape), {"act": act})
        for act in PLAIN
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
