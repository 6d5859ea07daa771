"""Parts of the data: splits of the configs of a graph, families of programs, the graphs nearest to one."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import kernels
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError, DataError, check_graph
from tpugraphs.kernels.streams import Stream
from tpugraphs.system import check_choice, check_whole, counted


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
    check_graph("graph", graph)
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


class _Samples:
    """Methods that make a graph a sequence of its configs."""

    num_configs: int

    @property
    def shape(self) -> tuple[int]:
        """(C,): how scikit-learn counts samples."""
        return (self.num_configs,)

    def __len__(self) -> int:
        return self.num_configs

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, tuple):  # scikit-learn asks for X[rows, ...]
            rows = rows[0]
        return self.select([rows] if np.ndim(rows) == 0 and not isinstance(rows, slice) else rows)  # type: ignore[attr-defined]

    def __iter__(self) -> Any:
        return (self[row] for row in range(len(self)))

    def __reduce__(self) -> Any:  # pickle cannot import the class below by name
        kind = type(self).__mro__[2]
        return as_samples, (self._with(kind),)  # type: ignore[attr-defined]


@functools.cache
def _samples_of(kind: type[Graph]) -> type[Any]:
    return type(kind.__name__, (_Samples, kind), {"__doc__": kind.__doc__, "__module__": __name__})


def as_samples(graph: Graph) -> Graph:
    """Return the graph as a sequence of its configs, which scikit-learn can split.

    In a list of graphs the samples are graphs: its folds show how well new programs are ranked. Here the
    samples are the configs of one graph: ``cross_val_score(ranker, as_samples(graph), cv=5)`` trains on four
    fifths of the configs and ranks the others. Equal configs may get into different folds;
    ``groups=graph.distinct_configs()[1]`` keeps them together.

    Parameters
    ----------
    graph : Graph
        Of any kind.

    Returns
    -------
    Graph
        The same graph, of a subclass with length C and `shape` (C,). Indexing it with row numbers or a mask
        is ``graph.select``, and returns such a graph.

    Raises
    ------
    ConfigError
        Not a graph.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> configs = tg.data.as_samples(tg.open_collection("options:xla:cpu").train[0])
    >>> len(configs), configs[:3].num_configs
    (112, 3)
    """
    check_graph("graph", graph)
    if isinstance(graph, _Samples):
        return graph
    kind: Any = type(graph)
    return graph._with(_samples_of(kind))


# --- similar programs ---------------------------------------------------------------------------------------


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
    check_graph("family", graph)
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
    check_choice("by", by, ("size", "opcodes"))


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
        raise DataError.of("node_opcode", "opcodes", "none", "use by='size'", file=str(graph.name))
    return np.bincount(graph.node_opcode, minlength=_MOST_OPCODES).astype(np.float64)
