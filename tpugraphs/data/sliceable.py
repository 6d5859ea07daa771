"""The configs of one graph as samples that scikit-learn can split."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tpugraphs.data.graph import Graph
from tpugraphs.errors import not_a_graph

__all__ = ["as_samples"]


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
        return as_samples, (self._with(_kind_of(type(self))),)  # type: ignore[attr-defined]


@functools.cache
def _samples_of(kind: type[Graph]) -> type[Any]:
    return type(kind.__name__, (_Samples, kind), {"__doc__": kind.__doc__, "__module__": __name__})


def _kind_of(sliceable: type[Any]) -> type[Any]:
    return sliceable.__mro__[2]


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
    if not isinstance(graph, Graph):
        raise not_a_graph("graph", graph)
    if isinstance(graph, _Samples):
        return graph
    kind: Any = type(graph)
    return graph._with(_samples_of(kind))
