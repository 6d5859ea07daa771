"""Digests of graphs, to compare those of several processes or runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph
from tpugraphs.data.packfile import contents_of
from tpugraphs.errors import DataError

_BLOCK = 16 << 20  # digits that are hashed at a time
_HASHED = (
    "node_feat", "node_opcode", "edge_index", "graph_feat", "node_config_ids", "config_feat",
    "config_runtime", "config_runtime_normalizers", "valid",
)  # fmt: skip


def digest(parts: Iterable[str | NDArray[Any]], size: int = 16) -> str:
    """Return the BLAKE2b digest, of `size` bytes, of texts and arrays one after the other."""
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        if isinstance(part, str):
            state.update(part.encode("utf-8", "surrogatepass"))
        else:
            state.update(np.ascontiguousarray(part).data)
    return state.hexdigest()


def known_as(graph: Graph) -> str:
    """Return a digest that identifies a measured graph: of its name, size and runtimes."""
    identity = f"{graph.collection} {graph.name} {graph.num_nodes} {graph.num_edges}"
    return digest([identity, graph.runtime])


def fingerprint(graph: Graph, digits: bool) -> str:
    """Return a digest of what a graph holds; with `digits` also of all layout configs, which it reads."""
    return digest(_content(graph, digits))


def _content(graph: Graph, digits: bool) -> Iterator[str | NDArray[Any]]:
    if "schema" in graph._UNSAVED:  # its own, not that of its class
        yield graph.schema.to_json()
    for name in _HASHED:
        array = getattr(graph, name) if name in (*graph._SAVED, "config_runtime") else None
        if array is not None:
            yield f"{name}{array.shape}{array.dtype.str}"
            yield array
    if digits and graph._digits.shape[2]:
        count, nodes, width = graph._digits.shape
        step = max(1, _BLOCK // max(1, nodes * width))
        yield from (graph._digits.take(slice(i, i + step)) for i in range(0, count, step))


def identities(graphs: Any) -> list[str]:
    """Return the name and a digest of the contents of each graph, for ranks to compare.

    Of files only the checksums in them are read. For a sequence that is not in memory and has no `paths`,
    return names alone.
    """
    if isinstance(graphs, Graph) or not hasattr(graphs, "__len__"):
        graphs = [graphs]
    if isinstance(graphs, (list, tuple)):
        return [_identity(graph) for graph in graphs]
    names, paths = getattr(graphs, "names", range(len(graphs))), getattr(graphs, "paths", None)
    if paths is None:
        return [str(name) for name in names]
    sums = {path: checksum(path) for path in dict.fromkeys(paths) if path}
    found = enumerate(zip(names, paths, strict=False))
    return [f"{name} {sums[path]}" if path else _identity(graphs[i]) for i, (name, path) in found]


def _identity(graph: object) -> str:
    if not isinstance(graph, Graph):
        return str(graph)
    in_file = graph._digits.in_file or graph._digits.mapped
    return f"{graph.name} {fingerprint(graph, not in_file)} {checksum(graph.path) if in_file else ''}"


def checksum(path: str | None) -> str:
    """Return a checksum of what a file holds, or why there is none."""
    try:
        return "" if path is None else f"{contents_of(path):08x}"
    except (DataError, OSError) as error:
        return type(error).__name__


def facts(given: Mapping[str, Any]) -> Callable[[], dict[str, list[str]]]:
    """Return a function that computes the `identities` of named sequences of graphs."""
    return lambda: {name: identities(graphs) for name, graphs in given.items()}
