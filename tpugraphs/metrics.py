"""Metrics of rankings: scores (smaller = predicted faster) against measured runtimes.

All are O(n log n) in C and take scores (n,) and runtimes (n,). Any array-like of numbers will do: float32,
float64, int32 and int64 arrays go through as they are, other dtypes are widened without loss. Comparisons are
exact, also for int64 beyond 2**53. A score or runtime that is NaN raises `DataError`; infinite scores are
ordered like others. Different lengths and more dimensions raise `ShapeError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs import _core, names
from tpugraphs.errors import ShapeError
from tpugraphs.system import check_choice, check_whole, counted

__all__ = [
    "COLLECTIONS", "VALIDATION", "competition_score", "gain_of_best", "kendall_tau", "mean_ranks", "ndcg",
    "noise_ceiling", "opa", "spearman", "tile_score", "top_k_slowdown", "top_mean_score",
]  # fmt: skip

COLLECTIONS = tuple(names.COLLECTIONS)
"""The five collections of TpuGraphs, whose scores make the competition score."""

_NATIVE = frozenset("fdlqi")


def _numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return `values` as an array of a dtype that the core takes."""
    if np.ma.is_masked(values):
        raise ShapeError(f"{name}: expected values without a mask, got masked ones: leave them out")
    array = np.asarray(values)
    if array.dtype.char not in _NATIVE or not array.dtype.isnative:
        if array.dtype.kind not in "fbiu" or array.dtype.itemsize > 8:
            raise ShapeError(f"{name}: expected numbers of at most 64 bits, got dtype {array.dtype}")
        if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise ShapeError(f"{name}: uint64 values above 2**63 - 1 do not fit int64")
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return np.ascontiguousarray(array) if array.ndim else array


def _pair(scores: ArrayLike, runtimes: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both sides as arrays that the core takes; ShapeError if their lengths differ."""
    left, right = _numbers(scores, "scores"), _numbers(runtimes, "runtimes")
    if left.ndim == right.ndim == 1 and len(left) != len(right):
        found = f"{counted(len(left), 'score')} and {counted(len(right), 'runtime')}"
        raise ShapeError(f"scores and runtimes: expected one runtime per score, got {found}")
    return left, right


def kendall_tau(scores: ArrayLike, runtimes: ArrayLike) -> float:
    """Return Kendall's tau-b, the layout metric of the Kaggle competition (per graph; Knight 1966).

    ``(P - Q) / sqrt((P + Q + X) (P + Q + Y))`` with P pairs in the same order, Q in opposite order, X tied in
    the scores only and Y tied in the runtimes only, as `scipy.stats.kendalltau`. Runtimes are compared
    exactly; SciPy rounds int64 runtimes to float64 if the scores are floats, so beyond 2**53 it sees ties
    between some that differ.

    Parameters
    ----------
    scores, runtimes : (n,) array
        Numbers, see the module.

    Returns
    -------
    float
        In [-1, 1]; 0.0 where SciPy gives NaN: either side constant, or fewer than two entries.
    """
    return _core.kendall_tau(*_pair(scores, runtimes), 0)


def noise_ceiling(repeats: ArrayLike) -> float:
    """Return Kendall's tau between two halves of the measurements: about as high as any ranking can get.

    The minimum of the even measurements of every config is ranked against that of the odd ones.

    Parameters
    ----------
    repeats : (C, R) float
        Single measurements of every config, R >= 2, NaN where there is none (as ``Graph.repeats``). Configs
        without one in both halves are left out.

    Returns
    -------
    float
        In [-1, 1]; see :func:`kendall_tau`.

    Raises
    ------
    ShapeError
        Another shape.
    """
    halves = _halves(repeats)
    both = np.isfinite(halves).all(0)
    return kendall_tau(halves[0][both], halves[1][both])


def _halves(repeats: ArrayLike, least: int = 0) -> NDArray[np.float64]:
    """Return the minima (2, C) of the even measurements and of the odd ones; infinity where there is none."""
    array = np.asarray(repeats, np.float64)
    if array.ndim != 2 or array.shape[1] < 2 or len(array) < least:
        sizes = f"C >= {least} and R >= 2" if least else "R >= 2"
        raise ShapeError(f"repeats: expected shape (C, R) with {sizes}, got {array.shape}")
    known = np.where(np.isnan(array), np.inf, array)
    return np.stack([known[:, ::2].min(1), known[:, 1::2].min(1)])


def gain_of_best(repeats: ArrayLike) -> float:
    """Return how many times faster the fastest config is than the first one, without the winner's curse.

    The fastest of many owes part of its time to luck. So it is chosen by one half of the measurements and
    judged by the other; the geometric mean of both ways counts.

    Parameters
    ----------
    repeats : (C, R) float
        Single measurements of every config, R >= 2, NaN where there is none (as ``Graph.repeats``); the
        default first.

    Returns
    -------
    float
        Default / best: above 1 if choosing helps, NaN if the default has not run in both halves.

    Raises
    ------
    ShapeError
        Another shape.
    """
    halves = _halves(repeats, least=1)
    halves[:, ~np.isfinite(halves).all(0)] = np.inf
    if np.isinf(halves[:, 0]).any():
        return float("nan")
    best = halves[::-1].argmin(1)  # of each half, by the other
    return float(np.sqrt(np.prod(halves[:, 0] / halves[[0, 1], best])))


def opa(scores: ArrayLike, runtimes: ArrayLike) -> float:
    """Return the ordered pair accuracy: the share of pairs with ``y_i > y_j`` that also have ``s_i > s_j``.

    Strict on both sides: equal runtimes make no pair, equal scores of a pair count as wrong. Without ties it
    is ``(tau + 1) / 2``.

    Parameters
    ----------
    scores, runtimes : (n,) array
        Numbers, see the module.

    Returns
    -------
    float
        In [0, 1]; 0.0 if there is no pair (constant runtimes, or fewer than two entries).
    """
    return _core.opa(*_pair(scores, runtimes), 0)


def spearman(scores: ArrayLike, runtimes: ArrayLike) -> float:
    """Return Spearman's rank correlation: Pearson's correlation of mid-ranks.

    Parameters
    ----------
    scores, runtimes : (n,) array
        Numbers, see the module.

    Returns
    -------
    float
        In [-1, 1]; 0.0 if either side is constant or there are fewer than two entries.
    """
    return _core.spearman(*_pair(scores, runtimes), 0)


def top_k_slowdown(scores: ArrayLike, runtimes: ArrayLike, k: int = 5) -> float:
    """Return the cost of trying only the `k` best-scored: their best runtime over the best of all, minus 1.

    Parameters
    ----------
    scores : (n,) numbers
        Equal scores are taken in the order of their indices.
    runtimes : (n,) numbers > 0
        For tiles normalised ones (runtime / normalizer), as the competition does.
    k : int
        At least 1; more than n counts as n.

    Returns
    -------
    float
        At least 0; 0 is perfect, 0.1 is ten per cent slower than the best.

    Raises
    ------
    DataError
        NaN scores; runtimes that are not finite and positive; no entries at all.
    ConfigError
        k below 1.
    """
    return _core.top_k_slowdown(*_pair(scores, runtimes), check_whole("k", k, 1))


def ndcg(scores: ArrayLike, runtimes: ArrayLike, k: int = 10) -> float:
    """Return the normalised discounted cumulative gain of the first `k`: gains ``min(runtimes) / runtime``.

    Sum over places p = 1..k of gain / log2(p + 1), divided by that of the true order. The gain is the
    relevance itself (linear), and any constant in it cancels, so this is relevance 1 / runtime. Parameters
    and errors are those of `top_k_slowdown`.

    Parameters
    ----------
    scores, runtimes : (n,) array
        Runtimes are above 0.
    k : int
        At least 1.

    Returns
    -------
    float
        In (0, 1].
    """
    return _core.ndcg(*_pair(scores, runtimes), check_whole("k", k, 1))


def tile_score(scores: ArrayLike, runtimes: ArrayLike, k: int = 5) -> float:
    """Return the tile metric of the competition for one graph: ``1 - top_k_slowdown``.

    Parameters
    ----------
    scores, runtimes : (n,) array
        Runtimes are above 0.
    k : int
        How many of the predicted fastest are measured.

    Returns
    -------
    float
        At most 1, unbounded below.
    """
    return 1.0 - top_k_slowdown(scores, runtimes, k)


def top_mean_score(scores: ArrayLike, runtimes: ArrayLike, k: int = 50) -> float:
    """Return 2 - mean runtime of the `k` predicted fastest / that of the `k` fastest: 1 is perfect.

    The first place chose its tile models by it. Of fewer than `k` configs all are taken, and it is 1.
    Parameters and errors are those of `top_k_slowdown`.

    Parameters
    ----------
    scores, runtimes : (n,) array
        Runtimes are above 0.
    k : int
        How many are compared.

    Returns
    -------
    float
        At most 1.
    """
    top_k_slowdown(scores, runtimes, k)  # checks them
    s, y = _pair(scores, runtimes)
    chosen = y[np.argsort(s, kind="stable")[:k]]
    return 2.0 - float(chosen.mean() / np.sort(y)[:k].mean())


def mean_ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return the ranks of values; ties share their mean rank.

    Parameters
    ----------
    values : (n,) array
        Numbers.

    Returns
    -------
    (n,) float64
        From 0 (smallest) to n - 1.
    """
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    places: NDArray[np.float64] = (np.cumsum(size) - (size + 1) / 2)[group]
    return places


VALIDATION = {"tau": kendall_tau, "opa": opa, "top5": tile_score, "mean50": top_mean_score}
"""Metrics that can choose the best parameters of a fit; greater is better. See `tpugraphs.Ranker.metric`."""


def competition_score(per_collection: Mapping[str, float | Iterable[float]]) -> float:
    """Return the unweighted mean over the five collections, each the mean of its graphs' scores.

    Parameters
    ----------
    per_collection : mapping
        Collection name (see `COLLECTIONS`) to its score or to the scores of its graphs: `tile_score` for
        ``tile:xla``, `kendall_tau` for the layouts. A collection left out, or without graphs, counts as 0.

    Returns
    -------
    float

    Raises
    ------
    ConfigError
        A name that is not a collection.
    """
    for name in per_collection:
        check_choice("collection", name, COLLECTIONS)
    total = 0.0
    for value in per_collection.values():
        listed = value if isinstance(value, (int, float, np.floating)) else list(value)
        scores = np.asarray(listed, dtype=np.float64)
        total += float(scores.mean()) if scores.size else 0.0
    return total / len(COLLECTIONS)
