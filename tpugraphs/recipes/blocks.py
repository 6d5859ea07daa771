"""Steps of models and of preprocessing that many recipes share, as the core takes them."""

from typing import Any

from tpugraphs._core import SCHEMA
from tpugraphs.data.schema import Schema

NODE_COLUMNS, TILE_COLUMNS, DIGITS = SCHEMA["node_features"], SCHEMA["tile_features"], SCHEMA["digits"]
OPCODES = SCHEMA["opcodes"]

EMA = {"average": "ema", "ema_decay": 0.99}  # for presets that train briefly

Steps = list[dict[str, Any]]


def step(
    op: str, name: str, inputs: list[str], slot: str | None = None, /, share: Any = None, **attrs: Any
) -> dict[str, Any]:
    """Describe one step of a model; its result has its name unless `slot` is given."""
    made = {"op": op, "name": name, "in": inputs, "out": slot or name, "attrs": attrs}
    return made | {"share": share} if share else made


def out(model: Steps) -> str:
    """Return the slot that the last step makes."""
    return str(model[-1]["out"])


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
    """Describe the first steps: prune layouts and, in training only, keep one of equal configs."""
    prune = [{"step": "prune", "method": fields.prune, **more}] if hasattr(fields, "prune") else []
    return [*prune, {"step": "dedup", "keep": fields.dedup}]


def standardize(columns: int = NODE_COLUMNS, **attrs: Any) -> dict[str, Any]:
    """Describe the step that scales the first `columns` node features to mean 0 and deviation 1."""
    return {"step": "standardize", "columns": columns, **attrs}


def tile_scale(scale: str = "none", standard: bool = True) -> dict[str, Any]:
    """Describe the step that scales the numbers of tile configs."""
    how = "standardize-configs" if standard else "scale-configs"
    return {"step": how, "columns": TILE_COLUMNS, "scale": scale}


def encode(schema: Schema, **attrs: Any) -> dict[str, Any]:
    """Describe the step of preprocessing that encodes all columns of a schema."""
    columns = {
        name: [{"name": c.name, "kind": c.kind, "values": [str(v) for v in c.values]} for c in group]
        for name, group in (("node", schema.node), ("graph", schema.graph), ("config", schema.config))
    }
    return {"step": "encode", **columns, **attrs}
