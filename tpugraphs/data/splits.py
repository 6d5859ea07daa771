"""Random splits of the configs of a graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tpugraphs import kernels
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError, DataError, not_a_graph
from tpugraphs.kernels.streams import Stream
from tpugraphs.system.words import counted

__all__ = ["split_configs"]


def split_configs(graph: Graph, fractions: Sequence[float], seed: int = 0) -> list[NDArray[np.int64]]:
    """Split the configs of a graph at random; equal configs stay together.

    Parameters
    ----------
    graph : LayoutGraph or TileGraph
    fractions : sequence of float
        Shares of the distinct configs, for example ``(0.8, 0.1, 0.1)``; positive, adding up to at most 1.
    seed : int

    Returns
    -------
    list of (n,) int64
        Rows of each part, ascending, for ``graph.select(rows)``.

    Raises
    ------
    ConfigError
        Fractions are not positive or add up to more than 1.
    DataError
        Too few distinct configs for one in each part.
    """
    if not hasattr(graph, "distinct_configs"):
        raise not_a_graph("graph", graph)
    shares = [float(f) for f in fractions] if isinstance(fractions, Iterable) else []
    if not shares or min(shares) <= 0 or not math.isfinite(sum(shares)) or sum(shares) > 1 + 1e-9:
        raise ConfigError(f"fractions: expected positive numbers that add up to at most 1, got {fractions}")
    first, inverse = graph.distinct_configs()
    distinct = len(first)
    ends = [round(min(1.0, end) * distinct) for end in np.cumsum(shares)]
    if min(np.diff([0, *ends])) < 1:
        found = counted(distinct, "distinct config")
        text = f"{found} cannot be split into shares of {shares}: use fewer parts"
        raise DataError(text, file=str(graph.name), found=found)
    order = kernels.sample_without_replacement(distinct, distinct, (seed, Stream.SPLIT))
    place = np.empty(distinct, np.int64)
    place[order] = np.arange(distinct)
    part = np.searchsorted(np.asarray(ends), place[inverse], side="right")
    return [np.flatnonzero(part == i) for i in range(len(shares))]
