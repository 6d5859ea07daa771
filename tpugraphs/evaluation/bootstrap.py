"""Bootstrap intervals (Efron 1979): of tau over the configs of a graph, of a mean over graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import metrics


def bootstrap_tau(
    scores: ArrayLike,
    runtimes: ArrayLike,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    max_rows: int = 3000,
) -> tuple[float, float]:
    """Bootstrap interval of Kendall's tau over the configurations of one graph.

    Rows are drawn with replacement; a row drawn twice makes a pair tied on both sides, which tau-b leaves
    out. Of more than `max_rows` rows each draw takes only that many, and the deviations from the whole
    sample's tau shrink by ``sqrt(max_rows / n)`` (m out of n bootstrap, Bickel, Götze and van Zwet 1997), so
    the time does not grow with the file.

    Parameters
    ----------
    scores, runtimes : (n,) numbers
    draws : int
        Bootstrap samples.
    level : float
        Coverage aimed at.
    seed : int
        Same seed, same interval.
    max_rows : int
        Rows per draw.

    Returns
    -------
    low, high : float
    """
    s, y = np.asarray(scores), np.asarray(runtimes)
    whole = metrics.kendall_tau(s, y)
    if s.size < 2 or draws < 1:
        return whole, whole
    drawn = deviations([s], y, metrics.kendall_tau, draws=draws, seed=seed, max_rows=max_rows)
    low, high = _middle(drawn[0], level)
    return max(-1.0, whole + low), min(1.0, whole + high)


def deviations(
    scores: Sequence[NDArray[Any]],
    runtimes: NDArray[Any],
    metric: Callable[[NDArray[Any], NDArray[Any]], float],
    *,
    draws: int,
    seed: int,
    max_rows: int = 3000,
) -> NDArray[np.float64]:
    """Return how a metric deviates from its value when configs are redrawn, scaled as in `bootstrap_tau`.

    Parameters
    ----------
    scores : sequence of (n,) arrays
        Of several scorers, for which the same configs are drawn.
    runtimes : (n,) numbers
    metric : callable
        ``metric(scores, runtimes)``.

    Returns
    -------
    (scorers, draws) float64
    """
    n, rng = runtimes.size, np.random.default_rng(seed)
    m = min(n, max_rows)
    drawn = []
    for _ in range(draws):
        rows = rng.integers(n, size=m)
        drawn.append([metric(own[rows], runtimes[rows]) for own in scores])
    whole = np.array([[metric(own, runtimes)] for own in scores])
    return np.asarray((np.transpose(drawn) - whole) * math.sqrt(m / n), np.float64)


def bootstrap_mean(values: NDArray[np.float64], draws: int, level: float, seed: int) -> tuple[float, float]:
    """Return the percentile interval of the mean of values (n,) over redrawn graphs."""
    rng = np.random.default_rng(seed)
    means = values[rng.integers(values.size, size=(max(draws, 1), values.size))].mean(axis=1)
    return _middle(means, level)


def _middle(drawn: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Return the ends of the interval that leaves out equal shares at both sides."""
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)
