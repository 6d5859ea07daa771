"""A token per dimension of every row: one linear layer over the features of each dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference.activations import PRELU, activate, activate_slope, draw_slope, slope_gradient

Array = np.ndarray[Any, Any]

GRADIENTS = ("x", "weight", "bias", "slope")


def _columns(tokens: int, column: int, groups: int, step: int) -> Array:
    """(T,G)"""
    return column + np.arange(groups) * step + np.arange(tokens)[:, None]


def _features(x: Array, columns: Array, number: bool) -> Array:
    """f(rows,T,F)"""
    f = x.reshape(-1, x.shape[-1])[:, columns]
    numbers = np.broadcast_to(np.arange(len(columns), dtype=f.dtype)[:, None], (len(f), len(columns), 1))
    return np.concatenate([f, numbers], 2) if number else f


def forward(
    x: Array, weight: Array, bias: Array, slope: Array | None = None, tokens: int = 6, cols: int = 64,
    act: str = "none", per_column: bool = False, column: int = 21, groups: int = 1, step: int = 8, number: bool = False,
) -> Array:  # fmt: skip
    """y(..., T W)"""
    z = _features(x, _columns(tokens, column, groups, step), number) @ weight.T + bias
    return activate(z, act, slope).reshape(*x.shape[:-1], tokens * cols)


def backward(
    dy: Array, x: Array, weight: Array, bias: Array, slope: Array | None = None, tokens: int = 6, cols: int = 64,
    act: str = "none", per_column: bool = False, column: int = 21, groups: int = 1, step: int = 8, number: bool = False,
) -> dict[str, Array]:  # fmt: skip
    """With dz = dy act'(z): sums of it along the features, and over all."""
    columns = _columns(tokens, column, groups, step)
    f = _features(x, columns, number)
    z = f @ weight.T + bias
    given = dy.reshape(z.shape)
    dz = given * activate_slope(z, act, slope)
    dx = np.zeros((len(f), x.shape[-1]))
    np.add.at(dx, (np.arange(len(f))[:, None, None], columns), (dz @ weight)[:, :, :groups])
    grads = {"x": dx.reshape(x.shape), "weight": np.einsum("rtw,rtf->wf", dz, f), "bias": dz.sum((0, 1))}
    return grads | slope_gradient(given, z, slope)


def _call(shape: tuple[int, ...], cols: int, **attrs: Any) -> Any:
    def make(rng: np.random.Generator) -> dict[str, Array]:
        features = attrs.get("groups", 1) + attrs.get("number", False)
        return {
            "x": rng.normal(size=shape),
            "weight": rng.normal(size=(cols, features)),
            "bias": rng.normal(size=cols),
        } | draw_slope(rng, attrs, cols)

    return make, {"cols": cols, **attrs}


def cases() -> list[tuple[Any, ...]]:
    """Small calls."""
    return [
        ("published", *_call((40, 60), 20, column=3, groups=9, step=6, number=True, act="relu")),
        ("configs", *_call((7, 13, 60), 17, column=37, groups=2, act="relu")),
        ("overlapping", *_call((9, 40), 5, groups=3, step=2, act="gelu")),
        ("three", *_call((30, 12), 8, tokens=3, column=0, groups=4, step=3)),
        ("one", *_call((1, 60), 1, tokens=1, column=59, act="tanh")),
        *((name, *_call((12, 60), 17, **attrs)) for name, attrs in PRELU.items()),
    ]


def large() -> list[tuple[Any, ...]]:
    """Several chunks."""
    return [
        _call((3000, 60), 32, groups=2, act="gelu"),
        _call((300, 12, 60), 32, number=True, act="prelu"),
    ]
