"""How everything here is timed: sides take turns, medians are kept, and ratios are medians of pairs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Times = dict[str, list[float]]  # side -> seconds per call, one entry per round


def once(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call."""
    start = clock()
    call()
    return clock() - start


SETTLE = 0.15  # after the last call of a side libgomp's threads spin for 5 ms, NumPy's OpenBLAS's for 105 ms
WARM = 0.5  # shorter calls are measured as in a loop: after some that are not timed
WAKING = 0.1  # seconds of these: threads that wake after a pause share a core until the system spreads them
LEAST = 0.02  # seconds that a side is timed for per turn


def hurry() -> None:
    """Time every side as briefly as possible, for runs whose figures mean nothing."""
    global SETTLE, WAKING, LEAST
    SETTLE = WAKING = LEAST = 0.0


def race(
    sides: Mapping[str, Callable[[], Any]],
    rounds: int,
    budget: float = 60.0,
    least: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Times:
    """Time every side once per round, after a warm-up, beginning each round with another side.

    Before a turn the machine is left alone until the threads of the side before sleep. Calls shorter than
    WARM are timed after WAKING seconds of them that are not, which wake the side's own threads and bring its
    data back into the caches, as in a loop; short ones are repeated for `least` seconds per turn.
    After `budget` seconds no further round begins, but three are made. `clock`: ``time.process_time`` for
    calls of one thread, which other work on the machine then disturbs less.
    """
    least = LEAST if least is None else least
    counts, warm = {}, {}
    for name, call in sides.items():
        call()
        took = once(call, clock)
        counts[name] = max(1, math.ceil(least / max(took, 1e-7)))
        warm[name] = took < WARM
    times: Times = {name: [] for name in sides}
    settle, wake = (SETTLE, WAKING) if least > 0.01 else (0.0, 0.0)
    names, start = list(sides), time.perf_counter()
    for turn in range(rounds):
        if turn >= 3 and time.perf_counter() - start > budget:
            break
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            call, count = sides[name], counts[name]
            time.sleep(settle)
            if warm[name]:
                waking = time.perf_counter() + wake
                call()
                while time.perf_counter() < waking:
                    call()
            begin = clock()
            for _ in range(count):
                call()
            times[name].append((clock() - begin) / count)
    return times


def median(times: Times, name: str) -> float | None:
    """Median seconds of a side, None if it did not take part."""
    return statistics.median(times[name]) if times.get(name) else None


def ratio(times: Times, ours: str, peer: str) -> float | None:
    """How many times faster `ours` is: the median over rounds of the quotient of the two times in a round."""
    if not times.get(ours) or not times.get(peer):
        return None
    return statistics.median(b / a for a, b in zip(times[ours], times[peer], strict=True))


def fastest(times: Times, names: list[str]) -> str | None:
    """The side with the least median among those of `names` that took part."""
    there = [name for name in names if times.get(name)]
    return min(there, key=lambda name: statistics.median(times[name]), default=None)


def scaled(value: float | None, factor: float) -> float | None:
    """``value * factor``; None stays None."""
    return None if value is None else value * factor
