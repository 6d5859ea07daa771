"""The ninth place: three graph convolutions over shortest paths, for an ensemble.

Only nodes and edges on shortest paths from the program's last node to its configurable nodes are kept.
``ninth-sage``, ``ninth-gat`` and ``ninth-transformer`` differ only in their convolution; their ensemble
gained 0.01 to 0.02 of tau. There were also models for each collection and for families of architectures
(:class:`tpugraphs.Routed` has one ranker per collection). Node features are logarithms; the loss is the hinge
with margin 0.1, summed over the pairs of a graph.

The rest is chosen here. Widths, the two linear layers before and behind the convolutions, and
the pooling, mean plus maximum scaled to length 1, are those of graph segment training, on which the solution
was based. Messages go both ways, since the shortest paths are undirected, and every convolution is followed
by a layer norm and a ReLU. In GAT a separate linear layer replaces a node's self-loop. Written from the
write-up, not compared with the authors' code.
"""

from functools import partial
from typing import Any

from tpugraphs.recipes.base import Recipe, TrainingFields, chosen, hinge, kaggle, option
from tpugraphs.recipes.blocks import NODE_COLUMNS, Steps, join_digits, mean_plus_max, opcodes, step

OPCODE_ROWS = 128


class Ninth(TrainingFields):
    """Fields of all three recipes."""

    opcode_columns: int = 128
    width: int = 256
    layers: int = 3
    heads: int = option(4, 1, 64, doc="heads of the attention over edges; they share a layer's columns")
    direction: str = "both"
    dropout: float = 0.1
    margin: float = 0.1
    prune: str = "shortest-path"
    slates: int = 2
    clip: float = 1e9
    configs: int = option(512, high=4096)
    chunk: int = option(128, high=4096)


def _sage(i: int, fields: Ninth) -> Steps:
    return [step("sage", f"conv{i}", [f"h{i}"], out=fields.width, direction=fields.direction)]


def _wide(fields: Ninth) -> int:
    """Return the number of columns of all heads."""
    return fields.width // fields.heads * fields.heads


def _gat(i: int, fields: Ninth) -> Steps:
    """List a graph attention layer (Velickovic et al. 2018), as GATConv with `residual` and no self loops."""
    heads = {"heads": fields.heads}
    return [
        step("linear", f"values{i}", [f"h{i}"], out=_wide(fields), use_bias=False),
        step("head_dots", f"sender{i}", [f"values{i}"], **heads),
        step("head_dots", f"receiver{i}", [f"values{i}"], **heads),
        step("edge_attention", f"near{i}", [f"receiver{i}", f"sender{i}", f"values{i}"], score="additive",
             direction=fields.direction, **heads),
        step("linear", f"self{i}", [f"h{i}"], out=_wide(fields)),
        step("add", f"conv{i}", [f"near{i}", f"self{i}"]),
    ]  # fmt: skip


def _transformer(i: int, fields: Ninth) -> Steps:
    """List a layer as TransformerConv (Shi et al. 2021)."""
    wide = {"out": _wide(fields)}
    return [
        *(step("linear", f"{name}{i}", [f"h{i}"], **wide) for name in ("query", "key", "value")),
        step("edge_attention", f"near{i}", [f"query{i}", f"key{i}", f"value{i}"], score="dot",
             direction=fields.direction, heads=fields.heads),
        step("linear", f"self{i}", [f"h{i}"], **wide),
        step("add", f"conv{i}", [f"near{i}", f"self{i}"]),
    ]  # fmt: skip


def steps(fields: Ninth, conv: Any) -> Steps:
    """List the steps of a model with one kind of convolution."""
    column = NODE_COLUMNS + fields.opcode_columns
    model = [
        opcodes("node_feat", OPCODE_ROWS, fields.opcode_columns),
        join_digits("first", "opcodes", "first_z", column, out=fields.width),
        step("mix", "first_act", ["first_z"], "first_a", act="relu", dropout=fields.dropout),
        step("linear", "second", ["first_a"], "second_z", out=fields.width),
        step("mix", "second_act", ["second_z"], "h0", act="relu", dropout=fields.dropout),
    ]
    for i in range(fields.layers):
        model += [
            *conv(i, fields),
            step("layer_norm", f"norm{i}", [f"conv{i}"]),
            step("mix", f"act{i}", [f"norm{i}"], f"h{i + 1}", act="relu", dropout=fields.dropout),
        ]
    return [
        *model,
        *mean_plus_max(f"h{fields.layers}"),
        step("l2_normalise", "unit", ["pooled"]),
        step("linear", "head0", ["unit"], "hidden", out=fields.width, act="relu"),
        step("linear", "head1", ["hidden"], "scores", out=1),
    ]


_ninth = partial(
    Recipe,
    options=Ninth,
    presets={
        "cpu": {"steps": 2000, "width": 64, "opcode_columns": 32, "configs": 64, "slates": 1, "clip": 1.0},
        "full": {"learning_rate": 1e-4},
    },
    preprocessing=chosen({"step": "log-columns", "form": "signed"}),
    loss=hinge("sum"),
    source=kaggle("ninth"),
)

RECIPES = (
    _ninth(
        name="ninth-sage",
        summary="GraphSAGE over shortest paths between output and configurable nodes.",
        steps=partial(steps, conv=_sage),
    ),
    _ninth(name="ninth-gat", summary="The same with graph attention.", steps=partial(steps, conv=_gat)),
    _ninth(
        name="ninth-transformer",
        summary="The same with attention by products of queries and keys.",
        steps=partial(steps, conv=_transformer),
    ),
)
