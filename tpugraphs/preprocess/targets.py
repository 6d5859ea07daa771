"""Targets: the numbers that losses of values fit scores to. Losses of the order compare runtimes instead."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TARGETS", "targets"]

TARGETS = ("runtime", "log-runtime", "percentile", "normal-score")
"""The runtime (of tile graphs normalised); its natural logarithm; the share of the graph's other configs that
are faster, from 0 to 1, where equal ones count half; the quantile of the normal distribution at the place
among the graph's configs (van der Waerden)."""


def targets(times: NDArray[Any], target: str) -> NDArray[np.float64]:
    """Return targets (C,) for the runtimes (C,) of a graph's configs; NaN stays NaN. See :data:`TARGETS`."""
    values = np.asarray(times, np.float64)
    ran = ~np.isnan(values)
    if not ran.all():
        found = np.full(values.shape, np.nan)
        found[ran] = targets(times[ran], target)
        return found
    if target == "runtime":
        return values
    if target == "log-runtime":
        return np.log(values)
    ordered = np.sort(times)
    faster, others = np.searchsorted(ordered, times), max(1, len(ordered) - 1)
    equal = np.searchsorted(ordered, times, side="right") - faster - 1
    if target == "percentile":
        return np.asarray((faster + 0.5 * equal) / others, np.float64)
    places, inverse = np.unique((faster + 0.5 * equal + 0.5) / len(ordered), return_inverse=True)
    normal = NormalDist()
    return np.array([normal.inv_cdf(float(place)) for place in places])[inverse]
