"""Pruning of graphs, merging of equal configs, padding of layouts."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.data.published import Graph, LayoutGraph, TileGraph
from tpugraphs.errors import ConfigError, check_graph
from tpugraphs.system import check_choice

GraphT = TypeVar("GraphT", LayoutGraph, TileGraph)


# Pruning method -> its options.
_METHODS: dict[str, tuple[str, ...]] = {
    "config-1hop": (),
    "config-only": (),
    "k-hop": ("hops",),
    "consumers": ("hops",),
    "shortest-path": (),
    "meta": (),
    "merge": ("neighbours",),
}


class PruneOptions(TypedDict, total=False):
    """Options of the methods of :func:`prune`."""

    hops: int
    neighbours: Literal["kept", "dummies"]


def prune(graph: LayoutGraph, method: str = "config-1hop", **options: Unpack[PruneOptions]) -> LayoutGraph:
    """Keep the part of a layout graph around its configurable nodes.

    All methods keep every configurable node, all configs and runtimes; ``node_splits`` is dropped. Those that
    choose nodes and edges keep the order of both. Nodes that a method makes have opcode 0 and features 0.

    Parameters
    ----------
    graph : LayoutGraph
    method : str
        ``"config-1hop"``: edges with at least one configurable end, and the ends of these edges; edges
        between two kept nodes of which neither is configurable go. Configurable nodes without an edge stay
        (first place of the Kaggle competition, which had no such nodes).
        ``"config-only"``: the configurable nodes in the order of ``node_config_ids``, no edges (third place,
        first version).
        ``"k-hop"``: all nodes within ``hops`` (default 2) undirected steps of a configurable node, and all
        edges between them.
        ``"consumers"``: all nodes within ``hops`` (default 2; the sixth place took 5) steps of a configurable
        node, from a node to those that consume its output, and all edges between them.
        ``"shortest-path"``: a shortest undirected path from the last node to each configurable one; of
        several the one that comes from the smallest node. Configurable nodes that no path reaches stay,
        without an edge (ninth place).
        ``"meta"``: the configurable nodes in the order of ``node_config_ids``. There is an edge (u, v) if the
        output of v reaches u without passing another configurable node.
        ``"merge"``: configurable nodes and their neighbours stay. Every connected component of the others
        becomes one node, since nothing in it can be configured. These nodes and the neighbours come first,
        then the configurable nodes in the order of ``node_config_ids``. Every edge occurs once, ordered by
        its consumer. With ``neighbours="dummies"`` instead of ``"kept"``, neighbours lose opcode and
        features, too (third place: its text describes one, its code does the other).
    **options
        Options of the method.

    Returns
    -------
    LayoutGraph

    Raises
    ------
    ConfigError
        Unknown method or option, a graph without configurable nodes, or a tile graph.
    """
    check_choice("prune: method", method, _METHODS)
    if unknown := sorted(set(options) - set(_METHODS[method])):
        takes = f"takes only {', '.join(_METHODS[method])}" if _METHODS[method] else "takes no options"
        raise ConfigError(f"prune: method {method!r} has no option {unknown[0]!r}; it {takes}")
    if not isinstance(graph, LayoutGraph):
        hint = ": use tile graphs whole" if isinstance(graph, TileGraph) else ""
        raise ConfigError(f"prune: expected a layout graph, got {type(graph).__name__}{hint}")
    if graph.num_config_nodes == 0:
        found = f"graph {graph.name!r} has no configurable nodes (K = 0)"
        raise ConfigError(f"prune: {found}, so nothing of it would be left; use it unpruned")
    nodes, edges, configs = kernels.prune(
        graph.edge_index, graph.num_nodes, graph.node_config_ids, method, **options
    )
    made = nodes < 0
    return graph.replace(
        node_feat=np.where(made[:, None], np.float32(0), graph.node_feat[nodes]),
        node_opcode=np.where(made, np.uint8(0), graph.node_opcode[nodes]),
        edge_index=edges,
        node_config_ids=configs,
        node_splits=None,  # offsets into the unpruned nodes mean nothing any more
    )


def dedup(graph: GraphT, keep: str = "first") -> GraphT:
    """Keep one copy of each config of a graph, in the order in which they first occur.

    Parameters
    ----------
    graph : Graph
    keep : {"first", "min", "mean"}
        Which runtime the config gets. ``"first"``: that of its first copy. ``"min"``: the least; for tile the
        least runtime / normalizer, with that row's own normalizer. ``"mean"``: the exact integer mean, halves
        rounded to even; for tile runtimes and normalizers are averaged each, so that both stay nanoseconds of
        real runs and their quotient is the mean of the quotients weighted by the normalizer. For graphs of
        other schemas the mean is a float; copies that failed count only where all of them did, and with
        ``"mean"`` there are no `repeats` any more.

    Returns
    -------
    graph
        Of the same class.

    Raises
    ------
    ConfigError
        Unknown ``keep``, or `graph` is not a graph.
    """
    check_graph("dedup", graph)
    check_choice("keep", keep, ("first", "min", "mean"))
    rows, runtimes, norms = merge(graph, *graph.distinct_configs(), keep)
    kept = graph.select(rows)
    if keep != "mean":
        return kept
    valid = None if graph.valid is None else ~np.isnan(runtimes)
    times = {"runtime": runtimes, "config_runtime_normalizers": norms}
    return kept._with(**times, valid=valid, repeats=None)


def merge(
    graph: Graph, first: NDArray[np.int64], inverse: NDArray[np.int64], keep: str
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64] | None]:
    """Return what `dedup` keeps of equal configs: rows (n,), runtimes (n,), and normalizers (n,), if any."""
    whole = graph.runtime.dtype == np.int64 and graph.valid is None
    if graph.kind != "graph" or (whole and keep != "mean"):
        return _core.merge_configs(first, inverse, graph.runtime, graph.config_runtime_normalizers, keep)
    rows, times = _core.merge_measured(first, inverse, graph.runtime.astype(np.float64), graph.valid, keep)
    return rows, times if keep == "mean" else graph.runtime[rows], None


def fix_padding(graph: GraphT) -> GraphT:
    """Pad the layouts in ``node_feat`` (columns 134-139) with -1 past a node's rank, where files have 0.

    With 0 as padding, "no such dimension" and "dimension 0" look the same. The rank follows from the shape
    (columns 21-26; see `tpugraphs.kernels.layout_digits`). Columns 31-36 (``dimensions``), 95-98 and 101-104
    (spatial dimensions of convolutions) have the same flaw, but files do not say how long these lists are:
    they are left as they are.

    Parameters
    ----------
    graph : LayoutGraph or TileGraph
        With node features as in the published files.

    Returns
    -------
    graph
        A copy.

    Raises
    ------
    DataError
        A layout entry that is not an integer in -1..5.
    ConfigError
        `graph` is not a graph.
    """
    check_graph("fix_padding", graph)
    feat = graph.node_feat.copy()
    feat[:, _core.SCHEMA["scaled_features"] :] = kernels.layout_digits(graph.node_feat)
    return graph.replace(node_feat=feat)
