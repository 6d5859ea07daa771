"""Everything between two matrix products of the first place's blocks, and its parts one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from reference.activations import (
    ACTIVATIONS,
    PRELU,
    activate,
    activate_slope,
    draw_slope,
    sigmoid,
    slope_gradient,
)

from operators import instance_norm, linear
from operators.dropout import factors

Array = np.ndarray[Any, Any]
GATE = ("gate1_weight", "gate1_bias", "gate2_weight", "gate2_bias")
GRADIENTS = ("z", "residual", *GATE, "temperature", "slope")


def gate(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    """u = sigmoid(w2(D,R) relu(w1(R,D) x + b1) + b2) x, row by row (no pooling over nodes)."""
    return sigmoid(linear.forward(linear.forward(x, w1, b1, act="relu"), w2, b2)) * x


def gate_backward(du: Array, x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> dict[str, Array]:
    """With a the sigmoid: dx = du a + the two linear layers' backward of du x a (1 - a)."""
    hidden = linear.forward(x, w1, b1, act="relu")
    a = sigmoid(linear.forward(hidden, w2, b2))
    outer = linear.backward(du * x * a * (1.0 - a), hidden, w2, b2)
    inner = linear.backward(outer["x"], x, w1, b1, act="relu")
    return {
        "x": du * a + inner["x"],
        "w1": inner["weight"],
        "b1": inner["bias"],
        "w2": outer["weight"],
        "b2": outer["bias"],
    }


def _softmax(u: Array, temperature: Array) -> Array:
    """softmax over configs (axis 1 of (N,C,D)) of u / temperature(1,); without configs, (N,D), 1."""
    if u.ndim == 2:
        return np.ones_like(u)
    top = u.max(1, keepdims=True) if temperature[0] > 0 else u.min(1, keepdims=True)
    e = np.exp((u - top) / temperature)
    return e / e.sum(1, keepdims=True)


def cross_attention(u: Array, temperature: Array) -> Array:
    """u(N,C,D) * softmax_C(u / temperature)."""
    return u * _softmax(u, temperature)


def cross_attention_backward(g: Array, u: Array, temperature: Array) -> dict[str, Array]:
    """With s the softmax, tau the temperature, m = g u and sums over configs.

    du = g s + s / tau (m - sum m s); dtau = -1 / tau^2 sum m s (u - sum u s).
    """
    s = _softmax(u, temperature)
    if u.ndim == 2:
        return {"u": g, "temperature": np.zeros(1)}
    m = g * u
    du = g * s + s / temperature * (m - (m * s).sum(1, keepdims=True))
    dtau = -(m * s * (u - (u * s).sum(1, keepdims=True))).sum() / temperature**2
    return {"u": du, "temperature": dtau.reshape(1)}


class Call:
    """What both directions need: the normed input x, the gated u, the pre-activation p, factors of the dropout."""

    def __init__(self, z: Array, given: Mapping[str, Any]) -> None:
        self.z, self.given = z, given
        self.norm, self.act = given.get("norm", False), given.get("act", "none")
        self.slope, self.temperature = given.get("slope"), given.get("temperature")
        self.x = instance_norm.forward(z) if self.norm else z
        self.gate = [given[name] for name in GATE] if GATE[0] in given else None
        self.u = self.x if self.gate is None else gate(self.x, *self.gate)
        parts = [self.u] if self.temperature is None else [self.u, cross_attention(self.u, self.temperature)]
        self.p = np.concatenate(parts, axis=-1) + given.get("residual", 0.0)
        dropped = given.get("training") and given.get("dropout")
        self.mask = (
            factors(self.p.shape, given["dropout"], given["key"]) if dropped else np.ones(self.p.shape)
        )


def forward(z: Array, **given: Any) -> Array:
    """z(N,C,D) -> [instance norm] -> [gate] -> [u | cross_attention(u)] -> [+ residual] -> act -> dropout.

    The result is (N,C,2D) with a temperature, else (N,C,D). A part whose arguments are missing is left out.
    """
    call = Call(z, given)
    return activate(call.p, call.act, call.slope) * call.mask


def backward(dy: Array, z: Array, **given: Any) -> dict[str, Array]:
    """The backward of every part in turn; keys only for the arguments that were given."""
    call, width = Call(z, given), z.shape[-1]
    g = dy * call.mask
    grads = slope_gradient(g, call.p, call.slope)
    g = g * activate_slope(call.p, call.act, call.slope)
    if "residual" in given:
        grads["residual"] = g
    if call.temperature is not None:
        cross = cross_attention_backward(g[..., width:], call.u, call.temperature)
        grads["temperature"] = cross["temperature"]
        g = g[..., :width] + cross["u"]
    if call.gate is not None:
        gated = gate_backward(g, call.x, *call.gate)
        g = gated.pop("x")
        grads |= dict(zip(GATE, gated.values(), strict=True))
    grads["z"] = instance_norm.backward(g, z)["x"] if call.norm else g
    return grads


def call(
    n: int,
    c: int,
    d: int,
    r: int = 0,
    cross: bool = False,
    residual: bool = False,
    spread: float = 1.0,
    **attrs: Any,
) -> tuple[Callable[..., dict[str, Array | None]], dict[str, Any]]:
    """Arguments and attributes of a call; c = 0: without configs."""

    def make(rng: np.random.Generator) -> dict[str, Array | None]:
        width, rows = 2 * d if cross else d, (n,) if c == 0 else (n, c)
        return {
            "z": rng.normal(size=(*rows, d)) * spread,
            "residual": rng.normal(size=(*rows, width)) if residual else None,
            "gate1_weight": rng.normal(size=(r, d)) / np.sqrt(d) if r else None,
            "gate1_bias": rng.normal(size=r) if r else None,
            "gate2_weight": rng.normal(size=(d, r)) / np.sqrt(max(r, 1)) if r else None,
            "gate2_bias": rng.normal(size=d) if r else None,
            "temperature": np.array([0.5]) if cross else None,
        } | draw_slope(rng, attrs, width)

    return make, {"gate": r, "cross": cross, **attrs}


def _parts() -> list[tuple[Any, ...]]:
    return [
        ("nothing", *call(3, 2, 5)),
        ("one", *call(1, 1, 1, 1, True, True, act="gelu")),
        ("one-normed", *call(1, 1, 3, 2, True, norm=True, floor=10.0)),
        ("norm", *call(9, 3, 17, norm=True)),
        ("gate", *call(5, 7, 24, 3)),
        ("gate-odd", *call(6, 17, 17, 5, act="relu")),
        ("gate-16", *call(4, 6, 48, 16, True)),  # these two widths have products of their own
        ("gate-32", *call(3, 7, 32, 32, residual=True, norm=True)),
        ("cross", *call(4, 13, 17, cross=True)),
        # one config: the softmax is 1 whatever the temperature, its gradient is a sum of zeros
        ("cross-one-config", *call(4, 1, 17, 2, True, act="gelu", floor=1e-2)),
        ("cross-spread", *call(4, 20, 8, cross=True, spread=15.0)),  # softmax close to one-hot
        ("residual", *call(5, 3, 19, residual=True, act="relu")),
        ("residual-normed", *call(5, 3, 19, residual=True, norm=True, act="gelu")),
    ]


def cases() -> list[tuple[Any, ...]]:
    """Parts alone and together."""
    out = _parts()

    def add(name: str, *shape: Any, **attrs: Any) -> None:
        out.append((name, *call(*shape, **attrs)))

    add("many-configs", 3, 150, 12, 2, False, True, norm=True, act="gelu")
    add("many-configs-cross", 3, 150, 12, 2, True, norm=True, act="gelu")
    # rows of nodes alone; the softmax of a group of one is 1, and the temperature has no gradient
    add("no-configs", 150, 0, 17, act="gelu")
    add("no-configs-normed", 70, 0, 24, 3, False, True, norm=True, act="gelu")
    add("no-configs-cross", 9, 0, 20, 4, True, True, norm=True, act="relu")
    add("no-configs-first-place", 90, 0, 128, 16, True, True, norm=True, act="gelu")
    for act in ACTIVATIONS:
        add(f"all-{act}", 11, 9, 20, 4, True, True, norm=True, act=act)
    for name, attrs in PRELU.items():
        add(name, 7, 5, 19, **attrs)
        add(f"no-configs-{name}", 70, 0, 24, 3, True, True, **attrs)
        add(f"many-configs-{name}", 3, 150, 12, 2, True, **attrs)
        add(f"dropout-{name}", 7, 5, 19, 3, True, True, dropout=0.4, training=True, key=9, **attrs)
    add("dropout", 7, 5, 19, 3, False, True, norm=True, act="gelu", dropout=0.4, training=True, key=8)
    add("dropout-cross", 7, 5, 19, 3, True, True, norm=True, act="gelu", dropout=0.2, training=True, key=7)
    add("first-place", 30, 16, 128, 16, True, True, act="gelu")
    return out


def large() -> list[Any]:
    """Several chunks."""
    return [
        call(150, 24, 64, 8, True, True, norm=True, act="gelu"),
        call(3000, 0, 64, 8, True, True, norm=True, act="gelu"),
        *(call(150, 24, 64, 8, True, True, **attrs) for attrs in PRELU.values()),
    ]
