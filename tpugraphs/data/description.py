"""Descriptions of graphs: text, HTML, JSON, pictures in Graphviz's DOT language, graphs of NetworkX."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tpugraphs._core import SCHEMA
from tpugraphs.data import corrupt
from tpugraphs.data.schema import GROUPS, LAYOUT, UNITS, opcode_name
from tpugraphs.system import counted, markup

if TYPE_CHECKING:
    from tpugraphs.data.graph import Graph

MOSTLY_DUPLICATES = 0.5  # share of distinct configs below which a description warns


def counts(graph: Graph) -> dict[str, Any]:
    """Return name, kind and sizes, without reading the configs."""
    origin = {"name": graph.name, "kind": graph.kind, "collection": graph.collection, "file": graph.path}
    sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "configs": graph.num_configs}
    result: dict[str, Any] = origin | sizes
    if graph.schema.digits:
        result["config_nodes"] = graph.num_config_nodes
    return result


def describe(graph: Graph) -> dict[str, Any]:
    """See :meth:`tpugraphs.LayoutGraph.describe`."""
    graph.validate()
    result = counts(graph)
    arrays = {field: value for field, value in graph.fields().items() if hasattr(value, "dtype")}
    result["dtypes"] = {field: str(array.dtype) for field, array in arrays.items()}
    result["has_runtimes"] = graph.has_runtimes
    schema, summary = graph.schema, _summary(graph)
    scale = None if schema.maximized or summary is None else UNITS.get(schema.unit or "")
    times = (summary or {}).items()  # whole numbers of nanoseconds stay whole
    result["runtime_ns"] = scale and {key: value if scale == 1 else value * scale for key, value in times}
    result["runtime"] = summary
    result["failed_configs"] = graph.num_configs - len(graph.ran)
    if not schema.published:
        result["schema"] = schema.to_dict()
    distinct = len(graph.distinct_configs()[0])
    result["distinct_configs"] = distinct
    result["distinct_share"] = distinct / graph.num_configs if graph.num_configs else None
    opcodes = graph.node_opcode if schema.hlo and graph.node_opcode is not None else np.zeros(0, np.uint8)
    names = list(map(opcode_name, opcodes.tolist()))
    result["opcodes"] = _most(names)
    if schema.hlo and schema.digits:
        result["configurable_opcodes"] = _most(names[node] for node in graph.node_config_ids)
    ends = {"out": graph.edge_index[:, 0], "in": graph.edge_index[:, 1]}
    degrees = {key: np.bincount(nodes, minlength=graph.num_nodes) for key, nodes in ends.items()}
    result["degree"] = {key: {"mean": float(d.mean()), "max": int(d.max())} for key, d in degrees.items()}
    result["isolated_nodes"] = int(((degrees["out"] + degrees["in"]) == 0).sum())
    why = corrupt.reason(graph.name, graph.collection)
    result["warnings"] = [text for _, text in judge(graph, distinct, MOSTLY_DUPLICATES)]
    result["warnings"] += [f"measurements of this graph are known to be corrupt: {why}"] if why else []
    if unknown := names.count("unknown"):
        result["warnings"].append(f"{counted(unknown, 'node')} with an opcode that is not known")
    return result


def judge(graph: Graph, distinct: int, share: float) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) reasons why a graph teaches little, such as fewer distinct configs than `share`."""
    configs, runtimes = graph.num_configs, graph.runtime[graph.ran]
    unit = f" {graph.schema.unit}" if graph.schema.unit else ""
    if configs == 0:
        yield "no-configs", "no configs: nothing to learn from or to rank"
    elif distinct == 1:
        yield "single-config", "one config only: nothing to compare"
    elif distinct < share * configs:
        yield "duplicates", f"only {distinct:,} of {configs:,} configs are different: consider tg.dedup"
    if configs and len(runtimes) == 0:
        yield "all-failed", "all configs failed: nothing to learn from"
    elif configs and not graph.has_runtimes:
        yield "placeholder", "runtimes are placeholders: the graph can be ranked, not trained on or scored"
    elif configs:
        if len(runtimes) < configs:
            yield "failed-configs", f"{counted(configs - len(runtimes), 'config')} failed, and left out"
        if len(runtimes) > 1 and runtimes.min() == runtimes.max():
            value = graph.measured[graph.ran][0]
            yield "constant", f"all runtimes are equal ({value:,}{unit}): no order can be learnt"
        if runtimes.min() == 0:
            yield "zero-runtimes", f"{counted(int((runtimes == 0).sum()), 'runtime')} of 0{unit}"


def html_table(graph: Graph) -> str:
    """Return a small table for notebooks; every text is escaped."""
    rows = counts(graph)
    if (summary := _summary(graph)) is not None:
        label, times = _in_words(summary, graph.schema.unit, graph.schema.maximized)
        rows[label] = times
    shown = {key: f"{value:,}" if isinstance(value, int) else value for key, value in rows.items()}
    facts = {key.replace("_", " "): value for key, value in shown.items()}
    return markup.card(type(graph).__name__, "", "", facts)


def _summary(graph: Graph) -> dict[str, float] | None:
    """Summarise the measurements, in the unit of the graph; None if there are none."""
    if not graph.has_runtimes:
        return None
    value = graph.measured[graph.ran]
    return {"min": value.min().item(), "median": float(np.median(value)), "max": value.max().item()}


def _in_words(summary: Mapping[str, float], unit: str | None, maximized: bool) -> tuple[str, str]:
    """Return the label and text of a summary: times in milliseconds where the unit is known."""
    scale, shown = 1.0, ", no unit"
    if maximized:
        shown = f" {unit or ''}".rstrip() + ", more is better"
    elif unit:
        scale, shown = UNITS[unit] / UNITS["ms"], " ms"
    times = " / ".join(f"{summary[key] * scale:.4g}" for key in ("min", "median", "max"))
    return "value" if maximized else "runtime", f"{times}{shown} (min / median / max)"


def _most(names: Iterable[str], most: int = 10) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))[:most])


def format_description(description: Mapping[str, Any]) -> str:
    """Format what :meth:`Graph.describe` returns as lines of text."""
    d = description
    size = f"{counted(d['nodes'], 'node')}, {counted(d['edges'], 'edge')}, {counted(d['configs'], 'config')}"
    if "config_nodes" in d:
        size += f", {counted(d['config_nodes'], 'configurable node')}"
    schema = d.get("schema", {"unit": "ns"})  # not in published files
    label, runtime = "runtime", None
    if d["runtime"]:
        label, runtime = _in_words(d["runtime"], schema["unit"], schema.get("direction") == "maximize")
    failed, share = d["failed_configs"], 100 * (d["distinct_share"] or 0)
    inward, outward = d["degree"]["in"], d["degree"]["out"]
    rows = [
        ("name", d["name"]),
        ("kind", d["kind"]),
        ("collection", d["collection"] or "not known"),
        ("file", d["file"]),
        ("size", size),
        (label, runtime),
        ("failed configs", f"{failed:,}" if failed else None),
        *_columns(schema),
        ("distinct configs", f"{d['distinct_configs']:,} ({share:.1f} %)" if share else None),
        ("opcodes", _counted(d["opcodes"])),
        ("configurable", _counted(d.get("configurable_opcodes", {}))),
        ("degree", f"mean {inward['mean']:.2f}, most {inward['max']} in, {outward['max']} out"),
        ("dtypes", ", ".join(f"{field} {dtype}" for field, dtype in d["dtypes"].items())),
        *(("warning", text) for text in d["warnings"]),
    ]
    return "\n".join(f"{key:<17} {value}" for key, value in rows if value or key == "name")


def _counted(opcodes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in opcodes.items())


def _columns(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield lines with the columns of a schema and their kinds."""
    for group, columns in schema.items():
        if group not in (*GROUPS, "digits") or not columns:
            continue
        named = [f"{c['name']} ({c.get('kind') or str(c['values']) + ' values'})" for c in columns]
        more = [f"and {len(named) - 12} more"] if len(named) > 12 else []
        yield group if group == "digits" else f"{group} columns", ", ".join(named[:12] + more)


# --- drawings -----------------------------------------------------------------------------------------------


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
