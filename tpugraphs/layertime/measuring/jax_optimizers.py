"""Updates of weights in JAX: the rules, defaults and starts of torch.optim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpugraphs.layertime.measuring.base import LEARNING_RATE

__all__ = ["OPTIMIZERS", "Optimizer"]

Rule = Callable[..., tuple[Any, ...]]
"""(numpy, learning rate, number of the step, weights, gradient, *moments) to (weights, *moments)."""


@dataclass(frozen=True)
class Optimizer:
    """A rule, and how many arrays as large as the weights it keeps."""

    rule: Rule
    moments: int

    def start(self, weights: dict[str, Any]) -> dict[str, Any]:
        """Return the state before the first step."""
        zeros = {
            name: tuple(np.zeros(w.shape, np.float32) for _ in range(self.moments))
            for name, w in weights.items()
        }
        return {"step": np.float32(0), "moments": zeros}

    def __call__(
        self,
        jnp: Any,
        weights: dict[str, Any],
        gradients: dict[str, Any],
        state: dict[str, Any],
        rate: float = LEARNING_RATE,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the weights and the state after a step."""
        step = state["step"] + 1
        found = {
            name: self.rule(jnp, rate, step, w, gradients[name], *state["moments"][name])
            for name, w in weights.items()
        }
        moments = {name: tuple(rest) for name, (_, *rest) in found.items()}
        return {name: first for name, (first, *_) in found.items()}, {"step": step, "moments": moments}


def _sgd(jnp: Any, rate: float, step: Any, w: Any, g: Any) -> tuple[Any, ...]:
    return (w - rate * g,)


def _momentum(jnp: Any, rate: float, step: Any, w: Any, g: Any, v: Any) -> tuple[Any, ...]:
    v = 0.9 * v + g
    return w - rate * v, v


def _adagrad(jnp: Any, rate: float, step: Any, w: Any, g: Any, s: Any) -> tuple[Any, ...]:
    s = s + g * g
    return w - rate * g / (jnp.sqrt(s) + 1e-10), s


def _rmsprop(jnp: Any, rate: float, step: Any, w: Any, g: Any, s: Any) -> tuple[Any, ...]:
    s = 0.99 * s + 0.01 * g * g
    return w - rate * g / (jnp.sqrt(s) + 1e-8), s


def _adadelta(jnp: Any, rate: float, step: Any, w: Any, g: Any, s: Any, d: Any) -> tuple[Any, ...]:
    s = 0.9 * s + 0.1 * g * g
    change = jnp.sqrt(d + 1e-6) / jnp.sqrt(s + 1e-6) * g
    return w - rate * change, s, 0.9 * d + 0.1 * change * change


def _adam(jnp: Any, rate: float, step: Any, w: Any, g: Any, m: Any, v: Any) -> tuple[Any, ...]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    first, second = 1 - 0.9**step, 1 - 0.999**step
    return w - rate / first * m / (jnp.sqrt(v / second) + 1e-8), m, v


OPTIMIZERS = {
    "SGD": Optimizer(_sgd, 0),
    "Momentum": Optimizer(_momentum, 1),
    "Adagrad": Optimizer(_adagrad, 1),
    "RMSProp": Optimizer(_rmsprop, 1),
    "Adadelta": Optimizer(_adadelta, 2),
    "Adam": Optimizer(_adam, 2),
}
