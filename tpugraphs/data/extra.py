"""Further features of a graph, by name: :func:`with_extra`, and those that a user's function makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import GROUPS, Column
from tpugraphs.errors import ConfigError, DataError, check_graph

Columns = Mapping[str, Any]
Function = Callable[[Any], Columns]  # of a user: arguments of `with_extra` for a graph
Made = Sequence[Mapping[str, str]]  # name and kind of columns, as the step `STEP` has them
STEP = "extra-columns"  # of the preprocessing of layout and tile graphs


def with_extra(
    base: Graph,
    /,
    *,
    node: Columns | None = None,
    config: Columns | None = None,
    graph: Columns | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Graph:
    """Return a graph with further features behind those it has, for recipes of any schema.

    The schema lists the new columns by name. Files and packs keep them. A ranker standardises them like all
    others, and refuses graphs without them.

    Parameters
    ----------
    base : Graph
        A layout or tile graph becomes one of any schema. Opcodes beyond the published ones become 0, and
        runtimes of tile graphs are divided by their normalizers.
    node : dict of str to (N,) array, optional
        A number per node.
    config : dict of str to (C,) array, optional
        A number per config.
    graph : dict of str to number, optional
        A number for the whole graph.
    kinds : dict of str to str, optional
        Kinds of columns, ``"number"``, ``"log"`` or ``"flag"``. By default arrays of bool are flags, all
        others numbers; see :class:`tpugraphs.data.Column`.

    Returns
    -------
    Graph

    Raises
    ------
    DataError
        An array of another shape, numbers that are not finite or not of their kind.
    ConfigError
        A name that the graph has already, or an unknown kind.

    Examples
    --------
    >>> import numpy as np
    >>> import tpugraphs as tg
    >>> table = tg.Graph(config_feat=[[1.0], [2.0], [4.0]], runtime=[3.0, 2.0, 5.0])
    >>> more = tg.with_extra(table, config={"fits": np.array([True, True, False])})
    >>> [column.name for column in more.schema.config]
    ['config_0', 'fits']
    """
    check_graph("with_extra", base)
    tables = {"node": node, "config": config, "graph": graph}
    given: dict[str, Columns] = {group: {} if table is None else table for group, table in tables.items()}
    kinds = _checked(given, kinds)
    rows = {"node": base.num_nodes, "config": base.num_configs, "graph": None}
    fields, groups = any_fields(base), dict[str, Any]()
    for group in GROUPS:
        found, added = _columns(group, given[group], rows[group], kinds)
        groups[group] = (*getattr(base.schema, group), *added)
        old = fields[f"{group}_feat"]
        if added:
            fields[f"{group}_feat"] = found if old is None else np.concatenate([old, found], -1)
    unit = None if base.config_runtime_normalizers is not None else base.schema.unit
    schema = replace(base.schema, **groups, unit=unit, inferred=False)  # else it would be inferred again
    return Graph(**fields, schema=schema)


def of_nodes(graph: Graph, function: Function, expected: Made | None) -> tuple[Made, NDArray[np.float32]]:
    """Return the features that a user's function makes of a layout or tile graph: columns, and values (N, X).

    Raises DataError unless these are the `expected` columns; None: not known yet.
    """
    made = made_by(function, graph)
    others = [name for name in ("config", "graph") if made.get(name)]
    if others or not made.get("node"):
        todo = "features of configs and graphs need a recipe for graphs of any schema (kind='graph')"
        got = " and ".join(others) or "none"
        raise ConfigError(f"extra: expected node features of a {graph.kind} graph, got {got}; {todo}")
    node = made["node"]
    values, columns = _columns("node", node, graph.num_nodes, _checked({"node": node}, made.get("kinds")))
    found: Made = [{"name": column.name, "kind": column.kind} for column in columns]
    if expected is not None and list(found) != list(expected):
        texts = [", ".join(f"{c['name']} ({c['kind']})" for c in columns) for columns in (expected, found)]
        todo, file = "the function must make the same columns of every graph", graph.path or graph.name
        raise DataError.of("extra", f"node features {texts[0]}", texts[1], todo, file=file)
    return found, values


def made_by(function: Function, graph: Graph) -> Mapping[str, Any]:
    """Return the features that a user's function makes of a graph, as arguments of `with_extra`."""
    made = function(graph)
    if not isinstance(made, Mapping) or not made.keys() <= {"node", "config", "graph", "kinds"}:
        found = ", ".join(map(str, made)) if isinstance(made, Mapping) else type(made).__name__
        columns = "a dict of node, config, graph or kinds, as tpugraphs.with_extra takes them"
        raise ConfigError(f"extra: expected a function that returns {columns}; got {found}")
    return made


def _checked(given: Mapping[str, Columns], kinds: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the kinds of columns by name; ConfigError unless each belongs to a given column."""
    for group, columns in given.items():
        if not isinstance(columns, Mapping):
            raise ConfigError(f"{group}: expected names and columns, got {type(columns).__name__}")
    unknown = sorted(set(kinds or ()) - {name for columns in given.values() for name in columns})
    if unknown:
        raise ConfigError(f"kinds: {unknown[0]!r} is none of the columns that are given")
    return kinds or {}


def _columns(
    group: str, given: Columns, rows: int | None, kinds: Mapping[str, str]
) -> tuple[NDArray[np.float32], list[Column]]:
    """Return new values as an array (rows, n), or (n,) for the whole graph, and their columns."""
    found, columns = [], []
    shape: tuple[int, ...] = () if rows is None else (rows,)
    for name, values in given.items():
        field = f"{group} column {name!r}"
        flags = getattr(values, "dtype", np.asarray(values).dtype) == np.bool_
        columns.append(Column(name, kinds.get(name, "flag" if flags else "number")))
        found.append(_core.as_floats(field, values, "n"[: len(shape)], shape))
    return np.stack(found, -1) if found else np.zeros((*shape, 0), np.float32), columns


def any_fields(base: Graph) -> dict[str, Any]:
    """Return the arguments, except the schema, that turn this graph into one of any schema.

    Opcodes beyond those of its schema become 0; runtimes of tile graphs are divided by their normalizers.
    """
    names = (*Graph._SAVED, "name", "collection", "path")
    fields: dict[str, Any] = {name: getattr(base, name, None) for name in names} | {"about": dict(base.about)}
    if base._digits.shape[2] == 0:
        fields["node_config_ids"] = fields["node_config_feat"] = None
    if base.config_runtime_normalizers is not None:
        fields["runtime"] = base.relative_runtime
    if base.schema.opcodes is not None and base.node_opcode is not None:
        fields["node_opcode"] = np.where(base.node_opcode < base.schema.opcodes, base.node_opcode, 0)
    return fields
