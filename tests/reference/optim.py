"""Optimizers in float64. A state is a list of arrays; every function returns new weights and state.

Learning rates of schedules, bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
State = list[Array]


def clip_scale(grads: Array, clip: float) -> float:
    """Factor of clipping by the global norm: min(1, clip / (|g|_2 + 1e-6)); 1 when clip is 0."""
    return min(1.0, clip / (float(np.sqrt(np.sum(grads**2))) + 1e-6)) if clip > 0 else 1.0


def adamw_step(
    w: Array,
    g: Array,
    m1: Array,
    m2: Array,
    step: int,
    lr: float,
    weight_decay: float = 0.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> tuple[Array, Array, Array]:
    """One update with decoupled weight decay (Loshchilov & Hutter 2019), step counted from 1.

    w *= 1 - lr wd; m1 = b1 m1 + (1-b1) g; m2 = b2 m2 + (1-b2) g^2;
    w -= lr / (1-b1^t) m1 / (sqrt(m2 / (1-b2^t)) + eps). Returns new (w, m1, m2).
    """
    m1 = beta1 * m1 + (1.0 - beta1) * g
    m2 = beta2 * m2 + (1.0 - beta2) * g * g
    denominator = np.sqrt(m2 / (1.0 - beta2**step)) + eps
    return w * (1.0 - lr * weight_decay) - lr / (1.0 - beta1**step) * m1 / denominator, m1, m2


def adamw(w: Array, g: Array, state: State, step: int, lr: float, decay: float, **o: float) -> Any:
    """Decoupled decay."""
    w, *state = adamw_step(w, g, *state, step, lr, decay, o["beta1"], o["beta2"], o["eps"])
    return w, state


def adam(w: Array, g: Array, state: State, step: int, lr: float, decay: float, **o: float) -> Any:
    """The decay is a part of the gradient."""
    return adamw(w, g + decay * w, state, step, lr, 0.0, **o)


def sgd(w: Array, g: Array, state: State, step: int, lr: float, decay: float, **o: float) -> Any:
    """m = momentum m + g + decay w; w -= lr m."""
    m = o["momentum"] * state[0] + g + decay * w
    return w - lr * m, [m]


RULES: dict[str, tuple[Callable[..., Any], int]] = {"adamw": (adamw, 2), "adam": (adam, 2), "sgd": (sgd, 1)}
DEFAULTS = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "momentum": 0.9}


def optimizer_step(optimizer: dict[str, Any], w: Array, g: Array, state: Sequence[Array]) -> Any:
    """One step of ``tpugraphs.kernels.optimizer_step``: new (w, state)."""
    o = {**DEFAULTS, **optimizer}
    rule = RULES[o["kind"]][0]
    g = g * clip_scale(g, o.get("clip", 0.0))
    groups = o.get("groups", [(0, len(w), 1.0, o.get("weight_decay", 0.0))])
    new, moments = w.copy(), [m.copy() for m in state]
    numbers = {name: o[name] for name in DEFAULTS}
    for begin, end, factor, decay in groups:
        at = slice(begin, end)
        new[at], parts = rule(
            w[at], g[at], [m[at] for m in state], o["step"], o["lr"] * factor, decay, **numbers
        )
        for moment, part in zip(moments, parts, strict=True):
            moment[at] = part
    return new, moments


def drops(done: int, count: int, decay_every: float, decay_from: float | None) -> int:
    """How often the learning rate has dropped after `done` of `count` steps."""
    every = max(1, math.ceil(decay_every * count))
    if decay_from is None:
        return done // every
    return max(0, (done - math.ceil(decay_from * count)) // every + 1)


# share of the peak after `done` of `count` steps, f: fields of a recipe
SHAPES: dict[str, Callable[[int, int, dict[str, Any]], float]] = {
    "constant": lambda done, count, f: 1.0,
    "cosine": lambda done, count, f: 0.5 * (1 + math.cos(math.pi * done / count)),
    "linear": lambda done, count, f: 1 - done / count,
    "step": lambda done, count, f: f["decay"] ** drops(done, count, f["decay_every"], f["decay_from"]),
}


def learning_rate(step: int, total: int, f: dict[str, Any]) -> float:
    """The learning rate of step 1..total, its operations in the order of the core's."""
    peak, end, shape = f["learning_rate"], f["learning_rate_end"], f["schedule"].removeprefix("warmup-")
    warm = math.ceil(f["warmup"] * total) if shape != f["schedule"] else 0
    if step <= warm:
        return peak * step / warm
    return end + (peak - end) * SHAPES[shape](step - 1 - warm, max(1, total - warm), f)
