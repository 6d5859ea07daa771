"""Blocks of configs whose runtimes resemble their neighbours': some solutions do not train on them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.measured import require_measured
from tpugraphs.data.published import Graph
from tpugraphs.errors import check_graph
from tpugraphs.system import check_number, check_whole

GraphT = TypeVar("GraphT", bound=Graph)

_LEAST = 1e-3  # added to the range of the runtimes, so that a constant can be scaled


def block_divergence(runtimes: NDArray[np.float64], size: int = 100, window: int = 5) -> NDArray[np.float64]:
    """Return the divergence of neighbouring blocks of runtimes.

    The runtimes of a file are scaled to 0..1 and cut into blocks of `size`; a shorter last block is ignored.
    Each block is divided by its sum. The Kullback-Leibler divergence then compares block b with block b - 1,
    position by position. It is averaged over `window` neighbouring comparisons, fewer at the ends. It is near
    0 where runtimes repeat or hardly vary.

    Parameters
    ----------
    runtimes : (C,) float64
        In the order of the file.
    size : int
        Configs of a block.
    window : int
        Comparisons that are averaged.

    Returns
    -------
    (blocks - 1,) float64
        In nats, at least 0.
    """
    blocks = len(runtimes) // size
    if blocks < 2:
        return np.zeros(0)
    low, high = float(runtimes.min()), float(runtimes.max())
    scaled = (runtimes[: blocks * size] - low + _LEAST / 2) / (high - low + _LEAST)
    share = scaled.reshape(blocks, size)
    share = share / share.sum(1, keepdims=True)
    divergence = (share[1:] * np.log(share[1:] / share[:-1])).sum(1)
    sums = np.concatenate([[0], np.cumsum(divergence)])
    at = np.arange(blocks - 1)
    first = np.maximum(at - (window - 1) // 2, 0)
    end = np.minimum(at + window // 2 + 1, blocks - 1)
    return np.asarray((sums[end] - sums[first]) / (end - first))


def filter_blocks(
    graph: GraphT, threshold: float = 0.3, *, size: int = 100, window: int = 5, least: float = 0.1
) -> GraphT | None:
    """Leave out blocks of consecutive configs whose runtimes are too like those of neighbouring blocks.

    A filter of training graphs (second place of the Kaggle competition, which took a threshold of 0.3 for the
    random searches and 3.0 for the default ones). A block stays if `block_divergence` is at least `threshold`
    on both sides of it. Configs after the last whole block are left
    out. Failed configs do not count, and are left out, too.

    Parameters
    ----------
    graph : Graph
        With its configs in the order in which they were measured.
    threshold : float
    size : int
        Configs of a block.
    window : int
        Comparisons that are averaged. At the ends the published code counts those beyond as 0.
    least : float
        Share of the configs that must stay.

    Returns
    -------
    graph or None
        None if no more than `least` would stay: leave the graph out. A graph of fewer than two blocks is
        returned as it is.

    Raises
    ------
    ConfigError
        `graph` is not a graph, or ``size < 2``, ``window < 1``, or `least` is not in 0..1.
    DataError
        The graph was not measured.
    """
    check_graph("filter_blocks", graph)
    size, window = check_whole("size", size, 2), check_whole("window", window, 1)
    least = check_number("least", least, 0, 1)
    ran = graph.ran
    require_measured(graph, ran, "its blocks cannot be compared", "filter graphs to train on")
    alike = block_divergence(graph.relative_runtime[ran], size, window) < threshold
    if alike.size == 0:
        return graph
    kept = ~(np.append(False, alike) | np.append(alike, False))
    rows = ran[: kept.size * size].reshape(kept.size, size)[kept].ravel()
    return graph.select(rows) if rows.size > least * graph.num_configs else None
