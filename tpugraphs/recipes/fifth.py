"""The fifth place: features that do not depend on how dimensions are numbered, and a transformer over them.

Of the 140 node features 53 stay as they are; nine lists (shape, dimensions, window ...) and the dimension
numbers of convolutions are told per dimension: 23 numbers for each of six. The config of a node follows,
as it is and inverted: the place of every dimension in the layouts of output, input and kernel. Nodes
without a config have their own layout in its place.

``fifth-layout`` takes all of this as columns (the "naive" model): a linear layer, then three layers that
put GraphSAGE along and against the edges next to each other, and a sum over the nodes. 1,006,145
parameters, as published. ``fifth-dimension`` sees a token per dimension: two transformer encoder layers
over the six tokens of a configurable node, computed once per unique node and config, and their mean go to
the same graph model. 1,891,393 parameters, 54,272 more than published. The submission was the mean of the
min-max-scaled scores of both: ``tg.Ensemble([naive, dimension], normalize="minmax")``. ``fifth-tile`` is
the naive model with the 24 tile numbers at every node, and virtual nodes.

Half of the loss of a layout model compares configs of one graph, half all samples of a batch with each
other.

What differs: tokens are averaged, as in the code (the write-up adds them up), and their features are not
scrambled by the published code's reshaping. Nodes that are not configurable have a linear layer over
their columns in place of tokens. A position in a layout has an embedding where it was one number, and a
token is not told the number of its dimension. The naive model reads inverted layouts, in whose place the
published one has 18 tile sizes, 0 in layout graphs. Of the tile numbers it reads sums and products, too;
tiles are compared within a graph alone, in the order of their ratios, where half of the published loss
compares times over the batch. Edges are dropped with the mean chance of the published range. Logarithms
are sign(x) ln(1 + |x|) of all sizes. A 0 among a node's own layout is a dimension here; in the published
code it counts as none. The published tile model is the one with tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from tpugraphs._core import SCHEMA
from tpugraphs.recipes.base import SCHEDULES, Recipe, TrainingFields, kaggle, opcodes, option, step

NODE_COLUMNS, TILE_COLUMNS, DIGITS = SCHEMA["node_features"], SCHEMA["tile_features"], SCHEMA["digits"]
OPCODE_ROWS = SCHEMA["opcodes"] + 1
Steps = list[dict[str, Any]]

SCALARS = (
    0, 3, 6, 7, 10, 13, 15, 18, 20, *range(27, 31), 43, 44, 51, 52, 59, 60, 67, 68, 75, 76, 83, 84, 91, 92,
    *range(107, 116), *range(117, SCHEMA["scaled_features"]),
)  # fmt: skip
LISTS = (21, 31, 37, 45, 53, 61, 69, 77, 85)  # first columns of lists with a number per dimension
DIMENSIONS, FLAGS = 6, 14
GROUPS = len(LISTS) + FLAGS
PER_DIMENSION = tuple(first + d for first in LISTS for d in range(DIMENSIONS))
COLUMNS = (*SCALARS, *PER_DIMENSION, *range(NODE_COLUMNS, NODE_COLUMNS + FLAGS * DIMENSIONS))


@dataclass(frozen=True)
class Fifth(TrainingFields):
    """Fields of all three recipes."""

    opcode_columns: int = option(64, 1, 1024, doc="columns of the opcode embedding")
    width: int = option(384, 2, 4096, doc="columns of a layer, half of them along the edges")
    layers: int = option(3, 1, 16, doc="layers of message passing")
    drop_edge: float = option(0.075, 0.0, 0.95, doc="chance that an edge is dropped in training")
    margin: float = option(1.0, 0.0, 1e6, doc="of the hinge: by how much a slower config must score higher")
    slates: int = option(4, 1, 1024, doc="slates of a pass, each of one graph, whose losses are averaged")
    configs: int = option(8, 2, 1 << 20, doc="configs of a slate, at most")
    graph_sampling: str = option(
        "sqrt-configs",
        choices=("even", "sqrt-configs"),
        doc="visit graphs equally often, or in proportion to the root of their number of configs",
    )
    learning_rate: float = option(1e-4, 0.0, 10.0, doc="peak of the schedule")
    weight_decay: float = option(0.01, 0.0, 10.0, doc="decoupled, of all parameters")
    schedule: str = option("cosine", choices=SCHEDULES, doc="learning rate over the steps")


@dataclass(frozen=True)
class FifthLayout(Fifth):
    """Fields of ``fifth-layout``."""

    prune: str = option("none", doc="nodes kept: a method of tpugraphs.preprocess.prune, or none")
    chunk: int = option(64, 1, 4096, doc="configs scored together in prediction")


@dataclass(frozen=True)
class FifthDimension(FifthLayout):
    """Fields of ``fifth-dimension``."""

    token_columns: int = option(256, 1, 4096, doc="columns of a token")
    token_layers: int = option(2, 1, 8, doc="transformer encoder layers")
    heads: int = option(2, 1, 64, doc="heads of their attention")
    hidden: int = option(256, 1, 4096, doc="columns of their hidden layer")


@dataclass(frozen=True)
class FifthTile(Fifth):
    """Fields of ``fifth-tile``."""

    cluster: int = option(10_000, 1, 10**6, doc="nodes to a virtual node")
    slates: int = option(128, 1, 1024, doc="slates of a pass, each of one graph, whose losses are averaged")
    configs: int = option(32, 2, 1 << 20, doc="configs of a slate, at most")
    margin: float = option(0.1, 0.0, 1e6, doc="of the hinge: by how much a slower config must score higher")
    learning_rate: float = option(1e-3, 0.0, 10.0, doc="peak of the schedule")
    metric: str = option("top5", choices=("top5", "mean50", "tau"), doc="what chooses the best parameters")
    chunk: int = option(1024, 1, 1 << 20, doc="configs scored together in prediction")


def _columns() -> Steps:
    """List steps to 191 columns: scalars, then nine lists and 14 flags of six dimensions."""
    return [
        {"step": "log-columns", "form": "signed"},
        {"step": "dimension-flags"},
        {"step": "take-columns", "columns": [*COLUMNS]},
        {"step": "merge-opcodes"},
    ]


def preprocessing(fields: FifthLayout) -> Steps:
    """List the steps before the layout models."""
    return [
        {"step": "prune", "method": fields.prune},
        {"step": "dedup", "keep": fields.dedup},
        {"step": "layout-digits"},
        *_columns(),
    ]


def tile_preprocessing(fields: FifthTile) -> Steps:
    """List the steps before the tile model."""
    return [
        {"step": "dedup", "keep": fields.dedup},
        {"step": "virtual-node", "over": "clusters", "size": fields.cluster},
        *_columns(),
        {"step": "standardize-configs", "columns": TILE_COLUMNS, "scale": "log"},
    ]


def _opcodes(fields: Fifth) -> dict[str, Any]:
    return opcodes("node_feat", OPCODE_ROWS, fields.opcode_columns)


def _graph(x: str, fields: Fifth) -> Steps:
    """List what follows the columns `x` of every node."""
    half = fields.width // 2
    model = [
        step("linear", "first", [x], "h0", out=2 * half, act="relu"),
        step("drop_edge", "kept", [], p=fields.drop_edge, kept="one"),
    ]
    for i in range(fields.layers):
        both = []
        for way, direction in (("along", "forward"), ("against", "reverse")):
            name = f"{way}{i}"
            model += [
                step("edge_mean", f"{name}_mean", [f"h{i}", "kept"], direction=direction),
                step("linear", f"{name}_near", [f"{name}_mean"], out=half),
                step("linear", f"{name}_self", [f"h{i}"], out=half, use_bias=False),
                step("add", name, [f"{name}_near", f"{name}_self"]),
            ]
            both.append(name)
        model += [
            step("concat", f"both{i}", both),
            step("activation", f"act{i}", [f"both{i}"], f"h{i + 1}", act="relu"),
        ]
    return [
        *model,
        step("pool", "sum", [f"h{fields.layers}"], kind="sum"),
        step("linear", "head", ["sum"], "scores", out=1),
    ]


def _layouts(name: str, form: str) -> Steps:
    """18 columns at every node: what its config says, else its own layout three times."""
    return [
        step("config_columns", f"{name}_config", [], of="config_nodes", form=form),
        step("layout_columns", f"{name}_own", [], copies=DIGITS // DIMENSIONS, form=form),
        step("put_config_nodes", name, [f"{name}_config", f"{name}_own"]),
    ]


def steps(fields: FifthLayout) -> Steps:
    """List the steps of the naive model."""
    return [
        _opcodes(fields),
        *_layouts("layouts", "digits"),
        *_layouts("places", "positions"),
        step("concat", "columns", ["opcodes", "layouts", "places"]),
        *_graph("columns", fields),
    ]


def dimension_steps(fields: FifthDimension) -> Steps:
    """List the steps of the model with tokens."""
    width, x = fields.token_columns, "tokens0"
    model = [
        step("take_columns", "scalars", ["node_feat"], first=0, count=len(SCALARS)),
        opcodes("scalars", OPCODE_ROWS, fields.opcode_columns),
        step("dimension_tokens", x, ["node_feat"], tokens=DIMENSIONS, cols=width, act="relu",
             column=len(SCALARS), groups=GROUPS, step=DIMENSIONS),
    ]  # fmt: skip
    for i in range(fields.token_layers):
        model.append(
            step(
                "encoder_layer",
                f"tokens{i + 1}",
                [x],
                tokens=DIMENSIONS,
                heads=fields.heads,
                hidden=fields.hidden,
            )
        )
        x = f"tokens{i + 1}"
    return [
        *model,
        step("pool_tokens", "unique", [x], tokens=DIMENSIONS, kind="mean"),
        step("gather_unique", "cells", ["unique"]),
        step("layout_columns", "own_layout", []),
        step("concat", "own", ["node_feat", "own_layout"]),
        step("linear", "plain", ["own"], out=width, act="relu"),
        step("put_config_nodes", "dimensions", ["cells", "plain"]),
        step("concat", "columns", ["opcodes", "dimensions"]),
        *_graph("columns", fields),
    ]


def tile_steps(fields: FifthTile) -> Steps:
    """List the steps of the tile model."""
    return [
        _opcodes(fields),
        step("concat", "columns", ["opcodes", "config_feat"]),
        *_graph("columns", fields),
    ]


def loss(fields: Fifth) -> Steps:
    """Hinge over all pairs of a graph, and over all pairs of a batch, where runtimes are times."""
    hinge = {"loss": "pairwise_hinge", "margin": fields.margin, "reduction": "mean-all"}
    return [{**hinge, "weight": 0.5}, {**hinge, "weight": 0.5, "over": "batch"}]


def tile_loss(fields: FifthTile) -> Steps:
    """Hinge over all pairs of a graph: runtimes of tile graphs are compared within a graph alone."""
    return [{"loss": "pairwise_hinge", "margin": fields.margin, "reduction": "mean-all"}]


_fifth = partial(
    Recipe,
    source=kaggle("fifth"),
)
_CPU = {"steps": 2000, "width": 64, "opcode_columns": 16, "configs": 24, "slates": 2, "learning_rate": 1e-3,
        "schedule": "warmup-cosine"}  # fmt: skip
_PRUNED = {"prune": "config-1hop"}

RECIPES = (
    _fifth(
        name="fifth-layout",
        summary="GraphSAGE both ways over features per dimension, the naive one of two models.",
        options=FifthLayout,
        presets={"cpu": {**_CPU, **_PRUNED}, "full": {"epochs": 2}},
        steps=steps,
        loss=loss,
        preprocessing=preprocessing,
    ),
    _fifth(
        name="fifth-dimension",
        summary="The same over a transformer that sees a token per dimension.",
        options=FifthDimension,
        presets={"cpu": {**_CPU, **_PRUNED, "token_columns": 32, "hidden": 32}, "full": {"epochs": 2}},
        steps=dimension_steps,
        loss=loss,
        preprocessing=preprocessing,
    ),
    _fifth(
        name="fifth-tile",
        summary="The same for tile configs, which every node sees.",
        options=FifthTile,
        presets={"cpu": {**_CPU, "slates": 4, "configs": 64}, "full": {"epochs": 16}},
        steps=tile_steps,
        loss=tile_loss,
        preprocessing=tile_preprocessing,
        kind="tile",
    ),
)
