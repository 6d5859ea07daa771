"""Steps of models and of preprocessing that many recipes share, as the core takes them."""

from __future__ import annotations

from typing import Any

from tpugraphs._core import SCHEMA
from tpugraphs.data.schema import Schema

__all__ = ["Steps", "choose", "encode", "join_digits", "mean_plus_max", "opcodes", "step"]

NODE_COLUMNS, TILE_COLUMNS, DIGITS = SCHEMA["node_features"], SCHEMA["tile_features"], SCHEMA["digits"]
OPCODES = SCHEMA["opcodes"]

Steps = list[dict[str, Any]]


def step(op: str, name: str, inputs: list[str], slot: str | None = None, /, **attrs: Any) -> dict[str, Any]:
    """Describe one step of a model; its result has its name unless `slot` is given."""
    return {"op": op, "name": name, "in": inputs, "out": slot or name, "attrs": attrs}


def opcodes(slot: str, rows: int, cols: int, **attrs: Any) -> dict[str, Any]:
    """Describe the step `opcodes`: append `cols` columns of an opcode embedding to the slot."""
    return step("embedding", "opcodes", [slot], source="opcode", rows=rows, cols=cols, **attrs)


def join_digits(name: str, inputs: str, slot: str, column: int, /, **attrs: Any) -> dict[str, Any]:
    """Describe a linear layer over nodes, with config digits as numbers after `column` columns of these."""
    return step("config_linear", name, [inputs], slot, column=column, **{"values": "numbers", **attrs})


def mean_plus_max(slot: str) -> Steps:
    """Describe the steps that make `pooled`: mean plus maximum over the nodes."""
    return [
        step("pool", "mean", [slot], kind="mean"),
        step("pool", "max", [slot], kind="max"),
        step("add", "pooled", ["mean", "max"]),
    ]


def choose(fields: Any, **more: Any) -> Steps:
    """Describe the steps before a layout model: prune and, in training only, keep one of equal configs."""
    return [{"step": "prune", "method": fields.prune, **more}, {"step": "dedup", "keep": fields.dedup}]


def encode(schema: Schema, **attrs: Any) -> dict[str, Any]:
    """Describe the step of preprocessing that encodes all columns of a schema."""
    columns = {
        name: [{"name": c.name, "kind": c.kind, "values": [str(v) for v in c.values]} for c in group]
        for name, group in (("node", schema.node), ("graph", schema.graph), ("config", schema.config))
    }
    return {"step": "encode", **columns, **attrs}
