"""Further features from a user's function, if a recipe names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.extra import node_columns, with_extra
from tpugraphs.data.graph import Graph
from tpugraphs.errors import ConfigError, DataError

__all__ = ["STEP", "Columns", "Function", "of_nodes", "with_made"]

STEP = "extra-columns"  # of the preprocessing of layout and tile graphs
Function = Callable[[Any], Mapping[str, Any]]
Columns = Sequence[Mapping[str, str]]  # name and kind, as the step has them


def with_made(graph: Graph, function: Function) -> Graph:
    """Return a graph of any schema with the features that the function makes."""
    made = _made(graph, function)
    return with_extra(graph, **made)


def of_nodes(
    graph: Graph, function: Function, expected: Columns | None
) -> tuple[Columns, NDArray[np.float32]]:
    """Return the features that the function makes of a layout or tile graph: columns, and values (N, X).

    Raises DataError unless these are the `expected` columns; None: not known yet.
    """
    made = _made(graph, function)
    others = [name for name in ("config", "graph") if made.get(name)]
    if others or not made.get("node"):
        raise ConfigError(
            f"extra: expected node features of a {graph.kind} graph, got {' and '.join(others) or 'none'}; "
            "features of configs and graphs need a recipe for graphs of any schema (kind='graph')"
        )
    values, columns = node_columns(graph, made["node"], made.get("kinds"))
    found: Columns = [{"name": column.name, "kind": column.kind} for column in columns]
    if expected is not None and list(found) != list(expected):
        texts = [", ".join(f"{c['name']} ({c['kind']})" for c in columns) for columns in (expected, found)]
        raise DataError(
            f"extra: expected node features {texts[0]}, found {texts[1]}: the function must make the same "
            "columns of every graph",
            file=str(graph.path or graph.name), field="extra", expected=texts[0], found=texts[1],
        )  # fmt: skip
    return found, values


def _made(graph: Graph, function: Function) -> Mapping[str, Any]:
    made = function(graph)
    if not isinstance(made, Mapping) or not made.keys() <= {"node", "config", "graph", "kinds"}:
        found = ", ".join(map(str, made)) if isinstance(made, Mapping) else type(made).__name__
        raise ConfigError(
            "extra: expected a function that returns a dict of node, config, graph or kinds, as "
            f"tpugraphs.with_extra takes them; got {found}"
        )
    return made
