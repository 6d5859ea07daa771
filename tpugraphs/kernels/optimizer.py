"""The optimizer and its schedule over NumPy arrays, exactly as training takes its steps."""

from __future__ import annotations

import math

from tpugraphs import _core
from tpugraphs.kernels.calls import Array


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
    """One AdamW update in place (Loshchilov & Hutter 2019), gradient clipped to the global norm `clip`.

    Parameters
    ----------
    w, g, m1, m2 : (P,) float32
        Weights, gradient, first and second moments; all but `g` are overwritten.
    step : int
        Counts from 1 (bias correction).
    clip : float
        0: no clipping.

    Returns
    -------
    float
        Norm of the gradient before clipping.
    """
    return _core.adamw_step(
        w,
        g,
        m1,
        m2,
        lr=lr,
        weight_decay=weight_decay,
        clip=clip,
        step=step,
        beta1=beta1,
        beta2=beta2,
        eps=eps,
    )


def warmup_cosine(step: int, total: int, peak: float, warmup: float) -> float:
    """Learning rate of step 1..total: linear warm-up over a share of the steps, then cosine towards 0.

    The first step has ``peak / warm`` and step ``warm`` has the peak, where ``warm = ceil(warmup * total)``.
    """
    warm = math.ceil(warmup * total)
    if step <= warm:
        return peak * step / warm
    return peak * 0.5 * (1 + math.cos(math.pi * (step - 1 - warm) / max(1, total - warm)))
