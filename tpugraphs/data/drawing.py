"""Graphs drawn in Graphviz's DOT language, and converted to NetworkX."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tpugraphs._core import SCHEMA
from tpugraphs.data.opcodes import opcode_name
from tpugraphs.data.schema import LAYOUT

if TYPE_CHECKING:
    from tpugraphs.data.graph import Graph

__all__ = ["to_dot", "to_networkx"]

_NAMES = [column.name for column in LAYOUT.node]
_TYPES = {i: name.removeprefix("element_type_") for i, name in enumerate(_NAMES) if "element_type" in name}
_SIZES, _LAYOUT = _NAMES.index("shape_dimension_0"), SCHEMA["scaled_features"]
_ROOT, _TUPLE = _NAMES.index("is_root"), _NAMES.index("tuple_shapes")

_STYLES = {"parameter": "shape=ellipse", "constant": "shape=plain"}
_PRODUCTS = ("convolution", "dot")


def describe_nodes(graph: Graph) -> list[dict[str, Any]]:
    """Describe every node: ``opcode``, ``configurable``, and for HLO ``shape``, ``layout``, ``is_root``.

    ``configurable`` is the place of the node among the configurable ones, or None.
    """
    places = {int(node): place for place, node in enumerate(graph.node_config_ids)}
    nodes, hlo = list[dict[str, Any]](), graph.schema.hlo
    for number in range(graph.num_nodes):
        node: dict[str, Any] = {"opcode": None, "configurable": places.get(number)}
        if graph.node_opcode is not None:
            opcode = int(graph.node_opcode[number])
            node["opcode"] = opcode_name(opcode) if hlo else str(opcode)
        nodes.append(node | (_hlo(graph.node_feat[number]) if hlo else {}))
    return nodes


def _hlo(row: Any) -> dict[str, Any]:
    """Return shape and layout as XLA writes them; a size of 0 looks like no dimension."""
    kind = next((name for column, name in _TYPES.items() if row[column]), "?")
    sizes = [int(size) for size in row[_SIZES : _SIZES + SCHEMA["layout_digits"]] if size]
    shape = f"tuple of {int(row[_TUPLE])}" if kind == "tuple" else f"{kind}[{','.join(map(str, sizes))}]"
    layout = ",".join(str(int(digit)) for digit in row[_LAYOUT : _LAYOUT + len(sizes)])
    return {"shape": shape, "layout": f"{{{layout}}}" if sizes else "", "is_root": bool(row[_ROOT])}


def to_dot(graph: Graph) -> str:
    """See :meth:`tpugraphs.Graph.to_dot`."""
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10];',
        '  edge [color="#666666", arrowsize=0.6];',
    ]
    nodes = describe_nodes(graph)
    lines += [f"  {number} [{_attributes(number, node)}];" for number, node in enumerate(nodes)]
    for u, v in graph.edge_index.tolist():
        lines.append(f"  {v} -> {u}{' [style=dashed]' if nodes[v].get('is_root') else ''};")
    return "\n".join([*lines, "}", ""])


def _attributes(number: int, node: Mapping[str, Any]) -> str:
    opcode = node["opcode"]
    parts = [f"{number}" if opcode is None else f"{number} {opcode}"]
    if "shape" in node:
        parts.append(node["shape"] + node["layout"])
    attributes = []
    if node["configurable"] is not None:
        parts.append(f"configurable {node['configurable']}")
        attributes += ['fillcolor="#ffd27f"', "penwidth=2"]
    elif opcode in _PRODUCTS:
        attributes.append('fillcolor="#dbe9f6"')
    if opcode in _STYLES:
        attributes.append(_STYLES[opcode])
    if node.get("is_root"):
        attributes.append("peripheries=2")
    return ", ".join([f"label={_quoted(chr(10).join(parts))}", *attributes])


def _quoted(text: str) -> str:
    """Return a DOT string; DOT's escapes are among those of JSON."""
    return json.dumps(text, ensure_ascii=False)


def to_networkx(graph: Graph) -> Any:
    """See :meth:`tpugraphs.Graph.to_networkx`."""
    try:
        networkx = importlib.import_module("networkx")
    except ImportError:
        raise ImportError(
            "to_networkx needs networkx, which is not installed: pip install networkx"
        ) from None
    result = networkx.DiGraph(name=graph.name)
    result.add_nodes_from(enumerate(describe_nodes(graph)))
    result.add_edges_from((v, u) for u, v in graph.edge_index.tolist())
    return result
