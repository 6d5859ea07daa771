"""Transformer encoder layer over the tokens of each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from reference.activations import PRELU, activate, activate_slope, draw_slope, slope_gradient

Array = np.ndarray[Any, Any]
EPS = 1e-5  # of layer norm

GRADIENTS = (
    "x",
    "in_proj_weight",
    "in_proj_bias",
    "out_proj_weight",
    "out_proj_bias",
    "linear1_weight",
    "linear1_bias",
    "linear2_weight",
    "linear2_bias",
    "norm1_weight",
    "norm1_bias",
    "norm2_weight",
    "norm2_bias",
    "slope",
)


def _norm(x: Array, weight: Array, bias: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS) * weight + bias


def _norm_back(dy: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Gradients of x, weight and bias."""
    rstd = 1.0 / np.sqrt(x.var(-1, keepdims=True) + EPS)
    xh, g = (x - x.mean(-1, keepdims=True)) * rstd, dy * weight
    dx = rstd * (g - g.mean(-1, keepdims=True) - xh * (g * xh).mean(-1, keepdims=True))
    flat = (-1, x.shape[-1])
    return dx, (dy * xh).reshape(flat).sum(0), dy.reshape(flat).sum(0)


def _heads(x: Array, heads: int) -> Array:
    """(rows, T, W) -> (rows, heads, T, W / heads)."""
    return np.swapaxes(x.reshape(*x.shape[:2], heads, x.shape[2] // heads), 1, 2)


def _joined(x: Array) -> Array:
    """The inverse of `_heads`."""
    moved = np.swapaxes(x, 1, 2)
    return moved.reshape(*moved.shape[:2], moved.shape[2] * moved.shape[3])


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Layer:
    """All that forward computes, by the names of the op; `masks`: of dropout, by its sites."""

    def __init__(
        self,
        x: Array,
        weights: Mapping[str, Array],
        attrs: Mapping[str, Any],
        masks: Mapping[str, Array] | None,
    ) -> None:
        self.w, self.masks = weights, masks or {}
        self.heads, self.act, self.pre = attrs["heads"], attrs["act"], attrs["norm"] == "pre"
        self.shape = x.shape
        rows, width = int(np.prod(x.shape[:-1])), x.shape[-1] // attrs["tokens"]
        self.x = x.reshape(rows, attrs["tokens"], width)
        self.a = self.norm(1, self.x) if self.pre else self.x
        q, k, v = (_heads(part, self.heads) for part in np.split(self.multiply("in_proj", self.a), 3, axis=2))
        self.q, self.k, self.v, self.scale = q, k, v, 1.0 / np.sqrt(q.shape[-1])
        self.p = _softmax(q @ np.swapaxes(k, 2, 3) * self.scale)
        self.context = _joined(self.drop("attention", self.p) @ v)
        self.r = self.x + self.drop("branch1", self.multiply("out_proj", self.context))
        self.u = self.norm(2 if self.pre else 1, self.r)
        self.z = self.multiply("linear1", self.u)
        self.h = self.drop("hidden", activate(self.z, self.act, self.w.get("slope")))
        self.s = (self.r if self.pre else self.u) + self.drop("branch2", self.multiply("linear2", self.h))
        self.y = (self.s if self.pre else self.norm(2, self.s)).reshape(x.shape)

    def multiply(self, name: str, x: Array) -> Array:
        """One of the linear layers."""
        return x @ self.w[f"{name}_weight"].T + self.w[f"{name}_bias"]

    def norm(self, which: int, x: Array) -> Array:
        """One of the layer norms."""
        return _norm(x, self.w[f"norm{which}_weight"], self.w[f"norm{which}_bias"])

    def drop(self, site: str, x: Array) -> Array:
        """Dropout and, being linear, its own gradient."""
        return x * self.masks[site].reshape(x.shape) if site in self.masks else x

    def backward(self, dy: Array) -> dict[str, Array]:
        """All gradients."""
        grads: dict[str, Array] = {}

        def back(name: str, g: Array, x: Array) -> Array:
            flat = g.reshape(-1, g.shape[-1])
            grads[f"{name}_weight"] = flat.T @ x.reshape(-1, x.shape[-1])
            grads[f"{name}_bias"] = flat.sum(0)
            return g @ self.w[f"{name}_weight"]

        def norm_back(which: int, g: Array, x: Array) -> Array:
            dx, dw, db = _norm_back(g, x, self.w[f"norm{which}_weight"])
            grads[f"norm{which}_weight"], grads[f"norm{which}_bias"] = dw, db
            return dx

        ds = dy.reshape(self.x.shape)
        if not self.pre:
            ds = norm_back(2, ds, self.s)
        dh = self.drop("hidden", back("linear2", self.drop("branch2", ds), self.h))
        grads |= slope_gradient(dh, self.z, self.w.get("slope"))
        du = back("linear1", dh * activate_slope(self.z, self.act, self.w.get("slope")), self.u)
        dr = norm_back(2, du, self.r) + ds if self.pre else norm_back(1, du + ds, self.r)
        g = _heads(back("out_proj", self.drop("branch1", dr), self.context), self.heads)
        dp = self.drop("attention", g @ np.swapaxes(self.v, 2, 3))
        dl = self.p * (dp - (self.p * dp).sum(-1, keepdims=True)) * self.scale
        dv = np.swapaxes(self.drop("attention", self.p), 2, 3) @ g
        parts = dl @ self.k, np.swapaxes(dl, 2, 3) @ self.q, dv
        da = back("in_proj", np.concatenate([_joined(part) for part in parts], axis=2), self.a)
        dx = dr + (norm_back(1, da, self.x) if self.pre else da)
        return {"x": dx.reshape(self.shape)} | grads


def _layer(x: Array, given: dict[str, Any]) -> Layer:
    """The layer; what is not given has the op's defaults."""
    defaults = {"tokens": 6, "heads": 1, "act": "relu", "norm": "post"}
    weights = {name: given[name] for name in GRADIENTS if name in given}
    return Layer(x, weights, defaults | {k: given[k] for k in defaults if k in given}, given.get("masks"))


def forward(x: Array, **given: Any) -> Array:
    """y of x(..., T W)."""
    return _layer(x, given).y


def backward(dy: Array, x: Array, **given: Any) -> dict[str, Array]:
    """All gradients by name."""
    return _layer(x, given).backward(dy)


def arguments(
    rows: tuple[int, ...], tokens: int, width: int, hidden: int, **attrs: Any
) -> Callable[..., dict[str, Array]]:
    """Arguments of a call."""

    def make(rng: np.random.Generator) -> dict[str, Array]:
        def weight(*shape: int) -> Array:
            return rng.normal(size=shape) / np.sqrt(shape[-1])

        return {
            "x": rng.normal(size=(*rows, tokens * width)),
            "in_proj_weight": weight(3 * width, width) * 1.5,
            "in_proj_bias": rng.normal(size=3 * width) * 0.3,
            "out_proj_weight": weight(width, width),
            "out_proj_bias": rng.normal(size=width),
            "linear1_weight": weight(hidden, width),
            "linear1_bias": rng.normal(size=hidden),
            "linear2_weight": weight(width, hidden),
            "linear2_bias": rng.normal(size=width),
            "norm1_weight": rng.uniform(0.5, 1.5, width),
            "norm1_bias": rng.normal(size=width),
            "norm2_weight": rng.uniform(0.5, 1.5, width),
            "norm2_bias": rng.normal(size=width),
        } | draw_slope(rng, attrs, hidden)

    return make


def cases() -> list[tuple[Any, ...]]:
    """Small calls."""
    out: list[tuple[Any, ...]] = []

    def add(name: str, rows: tuple[int, ...], tokens: int, width: int, hidden: int, **attrs: Any) -> None:
        out.append(
            (
                name,
                arguments(rows, tokens, width, hidden, **attrs),
                {"tokens": tokens, "hidden": hidden, **attrs},
            )
        )

    for norm in ("post", "pre"):
        add(f"{norm}-published", (11,), 6, 32, 48, heads=2, norm=norm)
        add(f"{norm}-configs", (5, 9), 3, 20, 17, heads=4, norm=norm, act="gelu")
        add(f"{norm}-odd", (7,), 5, 21, 9, heads=3, norm=norm, act="silu")
        add(f"{norm}-wide", (3,), 2, 140, 130, heads=1, norm=norm)
        for name, attrs in PRELU.items():
            add(f"{norm}-{name}", (5, 9), 3, 20, 17, heads=4, norm=norm, **attrs)
    # one token attends to itself: the softmax is 1 and its inputs have no gradient but rounding
    add("one-token", (130,), 1, 12, 8, heads=2, floor=1e-2, act="tanh")
    add("many-tokens", (2, 2), 64, 8, 8, heads=2, act="gelu", norm="pre")
    add("parts-of-a-node", (2, 150), 6, 8, 12, act="gelu")
    return out


def large() -> list[tuple[Any, ...]]:
    """Several chunks."""
    attrs = {"tokens": 6, "heads": 2, "hidden": 64, "act": "gelu"}
    return [
        (arguments((1500,), 6, 32, 64), attrs),
        (arguments((60, 24), 6, 32, 64), attrs | {"norm": "pre"}),
        (arguments((1500,), 6, 32, 64, act="prelu"), attrs | {"act": "prelu"}),
    ]
