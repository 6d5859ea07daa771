"""Timing of a step: warm-up calls, then blocks of calls."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from tpugraphs.layertime.measuring.base import Step

__all__ = ["Times", "time_step"]

_WARM_UP = 3  # calls; the first one compiles, the others set the number of calls of a block
_MOST_CALLS = 1 << 16  # of a block


@dataclass(frozen=True)
class Times:
    """Milliseconds of a call: statistics over the means of the blocks."""

    time_median_ms: float
    time_min_ms: float
    time_max_ms: float
    time_std_ms: float


def time_step(step: Step, repeats: int, least_ms: float) -> Times:
    """Time a step in `repeats` blocks, each of enough calls to take `least_ms`."""
    step()
    calls = _calls(min(_block_ms(step, 1) for _ in range(_WARM_UP - 1)), least_ms)
    if calls > 1:  # a single call is a poor clock for a short step
        calls = _calls(_block_ms(step, calls) / calls, least_ms)
    blocks = [_block_ms(step, calls) / calls for _ in range(repeats)]
    return Times(*(float(f(blocks)) for f in (np.median, np.min, np.max, np.std)))


def _calls(call_ms: float, least_ms: float) -> int:
    return min(math.ceil(least_ms / max(call_ms, 1e-6)), _MOST_CALLS)


def _block_ms(step: Step, calls: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(calls):
        step()
    return max(time.perf_counter_ns() - start, 1) / 1e6
