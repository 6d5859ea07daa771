"""Optimizers over NumPy arrays, exactly as training takes its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpugraphs import _core
from tpugraphs.kernels.faces import Array

__all__ = ["adamw_step", "optimizer_step"]


def optimizer_step(optimizer: Mapping[str, Any], w: Array, g: Array, moments: Sequence[Array]) -> float:
    """Update the weights in place with any optimizer, clipping the gradient by its global norm.

    Parameters
    ----------
    optimizer : mapping
        ``{"kind": "adamw", "lr": 1e-3, "step": 1}``. `kind`: ``"adamw"`` (Loshchilov & Hutter 2019),
        ``"adam"`` (Kingma & Ba 2015; the weight decay is added to the gradient) or ``"sgd"`` (with
        `momentum`). `step` counts from 1. Further numbers and their defaults: `clip` 0 (none), `weight_decay`
        0, `beta1` 0.9, `beta2` 0.999, `eps` 1e-8, `momentum` 0.9. Instead of `weight_decay`, `groups`: a list
        of ``(begin, end, factor of the learning rate, weight decay)`` that covers all parameters in order.
    w, g : (P,) float32
        Weights, which are overwritten, and their gradient.
    moments : sequence of (P,) float32
        State, zeros before the first step, overwritten: two for adamw and adam, one for sgd.

    Returns
    -------
    float
        Norm of the gradient before clipping.

    Raises
    ------
    DataError
        The gradient is not finite; nothing is changed.
    ConfigError
        A number out of range, or groups that do not cover the parameters.
    """
    return _core.optimizer_step(dict(optimizer), w, g, tuple(moments))


def adamw_step(
    w: Array,
    g: Array,
    m1: Array,
    m2: Array,
    *,
    step: int,
    lr: float,
    weight_decay: float = 0.0,
    clip: float = 0.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> float:
    """Take one AdamW step in place (Loshchilov & Hutter 2019), gradient clipped to global norm `clip`.

    Parameters
    ----------
    w, g, m1, m2 : (P,) float32
        Weights, gradient, first and second moments; all but `g` are overwritten.
    step : int
        Counts from 1 (bias correction).
    clip : float
        0: no clipping.
    lr, weight_decay : float
        Learning rate, and decoupled weight decay.
    beta1, beta2, eps : float
        Decay rates of both moments, and the term that keeps the denominator from 0.

    Returns
    -------
    float
        Norm of the gradient before clipping.
    """
    numbers = dict(lr=lr, weight_decay=weight_decay, clip=clip, beta1=beta1, beta2=beta2, eps=eps)
    return optimizer_step({"kind": "adamw", "step": step, **numbers}, w, g, (m1, m2))
