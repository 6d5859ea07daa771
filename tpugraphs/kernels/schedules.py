"""Learning-rate schedules: pure functions of (step, total, fields)."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tpugraphs.system.arguments import check_number, check_whole

__all__ = ["SCHEDULES", "rate", "warmup_cosine"]

_WARMUP = "warmup-"


def _drops(done: int, count: int, fields: Any) -> int:
    """Return how often the learning rate has dropped after `done` steps."""
    every = max(1, math.ceil(fields.decay_every * count))
    first = getattr(fields, "decay_from", None)
    return int(done // every if first is None else max(0, (done - math.ceil(first * count)) // every + 1))


# Share of the peak after `done` of `count` steps.
_SHAPES: dict[str, Callable[[int, int, Any], float]] = {
    "constant": lambda done, count, fields: 1.0,
    "cosine": lambda done, count, fields: 0.5 * (1 + math.cos(math.pi * done / count)),
    "linear": lambda done, count, fields: 1 - done / count,
    "step": lambda done, count, fields: fields.decay ** _drops(done, count, fields),
}

SCHEDULES = (*_SHAPES, *(_WARMUP + name for name in _SHAPES))
"""``"constant"``; ``"cosine"`` and ``"linear"`` towards `learning_rate_end`; ``"step"``: times `decay` after
every share `decay_every` of the steps, the first time after `decay_from` if that is given. ``"warmup-..."``:
the same after a linear rise over the share `warmup`."""


def rate(step: int, total: int, fields: Any) -> float:
    """Return the learning rate of step 1..total.

    `fields` has `schedule`, one of :data:`SCHEDULES`, the peak `learning_rate`, and what the schedule reads:
    `warmup`, `decay`, `decay_every` and maybe `decay_from` and `learning_rate_end` (0). With a warm-up,
    ``warm = ceil(warmup * total)``: the first step has ``peak / warm``, step ``warm`` has the peak, and the
    schedule covers the steps after it.
    """
    shape, peak = fields.schedule.removeprefix(_WARMUP), float(fields.learning_rate)
    warm = math.ceil(fields.warmup * total) if fields.schedule.startswith(_WARMUP) else 0
    if step <= warm:
        return peak * step / warm
    end = float(getattr(fields, "learning_rate_end", 0.0))
    return end + (peak - end) * _SHAPES[shape](step - 1 - warm, max(1, total - warm), fields)


def warmup_cosine(step: int, total: int, peak: float, warmup: float) -> float:
    """Return the learning rate of a step: linear warm-up over a share of the steps, then cosine towards 0.

    The first step has ``peak / warm`` and step ``warm`` has the peak, where ``warm = ceil(warmup * total)``.

    Parameters
    ----------
    step, total : int
        Which step, from 1 to `total`.
    peak : float
        Highest learning rate.
    warmup : float
        Share of the steps, from 0 to 1.

    Returns
    -------
    float
        From 0 to `peak`.

    Raises
    ------
    ConfigError
        A number out of range.
    """
    total = check_whole("total", total, 1, 2**52)  # a float can count these
    step = check_whole("step", step, 1, total)
    peak, warmup = check_number("peak", peak, 0, 1e30), check_number("warmup", warmup, 0, 1)
    return rate(step, total, SimpleNamespace(schedule="warmup-cosine", learning_rate=peak, warmup=warmup))
