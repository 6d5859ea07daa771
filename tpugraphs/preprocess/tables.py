"""Tables of numbers about layouts, one row per config, for learners that know no graphs."""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core, kernels
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError

__all__ = ["layout_table", "layout_table_names"]

_DIGITS = _core.SCHEMA["layout_digits"]  # of one tensor
_SHAPE = slice(21, 27)
_SPECIFICS = slice(93, 107)  # which dimension is what in a convolution
_KINDS = ("convolution", "dot", "reshape")  # the opcodes that can be configured
_OPCODES = [_core.OPCODES.split().index(kind) + 1 for kind in _KINDS]
_SIZES = 14  # bins of sizes: 0, 1, 2..3, 4..7, ...; the last has everything from 4096 on
_LANES, _SUBLANES = 128, 8  # what the two minor dimensions are padded to
_ROWS = 512  # configs that are worked on at a time
_rates: weakref.WeakKeyDictionary[Graph, NDArray[np.float32]] = weakref.WeakKeyDictionary()


def layout_table_names(bins: int = 32, occurrence: bool = False) -> list[str]:
    """Return the names of the columns of `layout_table`.

    Parameters
    ----------
    bins, occurrence
        As there.

    Returns
    -------
    list of str
        F names.
    """
    _check_bins(bins)
    names = [f"{kind} {b}" for kind in _KINDS for b in range(bins)]
    names += ["copies of neighbours", "size of them", "copies along paths", "size of them along paths"]
    names += [f"{which} dimension {b}" for which in ("minor", "second minor") for b in range(_SIZES)]
    names += ["padding", "padded share"]
    return names + ["mean log rate", "mean rate", "least rate"] * occurrence


def layout_table(
    graph: Graph, rows: NDArray[np.int64], bins: int = 32, occurrence: bool = False
) -> NDArray[np.float32]:
    """Return numbers about the layouts of some configs (n, F) that mean the same in every graph.

    The features of the eleventh place of the Kaggle competition, as far as its write-up tells them. What it
    leaves open is decided here:

    - How often each type of configurable node occurs, `bins` columns for each opcode. A type is the shape of
      a node with its config (of a convolution also the numbers of its dimensions), by a hash modulo `bins`.
      The published features do not tell the dimensions of a dot.
    - Implied copies: pairs of configurable nodes (u, v), u consuming the output of v, where the layout of
      v's output is given and is neither that of u's input nor of u's kernel, one of which is given. Their
      number, and ln(1 + x) of the elements of all these outputs; of neighbours, and of nodes joined by a path
      past other nodes (the pruning method ``"meta"``).
    - How many configurable nodes have a minor and a second minor dimension of a size, in powers of two.
    - Padding of the outputs, if the minor dimension is padded to 128 and the next to 8: ln(1 + x) of the
      elements that are added, and their share of all.
    - With `occurrence`: the share of the graph's configs in which a node has its layouts, over the
      configurable nodes. Where a search made the configs, what it often tried is fast.

    A layout that a config leaves to the compiler counts as that in the node features.

    Parameters
    ----------
    graph : Graph
        With the node features and digits of the published layouts.
    rows : (n,) int64
        Which configs.
    bins : int
    occurrence : bool

    Returns
    -------
    (n, F) float32
        `layout_table_names` names its columns.

    Raises
    ------
    ConfigError
        A graph of another kind, or ``bins < 1``.
    """
    nodes = graph.node_config_ids
    features = _core.SCHEMA["node_features"]
    if nodes is None or graph.node_feat.shape[1] != features or graph.config_feat is not None:
        raise ConfigError(f"layout_table: expected a layout graph of {features} features, got {graph.name!r}")
    _check_bins(bins)
    told = _Nodes(graph, nodes, bins)
    parts = [told.rows(graph.digits_of(rows[i : i + _ROWS])) for i in range(0, len(rows), _ROWS)]
    table = np.concatenate(parts) if parts else told.rows(graph.digits_of(rows))
    return np.hstack([table, _occurrence(graph)[rows]]) if occurrence else table


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise ConfigError(f"layout_table: expected bins >= 1, got {bins}")


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits of numbers (Steele, Lea and Flood, 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _hash(x: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash the last axis, the same on every machine."""
    value = np.zeros(x.shape[:-1], np.uint64)
    for i in range(x.shape[-1]):
        value = _mix(value + np.uint64(0x9E3779B97F4A7C15) + x[..., i].astype(np.uint64))
    return value


class _Nodes:
    """What is the same for all configs of a graph."""

    def __init__(self, graph: Graph, nodes: NDArray[np.int64], bins: int) -> None:
        feat = np.asarray(graph.node_feat)[nodes]
        opcodes = np.zeros(len(nodes), np.int64) if graph.node_opcode is None else graph.node_opcode[nodes]
        self.bins, self.kind = bins, [np.flatnonzero(opcodes == opcode) for opcode in _OPCODES]
        self.shape = feat[:, _SHAPE].astype(np.float64)
        convolution = (opcodes == _OPCODES[0])[:, None]
        self.static = _hash(np.hstack([feat[:, _SHAPE], feat[:, _SPECIFICS] * convolution]).astype(np.int64))
        self.own = kernels.layout_digits(np.ascontiguousarray(feat))
        self.elements = np.where(self.shape > 0, self.shape, 1).prod(1)
        number = np.full(graph.num_nodes, -1)
        number[nodes] = np.arange(len(nodes))
        direct = number[graph.edge_index]
        direct = np.unique(direct[(direct >= 0).all(1) & (direct[:, 0] != direct[:, 1])], axis=0)
        _, paths, _ = kernels.prune(graph.edge_index, graph.num_nodes, nodes, "meta")
        self.pairs = (direct, paths)

    def rows(self, digits: NDArray[np.int8]) -> NDArray[np.float32]:
        """Return the table (n, F) of configs (n, K, D), without their occurrence."""
        parts = [*self._types(digits), *self._copies(digits), *self._sizes(digits)]
        return np.hstack(parts).astype(np.float32)

    def _types(self, digits: NDArray[np.int8]) -> list[NDArray[np.float64]]:
        types = _mix(self.static + _hash(digits.astype(np.int64))) % np.uint64(self.bins)
        return [_counts(types[:, nodes].astype(np.int64), self.bins) for nodes in self.kind]

    def _copies(self, digits: NDArray[np.int8]) -> list[NDArray[np.float64]]:
        n, K = digits.shape[:2]
        tensors = digits.reshape(n, K, 3, _DIGITS)
        codes = (tensors.astype(np.int64) + 1) @ (_core.SCHEMA["digit_states"] ** np.arange(_DIGITS))
        result = []
        for pairs in self.pairs:
            made, read = codes[:, pairs[:, 1], 0], codes[:, pairs[:, 0], 1:]
            copies = (made > 0) & (read > 0).any(2) & (made[..., None] != read).all(2)
            size = np.log1p(copies @ self.elements[pairs[:, 1]])
            result += [copies.sum(1, keepdims=True, dtype=np.float64), size[:, None]]
        return result

    def _sizes(self, digits: NDArray[np.int8]) -> list[NDArray[np.float64]]:
        output = digits[:, :, :_DIGITS]
        output = np.where((output >= 0).any(2, keepdims=True), output, self.own)
        minor, second = (self._size(output[:, :, i]) for i in range(2))
        padded = self.elements * _up(minor, _LANES) * _up(second, _SUBLANES)
        added, all_elements = (padded - self.elements).sum(1), padded.sum(1)
        bins = [_counts(_bin(size), _SIZES) for size in (minor, second)]
        share = added / np.maximum(all_elements, 1)
        return [*bins, np.log1p(added)[:, None], share[:, None]]

    def _size(self, dimension: NDArray[np.int8]) -> NDArray[np.float64]:
        """Sizes of these dimensions (n, K); 0 where there is none."""
        size = np.take_along_axis(self.shape, np.maximum(dimension, 0).T.astype(np.int64), 1).T
        return np.where(dimension >= 0, size, 0.0)


def _up(size: NDArray[np.float64], multiple: int) -> NDArray[np.float64]:
    """Factor by which a size grows when it is rounded up to a multiple; 1 for sizes that there are not."""
    return np.where(size > 0, np.ceil(size / multiple) * multiple / np.maximum(size, 1), 1.0)


def _bin(size: NDArray[np.float64]) -> NDArray[np.int64]:
    """0 of 0, 1 of 1, 2 of 2..3, 3 of 4..7, ..."""
    return np.minimum(np.frexp(size)[1], _SIZES - 1).astype(np.int64)


def _counts(values: NDArray[np.int64], bins: int) -> NDArray[np.float64]:
    """How often each of 0..bins-1 occurs in each row of values (n, K): (n, bins)."""
    n = len(values)
    flat = (values + bins * np.arange(n)[:, None]).ravel()
    return np.bincount(flat, minlength=n * bins).reshape(n, bins).astype(np.float64)


def _occurrence(graph: Graph) -> NDArray[np.float32]:
    """Return mean ln, mean and least rate (C, 3) of the layouts of the nodes; kept as long as the graph."""
    if graph not in _rates:
        C = graph.num_configs
        codes = np.zeros((C, graph.num_config_nodes), np.uint32)
        for i in range(0, C, _ROWS):
            part = slice(i, i + _ROWS)
            codes[part] = _hash(graph.digits_of(part).astype(np.int64)).astype(np.uint32)
        logs, total, least = np.zeros(C), np.zeros(C), np.ones(C)
        for column in codes.T:
            _, inverse, count = np.unique(column, return_inverse=True, return_counts=True)
            rate = count[inverse] / C
            logs, total, least = logs + np.log(rate), total + rate, np.minimum(least, rate)
        nodes = max(1, codes.shape[1])
        _rates[graph] = np.stack([logs / nodes, total / nodes, least], 1).astype(np.float32)
    return _rates[graph]
