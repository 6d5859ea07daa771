"""Targets: the numbers that losses of values fit scores to. Losses of the order compare runtimes instead."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.metrics import mean_ranks

__all__ = ["TARGETS", "targets"]

TARGETS = ("runtime", "seconds", "log-runtime", "percentile", "normal-score", "min-max")
"""The runtime (of tile graphs normalised); nanoseconds as seconds; the natural logarithm; the share of the
graph's other configs that are faster, from 0 to 1, where equal ones count half; the quantile of the normal
distribution at the place among the graph's configs (van der Waerden); the runtime scaled to 0 for the graph's
fastest config and to 1 for its slowest."""


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
    if target == "seconds":
        return values * 1e-9
    if target == "log-runtime":
        return np.log(values)
    if target == "min-max":
        low, high = values.min(), values.max()
        return (values - low) / (high - low) if high > low else np.zeros(values.size)
    ranks = mean_ranks(times)
    if target == "percentile":
        return ranks / max(1, len(ranks) - 1)
    places, inverse = np.unique((ranks + 0.5) / len(ranks), return_inverse=True)
    normal = NormalDist()
    return np.array([normal.inv_cdf(float(place)) for place in places])[inverse]
