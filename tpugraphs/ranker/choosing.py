"""Which configs to measure, if the fastest of them is kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["fastest_together"]


def fastest_together(
    samples: NDArray[np.float64], count: int, weights: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """Choose configs one by one, each so that the fastest of those so far is expected to be fastest.

    Parameters
    ----------
    samples : (n, S) float64
        Runtimes or scores of n configs in S worlds that may be the true one.
    count : int
        How many, at most n.
    weights : (S,) float64, optional
        Probabilities of the worlds; equal by default.

    Returns
    -------
    (count,) int64
        Their places. The order is that of the choice, so a shorter list is the beginning of a longer one.
    """
    fastest, chosen = np.full(samples.shape[1], np.inf), list[int]()
    for _ in range(count):
        found = np.minimum(samples, fastest)
        expected = found.mean(1) if weights is None else found @ weights
        expected[chosen] = np.inf
        chosen.append(int(expected.argmin()))
        fastest = np.minimum(fastest, samples[chosen[-1]])
    return np.array(chosen, np.int64)
