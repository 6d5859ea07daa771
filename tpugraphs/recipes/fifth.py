"""The fifth place: features that do not depend on how dimensions are numbered, and a transformer over them.

Of the 140 node features 53 are scalars. Nine lists (shape, dimensions, window ...) and the dimension
numbers of convolutions are listed per dimension: 23 numbers for each of six. Sizes are ln(1 + x - least), the
others scaled from a fixed range to -1 .. 1. The published code's reshaping scrambles the nine lists:
dimension d has numbers 9 d .. 9 d + 8 of the 54 in all lists. ``dimensions="straight"`` gives every
dimension its own.

``fifth-layout`` takes all of this as columns (the "naive" model), next to the layouts of a node: those of its
config, or else its own layout three times. A linear layer follows, then three layers that concatenate
GraphSAGE along and against the edges, and a sum over the nodes: 1,006,145 parameters. ``fifth-dimension``
sees a token per dimension, with its places in the layouts. Two transformer encoder layers over the six tokens
of a node, computed once per unique node and config, and their mean go to the same graph model: 1,837,121
parameters, as many as ``fifth-tile``, whose tokens have the tile sizes. The submission was the mean of the
min-max-scaled scores of both layout models: ``tg.Ensemble([naive, dimension], normalize="minmax")``.

Half of the loss compares configs of one graph, half all samples of a batch with each other; tile configs by
their normalised runtimes times the mean normalizer of their graph. An epoch draws sqrt(c c_max) of the c
configs of a graph. :meth:`tpugraphs.Ranker.from_torch` reads the published weights. Those of ``fifth-tile``
and ``fifth-dimension`` have the same names and shapes: for tiles say ``recipe="fifth-tile"``.

Compared with ``knshnb/kaggle-tpu-graph-5th-place`` (commit 3f2dfb8): as many parameters; features of the
nodes of 91 graphs (all samples and ``layout:xla:cpu``) within 1e-6; on ``alexnet``, ``unet3d_train`` and
``tile_00`` to ``tile_05``, with equal weights, scores within 1.2e-6, losses and all gradients as close to
float64 as those of the published code in float32; losses, norms of gradients and learning rates of the first
steps of a training. The published files have no configuration of the layout model with tokens: it has the
sizes of the tile model's.

What differs: a size below its least counts as the least, where the published logarithm is not a number.
Beyond 10,000 nodes a graph has several virtual nodes, over runs of 10,000 nodes; the published code draws
how many nodes each takes. Layout runtimes are compared exactly, not rounded to float32. The published code
cuts epochs in four and drops up to three steps of an epoch. Here both encoder layers begin with different
biases, there with the same. Where validation graphs are given, the best weights are kept, not the last.
"""

from dataclasses import dataclass
from functools import partial

from tpugraphs.recipes.base import Order, Recipe, TrainingFields, kaggle, modules, option
from tpugraphs.recipes.blocks import DIGITS, NODE_COLUMNS, OPCODES, Steps, choose, opcodes, step, tile_scale

OPCODE_ROWS = OPCODES + 1

DIMENSIONS, FLAGS, TENSORS = 6, 14, 3
# First columns of lists with a number per dimension, and the range of each unless it is a size.
RANGED_LISTS = {31: (0, 5), 45: (0, 4), 61: (-1, 4), 69: (0, 4), 77: (0, 4), 85: (0, 1)}
SIZE_LISTS = (21, 37, 53)
LISTS = len(RANGED_LISTS) + len(SIZE_LISTS)
RANGED_SCALARS = {
    **dict.fromkeys((0, 3, 6, 7, 10, 13, 15, 18, 20), (0, 1)),
    30: (0, 35), 91: (0, 3), 92: (0, 5), 113: (0, 1), 114: (0, 1), 115: (0, 5), 125: (0, 1), 128: (0, 1),
    133: (0, 1),
}  # fmt: skip
SIZE_SCALARS = (
    *range(27, 30), 43, 44, 51, 52, 59, 60, 67, 68, 75, 76, 83, 84, *range(107, 113), *range(117, 125), 126,
    127, *range(129, 133),
)  # fmt: skip
LEAST = {column: 1 for column in (28, 44, 52, 76, 84, 120, 124)} | {67: -2, 127: -39, 131: -24}
SCALARS = len(RANGED_SCALARS) + len(SIZE_SCALARS)
GROUPS = LISTS + FLAGS  # numbers of a dimension
ENCODER = [f"{part}_{kind}" for part in ("in_proj", "out_proj", "linear1", "linear2", "norm1", "norm2")
           for kind in ("weight", "bias")]  # fmt: skip
ZERO = NODE_COLUMNS  # the flag of dimension 0, which is never set


def _of_list(first: int) -> range:
    return range(first, first + DIMENSIONS)


_RANGES = RANGED_SCALARS | {c: ends for first, ends in RANGED_LISTS.items() for c in _of_list(first)}
_SIZES = (*SIZE_SCALARS, *(c for first in SIZE_LISTS for c in _of_list(first)))
_NUMBERS = [c for first in (*RANGED_LISTS, *SIZE_LISTS) for c in _of_list(first)]
_SCRAMBLED = [_NUMBERS[d * LISTS + i] for i in range(LISTS) for d in range(DIMENSIONS)]


class Fifth(TrainingFields):
    """Fields of all three recipes."""

    opcode_columns: int = 64
    width: int = option(384, 2, 4096, doc="columns of a layer, half of them along the edges")
    layers: int = 3
    dimensions: str = option(
        "scrambled", choices=("scrambled", "straight"), doc="nine numbers of a dimension: published, its own"
    )
    drop_edge: float = option(0.15, 0.0, 0.95, doc="chance that an edge is dropped: greatest of those drawn")
    margin: float = 1.0
    slates: int = 4
    configs: int = 8
    graph_sampling: str = "sqrt-configs"
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    schedule: str = "cosine"


class FifthLayout(Fifth):
    """Fields of ``fifth-layout``."""

    prune: str = "none"
    chunk: int = option(64, high=4096)


@dataclass(frozen=True)
class Tokens:
    """Fields of the transformer."""

    token_columns: int = option(256, 1, 4096, doc="columns of a token")
    token_layers: int = option(2, 1, 8, doc="transformer encoder layers")
    heads: int = option(2, 1, 64, doc="heads of their attention")
    hidden: int = option(256, 1, 4096, doc="columns of their hidden layer")


class FifthDimension(Tokens, FifthLayout):
    """Fields of ``fifth-dimension``."""


class FifthTile(Tokens, Fifth):
    """Fields of ``fifth-tile``."""

    cluster: int = option(10_000, 1, 10**6, doc="nodes to a virtual node")
    slates: int = 128
    configs: int = 32
    margin: float = 0.1
    learning_rate: float = 1e-3
    metric: str = "top5"
    chunk: int = 128


def _columns(fields: Fifth, *more: int) -> Steps:
    """List the steps to 191 columns: scalars, nine numbers and 14 flags of six dimensions; and `more`."""
    least = sorted({LEAST.get(column, 0) for column in _SIZES})
    lists = _SCRAMBLED if fields.dimensions == "scrambled" else _NUMBERS
    flags = range(NODE_COLUMNS, NODE_COLUMNS + FLAGS * DIMENSIONS)
    sizes = {low: [c for c in _SIZES if LEAST.get(c, 0) == low] for low in least}
    low, high = ([*side] for side in zip(*_RANGES.values(), strict=True))
    return [
        {"step": "range-columns", "columns": [*_RANGES], "low": low, "high": high},
        *({"step": "log-columns", "offset": 1 - low, "columns": columns} for low, columns in sizes.items()),
        {"step": "dimension-flags"},
        {"step": "take-columns", "columns": [*RANGED_SCALARS, *SIZE_SCALARS, *lists, *flags, *more]},
        {"step": "merge-opcodes"},
    ]  # fmt: skip


def preprocessing(fields: FifthLayout) -> Steps:
    """List the steps before the layout models; there are no tile sizes, which count as 0."""
    digits = {"step": "layout-digits", "padding": 0, "least": 1}
    return [*choose(fields), digits, *_columns(fields, *[ZERO] * DIGITS)]


def tile_preprocessing(fields: FifthTile) -> Steps:
    """List the steps before the tile model: no node has a layout."""
    digits = {"step": "layout-digits", "padding": 0, "least": DIMENSIONS}
    cluster = {"step": "virtual-node", "over": "clusters", "size": fields.cluster}
    return [*choose(fields), digits, *_columns(fields), cluster, tile_scale("log", standard=False)]


def _graph(x: str, fields: Fifth) -> Steps:
    """List the steps after the columns `x` of every node."""
    half = fields.width // 2
    model = [
        step("linear", "first", [x], "h0", out=2 * half, act="relu"),
        step("drop_edge", "kept", [], p=fields.drop_edge, kept="one", chance="drawn"),
    ]
    for i in range(fields.layers):
        both = {f"along{i}": "forward", f"against{i}": "reverse"}
        for name, direction in both.items():
            model += [
                step("edge_mean", f"{name}_mean", [f"h{i}", "kept"], direction=direction),
                step("linear", f"{name}_near", [f"{name}_mean"], out=half),
                step("linear", f"{name}_self", [f"h{i}"], out=half, use_bias=False),
                step("add", name, [f"{name}_near", f"{name}_self"]),
            ]
        model.append(step("concat", f"both{i}", [*both]))
        model.append(step("activation", f"act{i}", [f"both{i}"], f"h{i + 1}", act="relu"))
    return [
        *model,
        step("pool", "sum", [f"h{fields.layers}"], kind="sum"),
        step("linear", "head", ["sum"], "scores", out=1),
    ]


def steps(fields: FifthLayout) -> Steps:
    """List the steps of the naive model."""
    return [
        opcodes("node_feat", OPCODE_ROWS, fields.opcode_columns),
        step("config_columns", "config_layouts", [], of="config_nodes"),
        step("layout_columns", "own_layouts", [], copies=TENSORS),
        step("put_config_nodes", "layouts", ["config_layouts", "own_layouts"]),
        step("concat", "columns", ["opcodes", "layouts"]),
        *_graph("columns", fields),
    ]


def _encoder(name: str, x: str, fields: Tokens, owner: str = "") -> Steps:
    """List the steps from columns `x` to `name`, the mean of the tokens, with the parameters of `owner`."""
    model = [
        step("dimension_tokens", f"{name}0", [x], tokens=DIMENSIONS, cols=fields.token_columns, act="relu",
             column=SCALARS, groups=GROUPS + 2 * TENSORS, step=DIMENSIONS, number=True, init="glorot"),
        *(
            step("encoder_layer", f"{name}{i + 1}", [f"{name}{i}"], tokens=DIMENSIONS, heads=fields.heads,
                 hidden=fields.hidden, init="glorot")
            for i in range(fields.token_layers)
        ),
    ]  # fmt: skip
    for i, one in enumerate(model if owner else []):
        one["share"] = {own: f"{owner}{i}.{own}" for own in (ENCODER if i else ("weight", "bias"))}
    return [
        *model,
        step("pool_tokens", name, [f"{name}{fields.token_layers}"], tokens=DIMENSIONS, kind="mean"),
    ]


def dimension_steps(fields: FifthDimension) -> Steps:
    """List the steps of the model with tokens: of the configs of configurable nodes, and of all nodes."""
    return [
        step("take_columns", "scalars", ["node_feat"], first=0, count=SCALARS),
        opcodes("scalars", OPCODE_ROWS, fields.opcode_columns),
        step("cell_columns", "unique", ["node_feat"], tokens=DIMENSIONS),
        *_encoder("tokens", "unique", fields),
        step("gather_unique", "cells", ["tokens"]),
        step("layout_columns", "places", [], copies=TENSORS, form="positions"),
        step("concat", "own", ["node_feat", "places"]),
        *_encoder("others", "own", fields, "tokens"),
        step("put_config_nodes", "dimensions", ["cells", "others"]),
        step("concat", "columns", ["opcodes", "dimensions"]),
        *_graph("columns", fields),
    ]


def tile_steps(fields: FifthTile) -> Steps:
    """List the steps of the tile model: its tokens are of every node and config."""
    tensors = {"kernel": 0, "output": 8, "input": 16}  # first column: sizes, their sum and product
    return [
        step("take_columns", "scalars", ["node_feat"], first=0, count=SCALARS),
        opcodes("scalars", OPCODE_ROWS, fields.opcode_columns),
        step("layout_columns", "places", [], copies=TENSORS, form="wrapped"),
        step("concat", "own", ["node_feat", "places"]),
        *(step("take_columns", n, ["config_feat"], first=at, count=DIMENSIONS) for n, at in tensors.items()),
        step("concat", "all", ["own", *tensors]),
        *_encoder("tokens", "all", fields),
        step("concat", "columns", ["opcodes", "tokens"]),
        *_graph("columns", fields),
    ]


def loss(fields: Fifth) -> Steps:
    """List the hinge over all pairs of a graph, and over all pairs of a batch."""
    hinge = {"loss": "pairwise_hinge", "margin": fields.margin, "reduction": "mean-all"}
    return [{**hinge, "weight": 0.5}, {**hinge, "weight": 0.5, "over": "batch"}]


# Name of a parameter here -> in the published PyTorch model.
_LINEAR = (("near", "lin_l"), ("self", "lin_r"))
_GRAPH = (
    *modules(first="gnn.pre_linear.0", head="gnn.head", opcodes="gnn.opcode_embed"),
    *modules((rf"along([0-9]+)_{ours}", rf"gnn.convs.\1.{theirs}") for ours, theirs in _LINEAR),
    *modules((rf"against([0-9]+)_{ours}", rf"gnn.rev_convs.\1.{theirs}") for ours, theirs in _LINEAR),
)
_LAYERS = tuple(
    (rf"tokens{i + 1}\.{own}_(weight|bias)", rf"gnn.transformer.transformer.layers.{i}.{there}\1")
    for i in range(8)
    for own, there in (
        ("in_proj", "self_attn.in_proj_"), ("out_proj", "self_attn.out_proj."),
        *((own, f"{own}.") for own in ("linear1", "linear2", "norm1", "norm2")),
    )
)  # fmt: skip
PUBLISHED = (*_GRAPH, *modules(tokens0="gnn.transformer.mlp.0"), *_LAYERS)


def layout_order(fields: FifthLayout) -> Order:
    """Return where columns of the naive model are: opcodes first, then dimensions, layouts, tile sizes."""
    by_dimension = [
        SCALARS + fields.opcode_columns + d * GROUPS + g for g in range(GROUPS) for d in range(DIMENSIONS)
    ]
    layouts = SCALARS + fields.opcode_columns + len(by_dimension)
    opcode = range(SCALARS, SCALARS + fields.opcode_columns)
    columns = [*range(SCALARS), *by_dimension, *range(layouts + DIGITS, layouts + 2 * DIGITS), *opcode,
               *range(layouts, layouts + DIGITS)]  # fmt: skip
    return {"first.weight": {"columns": columns}}


def dimension_order(fields: FifthDimension) -> Order:
    """Return where columns of a token are: its places in layouts before tile sizes."""
    places, tiles = (range(GROUPS + at, GROUPS + at + TENSORS) for at in (0, TENSORS))
    return {"tokens0.weight": {"columns": [*range(GROUPS), *tiles, *places, GROUPS + 2 * TENSORS]}}


_fifth = partial(Recipe, source=kaggle("fifth"), loss=loss, published_padding=0)
_CPU = {"steps": 2000, "width": 64, "opcode_columns": 16, "configs": 24, "slates": 2, "learning_rate": 1e-3,
        "schedule": "warmup-cosine"}  # fmt: skip
_PRUNED = {"prune": "config-1hop"}
_TOKENS = {"token_columns": 32, "hidden": 32}
_FULL = {"epochs": 2, "dedup": "none"}

RECIPES = (
    _fifth(
        name="fifth-layout",
        summary="GraphSAGE both ways over features per dimension, the naive one of two models.",
        options=FifthLayout,
        presets={"cpu": {**_CPU, **_PRUNED}, "full": _FULL},
        steps=steps,
        preprocessing=preprocessing,
        published=_GRAPH,
        published_marks=(r"gnn\.rev_convs\.",),
        published_order=layout_order,
    ),
    _fifth(
        name="fifth-dimension",
        summary="The same over a transformer that sees a token per dimension.",
        options=FifthDimension,
        presets={"cpu": {**_CPU, **_PRUNED, **_TOKENS}, "full": _FULL},
        steps=dimension_steps,
        preprocessing=preprocessing,
        published=PUBLISHED,
        published_marks=(r"gnn\.rev_convs\.", r"gnn\.transformer\."),
        published_order=dimension_order,
    ),
    _fifth(
        name="fifth-tile",
        summary="The same for tile configs, whose sizes are listed per dimension.",
        options=FifthTile,
        presets={"cpu": {**_CPU, **_TOKENS, "slates": 4, "configs": 64}, "full": {**_FULL, "epochs": 16}},
        steps=tile_steps,
        preprocessing=tile_preprocessing,
        kind="tile",
        published=PUBLISHED,
    ),
)
