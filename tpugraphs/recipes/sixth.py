"""The sixth place: GraphSAGE with instance norms, GIN for xla:default, GATv2 for tiles.

``sixth-layout``: an opcode embedding with rows of length 1 at most and the digits of a config as numbers
join the node features; two linear layers and four GraphSAGE layers with a residual sum, each followed by an
instance norm and GELU; mean plus maximum over the nodes, scaled to length 1; a head. ``sixth-gin`` has one
linear layer and four of GIN without residual sums, of which the last two read the same input; the head reads
the sum of their means over the nodes. ``sixth-tile`` has GATv2 with self loops and no residual sums; the 24
numbers of a tile config join after mean plus maximum, which are not scaled. Without the scales below these
are 778,881, 714,369 and 783,489 parameters. Layouts are pruned to the nodes that consume the output of a
configurable node, over up to five steps.

Layouts are trained by the logistic loss of all pairs, tiles by ListMLE; the weights of layout models are
averaged over the last part of the training (SWA). For xla:default the scores of ``sixth-layout`` and
``sixth-gin`` were added, for xla:random the training began with the weights of an nlp collection. The default
of 80 configs is that of nlp; xla:default had 32, xla:random 100. With the preset ``full`` a graph is visited
in proportion to its number of full slates (`graph_sampling`): as published, an epoch takes each of them once,
in random order.

The head normalises every column over the configs of a slate (``late_norm="configs"``), so that a score
depends on what else is scored. ``"layer"`` normalises each row by itself instead, as the preset ``cpu``
does. What differs: there mean and deviation of node features and tile configs were trained; here a scale and
a shift of standardised numbers are (``trainable_scale``). The bound of the embedding's rows is part of the
model, so gradients go through it; PyTorch's `max_norm` shortens the table itself. Mean and deviation are over
the nodes that pruning keeps, there over all nodes. The products of the published training were in half
precision. A fit counts visits of graphs, not epochs over all configs: for their number of steps set `steps` =
epochs x slates of all graphs / 32. SWA averages weights of many steps, theirs averages checkpoints every
tenth of an epoch.

Compared with ``hengck23/solution-predict-ai-model-runtime`` at commit c9c5194, run with equal weights on the
same graphs: scores, losses and gradients of all three models are equal to 7e-5.
"""

from functools import partial
from typing import Any

from tpugraphs.recipes import blocks
from tpugraphs.recipes.base import Order, Recipe, Steps, TrainingFields, always, kaggle, modules, option
from tpugraphs.recipes.blocks import DIGITS, NODE_COLUMNS, TILE_COLUMNS, choose, opcodes, out, step

OPCODE_ROWS = 128


class Sixth(TrainingFields):
    """Fields of all three recipes."""

    opcode_columns: int = 128
    width: int = option(256, 2, 4096, doc="columns of a layer; the last hidden one has half as many")
    layers: int = option(4, 0, 16, doc="layers of message passing")
    dropout: float = 0.2
    trainable_scale: bool = option(True, doc="learn scale and shift of node features and tile configs")
    late_norm: str = option(
        "configs", choices=("configs", "layer", "none"), doc="of the head: columns over configs, or rows"
    )
    accumulate: int = 32
    configs: int = 80
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    clip: float = 1e9


class SixthLayout(Sixth):
    """Fields of ``sixth-layout``."""

    hops: int = option(5, 1, 1000, doc="steps along consumers within which nodes are kept")
    prune: str = "consumers"
    average: str = "swa"
    chunk: int = option(100, high=4096)


class SixthGin(SixthLayout):
    """Fields of ``sixth-gin``."""

    layers: int = option(4, low=1, doc="layers of messages; of three or more the last two read the same")


class SixthTile(Sixth):
    """Fields of ``sixth-tile``."""

    dropout: float = 0.0
    config_scale: str = "none"
    configs: int = 64
    metric: str = "top5"
    chunk: int = 8192


def layout_preprocessing(fields: SixthLayout) -> Steps:
    """List the steps before the layout models."""
    return [*choose(fields, hops=fields.hops), blocks.standardize()]


def tile_preprocessing(fields: SixthTile) -> Steps:
    """List the steps before the tile model."""
    scaled = [blocks.standardize(), blocks.tile_scale(fields.config_scale)]
    return [*choose(fields), {"step": "self-loops"}, *scaled]


def _norm_act(name: str, slot: str, out: str, act: str) -> Steps:
    return [
        step("instance_norm", f"{name}_norm", [slot], f"{name}_normed"),
        step("activation", f"{name}_act", [f"{name}_normed"], out, act=act),
    ]


def _gin(i: int, x: str, fields: Sixth) -> Steps:
    """List MLP(x + sum over consumers): twice a linear layer, norm and ELU; then the mean over the nodes."""
    return [
        step("edge_mean", f"near{i}", [x], kind="sum"),
        step("add", f"sum{i}", [x, f"near{i}"]),
        step("linear", f"gin{i}_0", [f"sum{i}"], out=fields.width, stats=True),
        *_norm_act(f"gin{i}_0", f"gin{i}_0", f"gin{i}_1", "elu"),
        step("linear", f"gin{i}_3", [f"gin{i}_1"], f"gin{i}_3_z", out=fields.width, stats=True),
        *_norm_act(f"gin{i}_3", f"gin{i}_3_z", f"h{i + 1}", "elu"),
        step("pool", f"mean{i + 1}", [f"h{i + 1}"], kind="mean"),
    ]


def _with_head(model: Steps, fields: Sixth) -> Steps:
    """Append two hidden layers and a score."""
    for i, width in enumerate((fields.width, fields.width // 2)):
        model.append(step("linear", f"head{i}", [out(model)], f"head{i}_z", out=width, use_bias=False))
        if fields.late_norm == "configs":
            model.append(step("config_norm", f"head{i}_norm", [out(model)]))
        if fields.late_norm == "layer":
            model.append(step("layer_norm", f"head{i}_norm", [out(model)], affine=False))
        model.append(step("activation", f"head{i}_act", [out(model)], f"head{i}", act="gelu"))
    return [*model, step("linear", "score", [out(model)], "scores", out=1)]


def _first(fields: Sixth, digits: bool) -> Steps:
    """List the first linear layer, which sees everything, with norm and dropout; its result is `drop`."""
    how = {"column": NODE_COLUMNS + fields.opcode_columns, "values": "numbers"} if digits else {}
    attrs: dict[str, Any] = {**how, "out": fields.width, "use_bias": False, "stats": True}
    scaled = [step("affine", "scale", ["node_feat"], "scaled")] if fields.trainable_scale else []
    return [
        *scaled,
        opcodes("scaled" if scaled else "node_feat", OPCODE_ROWS, fields.opcode_columns, max_norm=1.0),
        step("config_linear" if digits else "linear", "first", ["opcodes"], "first_z", **attrs),
        *_norm_act("first", "first_z", "first_a", "gelu"),
        step("dropout", "drop", ["first_a"], p=fields.dropout),
    ]


def _second(fields: Sixth) -> Steps:
    """List the second linear layer, from `drop` to `h0`."""
    return [
        step("linear", "second", ["drop"], "second_z", out=fields.width, use_bias=False, stats=True),
        *_norm_act("second", "second_z", "h0", "gelu"),
    ]


def layout_steps(fields: SixthLayout) -> Steps:
    """List the steps of the GraphSAGE model."""
    model = [*_first(fields, digits=True), *_second(fields)]
    for i in range(fields.layers):
        model += [
            step("sage", f"sage{i}", [f"h{i}"], f"conv{i}", out=fields.width),
            step("mix", f"residual{i}", [f"conv{i}", f"h{i}"], stats=True),
            *_norm_act(f"layer{i}", f"residual{i}", f"h{i + 1}", "gelu"),
        ]
    model += [*blocks.mean_plus_max(f"h{fields.layers}"), step("l2_normalise", "unit", ["pooled"], eps=1e-4)]
    return _with_head(model, fields)


def gin_steps(fields: SixthGin) -> Steps:
    """List the steps of the GIN model; as published, the last layer reads what the one before it reads."""
    model, pooled = _first(fields, digits=True), "mean1"
    for i in range(fields.layers):
        last = fields.layers >= 3 and i == fields.layers - 1
        model += _gin(i, f"h{i - last}" if i else "drop", fields)
        if i > 0:
            model.append(step("add", f"pooled{i + 1}", [pooled, f"mean{i + 1}"]))
            pooled = out(model)
    return _with_head(model, fields)


def tile_steps(fields: SixthTile) -> Steps:
    """List the steps of the tile model; kernels may have one node, where a norm over nodes is 0."""
    model = [*_first(fields, digits=False), *_second(fields)]
    for i in range(fields.layers):
        model += [
            step("gatv2", f"gat{i}", [f"h{i}"], cols=fields.width, stats=True),
            *_norm_act(f"layer{i}", f"gat{i}", f"h{i + 1}", "gelu"),
        ]
    configs = "configs" if fields.trainable_scale else "config_feat"
    if fields.trainable_scale:
        model.append(step("affine", "config_scale", ["config_feat"], configs))
    model += [*blocks.mean_plus_max(f"h{fields.layers}"), step("concat", "late", ["pooled", configs])]
    return _with_head(model, fields)


# Name of a parameter here -> in the published PyTorch models.
PUBLISHED = (
    *modules(opcodes="node_opcode_embed", first="early_mlp.0", second="early_mlp.4"),
    *modules(head0="late_mlp.0", head1="late_mlp.3", score="predict"),
    (r"(?:sage|gat)([0-9]+)\.(weight|bias)_([lr])", r"gconv.\1.lin_\3.\2"),
    (r"gin([0-9]+)_([03])\.(weight|bias)", r"gconv.\1.nn.\2.\3"),
    (r"gat([0-9]+)\.(att|bias)", r"gconv.\1.\2"),
)
# Scalers of features, the 0 of GIN, and weights of norms, which the published code does not apply.
UNREAD = (
    r"(node|config)_feat_(mean|std)|gconv\.[0-9]+\.eps",
    r"(early_mlp\.[15]|late_mlp\.[14]|norm\.[0-9]+|gconv\.[0-9]+\.nn\.[14])\.(weight|bias)",
)


def published_order(fields: Sixth, tile: bool = False) -> Order:
    """Return where columns are in the published code: opcodes before features, tile numbers before nodes."""
    opcode, end = fields.opcode_columns, fields.opcode_columns + NODE_COLUMNS
    columns = [*range(opcode, end), *range(opcode), *range(end, end + (0 if tile else DIGITS))]
    head = [*range(TILE_COLUMNS, TILE_COLUMNS + fields.width), *range(TILE_COLUMNS)]
    return {"first.weight": {"columns": columns}} | ({"head0.weight": {"columns": head}} if tile else {})


_sixth = partial(
    Recipe,
    source=kaggle("sixth"),
    published=PUBLISHED,
    published_order=published_order,
    published_unread=UNREAD,
    published_padding=0,
    published_fields={"trainable_scale": False},
)
_layout = partial(
    _sixth, preprocessing=layout_preprocessing, loss=always([{"loss": "ranknet", "reduction": "mean-pairs"}])
)
_CPU = {"steps": 2000, "width": 64, "opcode_columns": 32, "layers": 3, "late_norm": "layer", "slates": 2,
        "accumulate": 1, "configs": 48, "learning_rate": 1e-3}  # fmt: skip
_FULL = {"schedule": "constant", "graph_sampling": "slates", "dedup": "none"}
_CPU_LAYOUT = {**_CPU, "prune": "config-1hop"}

RECIPES = (
    _layout(
        name="sixth-layout",
        summary="Residual GraphSAGE with instance norms and averaged weights.",
        options=SixthLayout,
        presets={"cpu": _CPU_LAYOUT, "full": {**_FULL, "epochs": 1500}},  # of 750 slates, twice
        steps=layout_steps,
        published_marks=(r"early_mlp\.",),
    ),
    _layout(
        name="sixth-gin",
        summary="Graph isomorphism layers whose means are added, as for xla:default.",
        options=SixthGin,
        presets={"cpu": _CPU_LAYOUT, "full": {**_FULL, "configs": 32, "epochs": 2400}},  # of 320, 7.5 times
        steps=gin_steps,
        published_marks=(r"early_mlp\.", r"gconv\.0\.nn\."),
    ),
    _sixth(
        name="sixth-tile",
        summary="GATv2 over kernels, tile configs joined behind the pooling.",
        options=SixthTile,
        presets={
            "cpu": {**_CPU, "configs": 128, "config_scale": "log"},
            "full": {**_FULL, "epochs": 70},  # of 29 slates, 2.5 times
        },
        steps=tile_steps,
        preprocessing=tile_preprocessing,
        loss=always([{"loss": "list_mle"}]),
        kind="tile",
        published_marks=(r"early_mlp\.", "config_feat_mean"),
        published_order=partial(published_order, tile=True),
    ),
)
