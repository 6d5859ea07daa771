"""Ranking losses of lists of scores: value and gradient in one call.

A score rises with run time, so for ``runtimes[i] > runtimes[j]`` a loss wants ``scores[i] > scores[j]``.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core

__all__ = ["list_mle", "pairwise_hinge", "ratio_ranks"]


def ratio_ranks(runtimes: NDArray[np.int64], normalizers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranks of normalised runtimes: whole numbers with exactly the order of ``runtimes / normalizers``.

    A loss compares whole numbers; quotients are compared here, once per graph, by their products crosswise in
    128 bits, so that none is rounded.

    Parameters
    ----------
    runtimes, normalizers : (n,) int64
        Normalizers are positive.

    Returns
    -------
    (n,) int64
        From 1, the least quotient; equal quotients share their rank.

    Raises
    ------
    DataError
        A normalizer that is not positive.
    """
    return _core.ratio_ranks(runtimes, normalizers)


def pairwise_hinge(
    scores: NDArray[np.float32],
    runtimes: NDArray[Any],
    margin: float = 1.0,
    reduction: Literal["mean-all", "sum", "mean-pairs"] = "mean-all",
    offsets: NDArray[np.int64] | None = None,
) -> tuple[float, NDArray[np.float32]]:
    """Hinge over all pairs: ``max(0, margin - (scores[i] - scores[j]))`` for ``runtimes[i] > runtimes[j]``.

    Runtimes are compared exactly (int64, also beyond 2**53); equal ones make no pair. A pair exactly on the
    margin has gradient 0. Lists up to 256 entries are compared pair by pair, longer ones by sorting in
    O(L log L): both count the same pairs, so there is no jump between them.

    Parameters
    ----------
    scores : (L,) float32
        Finite numbers.
    runtimes : (L,) int64, int32, float64 or float32
        Only their order matters. NaN is an error.
    margin : float
        At least 0; taken as float32.
    reduction : {"mean-all", "sum", "mean-pairs"}
        Divide a list's sum by L**2 (the first place of the Kaggle competition; entries without a pair count
        as zeros), by nothing, or by the number of pairs of different runtimes.
    offsets : (B+1,) int64, optional
        Several lists: list ``b`` is ``[offsets[b], offsets[b+1])``. The loss is the mean over lists, and a
        list of fewer than two entries adds 0 but counts.

    Returns
    -------
    loss : float
    dscores : (L,) float32
        Gradient of the loss with respect to the scores.

    Raises
    ------
    ShapeError
        Wrong dtype, shape or memory order; offsets that do not run from 0 to L.
    DataError
        A score that is not finite, a runtime that is NaN.
    ConfigError
        Unknown reduction, negative margin.
    """
    return _core.loss_lists("pairwise_hinge", reduction, margin, 0, scores, runtimes, offsets)


def list_mle(
    scores: NDArray[np.float32],
    runtimes: NDArray[Any],
    reduction: Literal["sum", "mean-all"] = "sum",
    seed: int = 0,
    offsets: NDArray[np.int64] | None = None,
) -> tuple[float, NDArray[np.float32]]:
    """ListMLE (Xia et al. 2008): ``sum_k log(sum_{l>=k} exp(s_l)) - s_k``, entries in order slowest first.

    Every suffix sum is shifted by its own maximum, so nothing under- or overflows and no epsilon stands
    inside the logarithm. Entries of equal runtime are put in an order drawn from `seed`.

    Parameters
    ----------
    scores, runtimes, offsets
        As for `pairwise_hinge`.
    reduction : {"sum", "mean-all"}
        Sum over a list, or that divided by its length.
    seed : int
        Key of the tie breaks, 0 <= seed < 2**64. A list's draws also depend on its number.

    Returns
    -------
    loss : float
    dscores : (L,) float32

    Raises
    ------
    ShapeError, DataError, ConfigError
        As `pairwise_hinge`; ``"mean-pairs"`` is a ConfigError, there are no pairs here.
    """
    return _core.loss_lists("list_mle", reduction, 0.0, seed, scores, runtimes, offsets)
