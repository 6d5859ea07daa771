"""Activations in float64, PReLU among them, and what ops with an activation do with its slope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf

Array = np.ndarray[Any, Any]


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _phi(x: Array) -> Array:
    return 0.5 * (1.0 + erf(x / np.sqrt(2.0)))


# Activation -> the function, and its derivative at the pre-activation x (0 at a kink).
PLAIN: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "none": (lambda x: x, np.ones_like),
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: (x > 0).astype(np.float64)),
    "gelu": (lambda x: x * _phi(x), lambda x: _phi(x) + x * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)),
    "leaky": (lambda x: np.where(x < 0, 0.01 * x, x), lambda x: np.where(x > 0, 1.0, 0.01)),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), lambda x: np.exp(np.minimum(x, 0.0))),
    "silu": (lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))),
    "sigmoid": (sigmoid, lambda x: sigmoid(x) * (1.0 - sigmoid(x))),
    "tanh": (np.tanh, lambda x: 1.0 - np.tanh(x) ** 2),
}
ACTIVATIONS = (*PLAIN, "prelu")


def activate(x: Array, act: str, slope: Array | None = None) -> Array:
    """One of ACTIVATIONS; slope (1,) or (columns,): of PReLU where x <= 0."""
    return PLAIN[act][0](x) if slope is None else np.where(x > 0, x, slope * x)


def activate_slope(x: Array, act: str, slope: Array | None = None) -> Array:
    """Derivative of `activate` at the pre-activation x."""
    return PLAIN[act][1](x) if slope is None else np.where(x > 0, 1.0, slope)


def slope_gradient(dy: Array, x: Array, slope: Array | None) -> dict[str, Array]:
    """Gradient of PReLU's slope, given that of the result; nothing without one."""
    if slope is None:
        return {}
    each = np.where(x > 0, 0.0, dy * x).reshape(-1, x.shape[-1]).sum(0)
    return {"slope": each if len(slope) == len(each) else each.sum(keepdims=True)}


def draw_slope(rng: np.random.Generator, attrs: dict[str, Any], columns: int) -> dict[str, Array]:
    """Arguments for the activation that `attrs` name."""
    if attrs.get("act") != "prelu":
        return {}
    return {"slope": rng.normal(size=columns if attrs.get("per_column") else 1)}


# Attributes of calls with PReLU, for the cases of an op.
PRELU: dict[str, dict[str, Any]] = {
    "prelu": {"act": "prelu"},
    "prelu-columns": {"act": "prelu", "per_column": True},
}
