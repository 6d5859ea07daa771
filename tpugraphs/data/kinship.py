"""Similar programs: families of architectures by name, and the nearest graphs by size or opcodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError, DataError, not_a_graph
from tpugraphs.system.arguments import check_whole

__all__ = ["ARCHITECTURES", "family", "nearest"]

ARCHITECTURES = (
    *("albert", "electra", "talking-heads", "bert", "transformer"),
    *("mask_rcnn", "retinanet", "shapemask", "ssd", "unet"),
    *("resnet", "inception", "xception", "efficientnet", "mobilenet", "mnasnet", "densenet"),
    *("alexnet", "vgg"),
)
"""Architectures in names of programs. The first match decides: a detector before its backbone."""

_MOST_OPCODES = 256


def family(graph: Graph) -> str:
    """Return the family of a program by its name: an architecture of `ARCHITECTURES`, or else the first word.

    ``"small_bert_L-2_H-768_batch_size_16_test"`` is of the family ``"bert"``, ``"magenta_dynamic"`` of
    ``"magenta"``. A name that is a hash, as in published test files, is a family by itself.

    Parameters
    ----------
    graph : graph

    Returns
    -------
    str

    Raises
    ------
    ConfigError
        Not a graph.
    """
    if not isinstance(graph, Graph):
        raise not_a_graph("family", graph)
    name = str(graph.name).lower()
    known = next((one for one in ARCHITECTURES if one in name), None)
    if known is not None or re.fullmatch(r"[0-9a-f]{32}", name):
        return known or name
    return re.split(r"[^a-z]", name.lstrip("0123456789_.-"))[0] or name


def nearest(graphs: Sequence[Graph], graph: Graph, n: int = 1, by: str = "size") -> NDArray[np.int64]:
    """Find the graphs most similar to one, for example to learn from these alone (the eighth place).

    Programs of one architecture with other batch sizes have equal sizes and opcodes.

    Parameters
    ----------
    graphs : sequence of graphs
        To choose from; each is read once.
    graph : graph
    n : int
        How many; all if there are fewer.
    by : {"size", "opcodes"}
        The distance. For sizes it is ``|ln((N + 1) / (N' + 1))| + |ln((E + 1) / (E' + 1))|`` for N nodes and
        E edges. For opcodes it is the sum of the absolute differences of the numbers of nodes with each
        opcode, divided by ``N + N'`` (Bray and Curtis 1957): from 0 to 1.

    Returns
    -------
    (n,) int64
        Positions in `graphs`, nearest first; ties keep their order.

    Raises
    ------
    ConfigError
        `n` below 1, an unknown distance, or no graphs.
    DataError
        A graph without opcodes, for ``by="opcodes"``.
    """
    check_nearest(n, by)
    if len(graphs) == 0:
        raise ConfigError("graphs: expected at least one to choose from, got none")
    return closest(traits(graphs, by), graph, n, by)


def check_nearest(n: int, by: str) -> None:
    """Raise ConfigError unless :func:`nearest` takes this `n` and `by`."""
    check_whole("n", n, 1)
    if by not in ("size", "opcodes"):
        raise ConfigError(f"by: expected 'size' or 'opcodes', got {by!r}")


def closest(of: NDArray[np.float64], graph: Graph, n: int, by: str) -> NDArray[np.int64]:
    """Return the result (n,) of :func:`nearest` among graphs whose :func:`traits` (G, D) are known."""
    own = traits([graph], by)[0]
    apart = np.abs(of - own).sum(1)
    if by == "opcodes":
        apart /= of.sum(1) + own.sum()
    return np.argsort(apart, kind="stable")[:n].astype(np.int64, copy=False)


def traits(graphs: Any, by: str) -> NDArray[np.float64]:
    """Return the numbers (G, D) of G graphs that are compared; each graph is read once."""
    return np.stack([_traits(graphs[i], by) for i in range(len(graphs))])


def _traits(graph: Graph, by: str) -> NDArray[np.float64]:
    if by == "size":
        return np.log1p([float(graph.num_nodes), float(graph.num_edges)])
    if graph.node_opcode is None:
        raise DataError(
            "node_opcode: expected opcodes, found none; use by='size'",
            file=str(graph.name), field="node_opcode", expected="opcodes", found="none",
        )  # fmt: skip
    return np.bincount(graph.node_opcode, minlength=_MOST_OPCODES).astype(np.float64)
