"""What a fit learns from: graphs, splits of their configs, and graphs prepared for the core."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs import kernels
from tpugraphs.errors import ConfigError, DataError, not_a_graph
from tpugraphs.pipeline import Pipeline, Prepared, check_layout

CACHE_BYTES = 2 << 30  # of prepared training graphs kept in memory
SPLIT = 4  # key of the random stream of a split; the fit has 1 to 3


def split_configs(graph: Any, fractions: Sequence[float], seed: int = 0) -> list[NDArray[np.int64]]:
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
        Fractions that are not such shares.
    DataError
        Too few distinct configs to give each part one.
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
        raise DataError(
            f"{distinct} distinct configs cannot be split into shares of {shares}: use fewer parts",
            file=str(graph.name), found=f"{distinct} distinct configs",
        )  # fmt: skip
    order = kernels.sample_without_replacement(distinct, distinct, (seed, SPLIT))
    place = np.empty(distinct, np.int64)
    place[order] = np.arange(distinct)
    part = np.searchsorted(np.asarray(ends), place[inverse], side="right")
    return [np.flatnonzero(part == i) for i in range(len(shares))]


class Graphs(Protocol):
    """A sequence of graphs, which may load them when indexed."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


def as_graphs(what: str, graphs: Any) -> Graphs:
    """One graph, or a sequence of graphs (which may load them when indexed), as a sequence."""
    if hasattr(graphs, "config_runtime"):
        return [graphs]
    wrong = isinstance(graphs, (str, bytes, Mapping))
    if wrong or not (hasattr(graphs, "__len__") and hasattr(graphs, "__getitem__")):
        if isinstance(graphs, Iterable) and not wrong:
            graphs = list(graphs)
        else:
            raise ConfigError(
                f"{what}: expected a graph, a list of graphs or a split of a collection, got "
                f"{type(graphs).__name__}; "
                + (
                    "use list(graphs.values())"
                    if hasattr(graphs, "values")
                    else "use tg.load(path) to read a file"
                )
            )
    if len(graphs) == 0:
        raise DataError(f"{what}: expected at least one graph, got none", field=what, found="0 graphs")
    sequence: Graphs = graphs
    return sequence


def not_layout(what: str, graph: Any) -> DataError | None:
    """Why a graph is none to rank layouts of, None if it is one; what is no graph at all raises."""
    try:
        check_layout(graph)
    except DataError as error:
        if not hasattr(graph, "kind"):
            raise ConfigError(
                f"{what}: expected graphs, found {type(graph).__name__}; use tg.load(path) to read a file"
            ) from None
        return error
    return None


def fingerprint(graph: Any, digits: bool) -> str:
    """Hash of the content of a graph; with `digits` also of all configs, which must then be read.

    Of a graph that is left out for its kind only the name.
    """
    if not_layout("graphs", graph) is not None:
        return f"without {graph.name}"
    h = hashlib.blake2b(digest_size=16)
    for name in ("node_feat", "node_opcode", "edge_index", "node_config_ids", "config_runtime"):
        array = np.ascontiguousarray(getattr(graph, name))
        h.update(f"{name}{array.shape}{array.dtype.str}".encode())
        h.update(array.data)
    if digits:
        h.update(np.ascontiguousarray(graph.config_digits).data)
    return h.hexdigest()


class Store:
    """Prepared training graphs, made when first used; the least recently used go when memory is short."""

    def __init__(self, graphs: Graphs, pipeline: Pipeline, skipped: dict[str, str]) -> None:
        self.graphs, self.pipeline, self.skipped = graphs, pipeline, skipped
        self.made: OrderedDict[int, Prepared | None] = OrderedDict()
        self.useless: set[int] = set()
        self.bytes = 0

    def get(self, index: int) -> Prepared | None:
        """Graph `index`, None if it cannot be trained on. A single graph that cannot raises."""
        if index not in self.made:
            try:
                prepared: Prepared | None = self.pipeline.apply(self.graphs[index], training=True)
            except DataError as error:
                if len(self.graphs) == 1:
                    raise
                self.skipped[error.file or f"graph {index}"] = str(error)
                self.useless.add(index)
                if len(self.useless) == len(self.graphs):
                    raise DataError(
                        f"none of the {len(self.graphs)} graphs can be trained on; the last: {error}"
                    ) from error
                prepared = None
            self.made[index] = prepared
            self.bytes += prepared.nbytes if prepared else 0
            while self.bytes > CACHE_BYTES and len(self.made) > 1:
                _, old = self.made.popitem(last=False)
                self.bytes -= old.nbytes if old else 0
        self.made.move_to_end(index)
        return self.made[index]
