"""What is in a graph, for people and as JSON."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpugraphs.data import corrupt
from tpugraphs.data.opcodes import opcode_name
from tpugraphs.data.schema import UNITS

if TYPE_CHECKING:
    from tpugraphs.data.published import Graph

__all__ = ["counts", "describe", "format_description", "html_table"]


def counts(graph: Graph) -> dict[str, Any]:
    """Name, kind and sizes, without reading the configs."""
    result: dict[str, Any] = {
        "name": graph.name,
        "kind": graph.kind,
        "collection": graph.collection,
        "file": graph.path,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "configs": graph.num_configs,
    }
    if graph.schema.digits:
        result["config_nodes"] = graph.num_config_nodes
    return result


def describe(graph: Graph) -> dict[str, Any]:
    """See :meth:`tpugraphs.LayoutGraph.describe`."""
    graph.validate()
    result = counts(graph)
    result["dtypes"] = {
        field: str(value.dtype) for field, value in graph.fields().items() if hasattr(value, "dtype")
    }
    result["has_runtimes"] = graph.has_runtimes
    result["runtime_ns"] = _nanoseconds(graph)
    if graph.kind == "graph":
        result["runtime"] = _runtime_summary(graph.runtime[graph.ran]) if graph.has_runtimes else None
        result["failed_configs"] = graph.num_configs - len(graph.ran)
        result["schema"] = graph.schema.to_dict()
    distinct = len(graph.distinct_configs()[0])
    result["distinct_configs"] = distinct
    result["distinct_share"] = distinct / graph.num_configs if graph.num_configs else None
    result["opcodes"] = _top_opcodes(graph.node_opcode) if graph.kind != "graph" else {}
    if graph.kind == "layout":
        result["configurable_opcodes"] = _top_opcodes(graph.node_opcode[graph.node_config_ids])
    ends = {"out": graph.edge_index[:, 0], "in": graph.edge_index[:, 1]}
    degrees = {key: np.bincount(nodes, minlength=graph.num_nodes) for key, nodes in ends.items()}
    result["degree"] = {key: {"mean": float(d.mean()), "max": int(d.max())} for key, d in degrees.items()}
    result["isolated_nodes"] = int(((degrees["out"] + degrees["in"]) == 0).sum())
    result["warnings"] = _warnings(graph, distinct)
    return result


def _warnings(graph: Graph, distinct: int) -> list[str]:
    found = []
    if graph.num_configs == 0:
        found.append("no configs: nothing to learn from or to rank")
    elif len(graph.ran) == 0:
        found.append("all configs failed: nothing to learn from")
    elif not graph.has_runtimes:
        found.append("runtimes are placeholders: the graph can be ranked, not trained on or scored")
    else:
        runtimes = graph.runtime[graph.ran]
        if runtimes.min() == runtimes.max():
            found.append("all runtimes are equal: no order can be learnt")
        if runtimes.min() == 0:
            found.append("some runtimes are 0 ns")
        if len(runtimes) < graph.num_configs:
            found.append(f"{graph.num_configs - len(runtimes)} configs failed: they are left out")
    if graph.num_configs > 1 and distinct == 1:
        found.append("all configs are the same")
    elif graph.num_configs and distinct < 0.5 * graph.num_configs:
        found.append(f"only {distinct} of {graph.num_configs} configs are different: consider tg.dedup")
    why = corrupt.reason(graph.name, graph.collection)
    if why:
        found.append(f"measurements of this graph are known to be corrupt: {why}")
    if graph.kind == "graph":
        return found
    known = np.array([opcode_name(number) != "unknown" for number in range(256)])
    unknown = int((~known[graph.node_opcode]).sum())
    if unknown:
        found.append(f"{unknown} nodes have an opcode that is not known")
    return found


def html_table(graph: Graph) -> str:
    """Small table for notebooks; every text is escaped."""
    rows = counts(graph)
    if graph.has_runtimes:
        rows["runtime"] = _times(graph.runtime[graph.ran], graph.schema.unit)
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(key.replace('_', ' '))}</th>"
        "<td style='text-align:left'>"
        f"{html.escape(f'{value:,}' if isinstance(value, int) else str(value))}</td></tr>"
        for key, value in rows.items()
        if value is not None
    )
    return f"<table><caption>{type(graph).__name__}</caption>{cells}</table>"


def _runtime_summary(runtime: npt.NDArray[Any]) -> dict[str, float]:
    low, middle, high = runtime.min().item(), float(np.median(runtime)), runtime.max().item()
    return {"min": low, "median": middle, "max": high}


def _nanoseconds(graph: Graph) -> dict[str, float] | None:
    """Summarise the runtimes in ns; None if there are none or their unit is unknown."""
    if not graph.has_runtimes or graph.schema.unit is None:
        return None
    summary = _runtime_summary(graph.runtime[graph.ran])
    scale = UNITS[graph.schema.unit]
    return summary if scale == 1 else {key: value * scale for key, value in summary.items()}


def _times(runtime: npt.NDArray[Any], unit: str | None) -> str:
    """Summarise runtimes in words, in ms if the unit is known."""
    scale, shown = (UNITS[unit] / UNITS["ms"], " ms") if unit else (1.0, "")
    summary = _runtime_summary(runtime)
    times = " / ".join(f"{summary[key] * scale:.4g}" for key in ("min", "median", "max"))
    return f"{times}{shown} (min / median / max)"


def _top_opcodes(opcode: npt.NDArray[np.uint8], most: int = 10) -> dict[str, int]:
    counts: dict[str, int] = {}
    for number, count in enumerate(np.bincount(opcode)):
        if count:
            counts[opcode_name(number)] = counts.get(opcode_name(number), 0) + int(count)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


def format_description(description: Mapping[str, Any]) -> str:
    """Format what :meth:`Graph.describe` returns as lines of text."""
    d = description
    rows = [("name", d["name"]), ("kind", d["kind"]), ("collection", d["collection"] or "not known")]
    if d["file"]:
        rows.append(("file", d["file"]))
    counts = f"{d['nodes']:,} nodes, {d['edges']:,} edges, {d['configs']:,} configs"
    if "config_nodes" in d:
        counts += f", {d['config_nodes']:,} configurable nodes"
    rows.append(("size", counts))
    if d["runtime_ns"]:
        times = " / ".join(f"{d['runtime_ns'][key] / 1e6:.4g}" for key in ("min", "median", "max"))
        rows.append(("runtime", f"{times} ms (min / median / max)"))
    elif d.get("runtime"):
        times = " / ".join(f"{d['runtime'][key]:.4g}" for key in ("min", "median", "max"))
        rows.append(("runtime", f"{times}, unit not said (min / median / max)"))
    if d.get("failed_configs"):
        rows.append(("failed configs", f"{d['failed_configs']:,}"))
    if "schema" in d:
        rows += _columns(d["schema"])
    if d["distinct_share"] is not None:
        rows.append(("distinct configs", f"{d['distinct_configs']:,} ({100 * d['distinct_share']:.1f} %)"))
    if d["opcodes"]:
        named = ", ".join(f"{name} {count:,}" for name, count in d["opcodes"].items())
        rows.append(("opcodes", named))
    if d.get("configurable_opcodes"):
        named = ", ".join(f"{name} {count:,}" for name, count in d["configurable_opcodes"].items())
        rows.append(("configurable", named))
    degree = d["degree"]
    rows.append(
        (
            "degree",
            f"mean {degree['in']['mean']:.2f}, most {degree['in']['max']} in, {degree['out']['max']} out",
        )
    )
    rows.append(("dtypes", ", ".join(f"{field} {dtype}" for field, dtype in d["dtypes"].items())))
    rows += [("warning", text) for text in d["warnings"]]
    return "\n".join(f"{key:<17} {value}" for key, value in rows)


def _columns(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines that name the columns of a schema and their kinds."""
    lines = []
    for group in ("node", "graph", "config", "digits"):
        named = [
            f"{c['name']} ({c['kind']})" if "kind" in c else f"{c['name']} ({c['values']} values)"
            for c in schema[group]
        ]
        more = [f"and {len(named) - 12} more"] if len(named) > 12 else []
        if named:
            title = group if group == "digits" else f"{group} columns"
            lines.append((title, ", ".join(named[:12] + more)))
    return lines
