"""Targets: the numbers that losses of values fit scores to. Losses of the order compare runtimes instead."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core

TARGETS = _core.target_names()
"""The runtime (of tile graphs normalised); nanoseconds as seconds; the natural logarithm; the share of the
graph's other configs that are faster, from 0 to 1, where equal ones count half; the quantile of the normal
distribution at the place among the graph's configs (van der Waerden); the runtime scaled to 0 for the graph's
fastest config and to 1 for its slowest."""


def targets(times: ArrayLike, target: str) -> NDArray[np.float64]:
    """Return targets (C,) for the runtimes (C,) of a graph's configs; NaN stays NaN. See :data:`TARGETS`."""
    return _core.target_values(np.ascontiguousarray(times, np.float64), target)
