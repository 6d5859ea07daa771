"""Learning-rate schedules of the core, as functions of (step, total, fields)."""

from __future__ import annotations

from typing import Any

from tpugraphs import _core
from tpugraphs.system.arguments import check_number, check_whole

__all__ = ["SCHEDULES", "rate", "warmup_cosine"]

_ATTRS = {attr["name"]: attr for attr in _core.schedule_attrs()}
SCHEDULES: tuple[str, ...] = _ATTRS["schedule"]["choices"]
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
    given = {name: value for name in _ATTRS if (value := getattr(fields, name, None)) is not None}
    return _core.learning_rate(given, step, total)


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
    given = {"schedule": "warmup-cosine", "learning_rate": peak, "warmup": warmup}
    return _core.learning_rate(given, step, total)
