"""A ranker for graphs of any schema: tables of configs, kernels with problem sizes, programs with edges.

The model depends on what the graphs hold. If nodes differ, they get features, an opcode embedding and (with
edges) GraphSAGE, and are pooled to one row per graph, or per config where nodes are configured. Configs get
their features, with digits or without, and how these relate to powers of two. A linear layer sees them
together with the row of the graph; residual blocks follow, and a linear path bypasses all of them. The first
layer starts with larger weights than the others, which makes the members of an ensemble differ more.
"""

from tpugraphs.data.schema import Schema
from tpugraphs.preprocess.pipeline import Sizes
from tpugraphs.recipes.base import Recipe, Steps, TrainingFields, always, option
from tpugraphs.recipes.blocks import encode, opcodes, out, step

_OPCODE_COLUMNS = 16


class GraphConfig(TrainingFields):
    """Fields of ``graph-config``: a small network, trained on all configs of a graph at once."""

    width: int = option(96, 1, 4096, doc="columns of every layer")
    blocks: int = option(1, 0, 16, doc="residual blocks of the configs")
    convolutions: int = option(2, 0, 16, doc="rounds of message passing, where graphs have edges")
    dropout: float = option(0.2, 0.0, 0.99, doc="share of a block's columns that are dropped in training")
    noise: float = option(0.1, 0.0, 10.0, doc="standard deviation of what is added to features in training")
    nodes: bool = option(True, doc="nodes are seen; False: a graph is what its own features say")
    powers: bool = option(True, doc="features of the configs' divisibility by powers of two")
    levels: int = option(0, 0, 64, doc="numbers with at most this many values also get a column per value")
    unknown: str = option("error", choices=("error", "zero"), doc="a category that was not seen in training")
    margin: float = option(1.0, 0.0, 1e6, doc="margin of the hinge, where that is the loss")
    configs: int = 4096
    dedup: str = "none"
    target: str = option("normal-score", choices=("runtime", "log-runtime", "percentile", "normal-score"))
    steps: int | None = 250
    epochs: int | None = None
    learning_rate: float = 4e-3
    weight_decay: float = option(0.02, doc="decoupled, of weights; biases and norms have none")
    beta2: float = 0.98
    warmup: float = 0.08
    clip: float = 1e9
    chunk: int = 8192


def preprocessing(fields: GraphConfig, schema: Schema) -> Steps:
    """Merge equal configs (training only), encode all columns by the schema, append powers of two."""
    encoded = encode(schema, unknown=fields.unknown, levels=fields.levels)
    steps: Steps = [{"step": "dedup", "keep": fields.dedup}] if fields.dedup != "none" else []
    steps.append(encoded)
    if fields.powers and schema.config:
        steps.append({"step": "powers", "config": encoded["config"]})
    return steps


def _nodes(fields: GraphConfig, sizes: Sizes) -> Steps:
    """List the steps that pool the nodes to one row, or to one per config if nodes have digits."""
    known = sizes.described or sizes.opcodes is not None or sizes.edges
    if sizes.digits[0] == 0 and not (known and fields.nodes):
        return []
    width, op = fields.width, "linear" if sizes.digits[0] == 0 else "config_linear"
    steps = [] if sizes.opcodes is None else [opcodes("node_feat", sizes.opcodes, _OPCODE_COLUMNS)]
    steps.append(step(op, "nodes", [out(steps) if steps else "node_feat"], out=width))
    steps.append(step("mix", "nodes_act", ["nodes"], "h0", act="silu"))
    rounds = fields.convolutions if sizes.edges else 0
    for i in range(rounds):
        steps.append(step("sage", f"sage{i}", [f"h{i}"], f"s{i}", out=width, direction="both"))
        steps.append(step("mix", f"sage{i}_act", [f"s{i}", f"h{i}"], f"h{i + 1}", act="silu"))
    return [*steps, step("pool", "pool", [f"h{rounds}"], "pooled", kind="mean+max")]


def _block(name: str, slot: str, fields: GraphConfig) -> Steps:
    """List the steps of x + dropout(silu(linear(norm(x))))."""
    return [
        step("layer_norm", f"{name}_norm", [slot]),
        step("linear", f"{name}_linear", [f"{name}_norm"], out=fields.width, act="silu"),
        step("dropout", f"{name}_drop", [f"{name}_linear"], p=fields.dropout),
        step("add", name, [slot, f"{name}_drop"]),
    ]


def steps(fields: GraphConfig, sizes: Sizes) -> Steps:
    """List the steps of the model for graphs of these sizes."""
    model = _nodes(fields, sizes)
    inputs = ["pooled"] * bool(model) + ["graph_feat"] * (sizes.graph > 0)
    if len(inputs) == 2:
        model.append(step("concat", "about", inputs))
        inputs = ["about"]
    if sizes.config > 0:
        model.append(step("noise", "noise", ["config_feat"], "configs", std=fields.noise))
        inputs = ["configs", *inputs]
    if sizes.config > 0 and sizes.digits[0] > 0:  # the row is one per config, too
        model.append(step("concat", "whole", inputs))
        inputs = ["whole"]
    model.append(step("linear", "hidden0", inputs, "x0", out=fields.width, act="silu", init="lecun"))
    for i in range(fields.blocks):
        model += _block(f"x{i + 1}", f"x{i}", fields)
    model.append(step("layer_norm", "last_norm", [f"x{fields.blocks}"]))
    deep, past = "scores" if sizes.config == 0 else "deep", []
    if sizes.config > 0:
        past = [step("linear", "past", ["configs"], out=1), step("add", "sum", ["deep", "past"], "scores")]
    return [*model, step("linear", "head", ["last_norm"], deep, out=1), *past]


RECIPES = (
    Recipe(
        name="graph-config",
        summary="Graphs and tables of any schema: measurements of any compiler or kernel tuner.",
        options=GraphConfig,
        presets={"cpu": {}, "full": {"steps": 2000}},
        steps=steps,
        preprocessing=preprocessing,
        loss=always([{"loss": "mse"}]),
        groups=always([{"match": name, "weight_decay": 0.0} for name in ("*.bias", "*norm.weight")]),
        source="this project",
        kind="graph",
    ),
)
