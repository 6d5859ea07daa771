"""The baselines published with the data set: GNNs over tile and layout graphs.

``official-tile`` has five variants (`variant=`). ``early-sage`` and ``early-resgcn`` join the config to
every node before message passing, ``late-sage`` and ``late-resgcn`` to the pooled graph after it; ``mlp``
sums the nodes and passes no messages. GraphSAGE here adds up messages of both directions and scales its
rows to length 1. The residual GCN adds to every node the output of a small network over the node, the mean of
its consumers, and the transposed mean of its operands. Parameters as published, for 140 node features: 61,889
(early-sage), 60,353 (late-sage), 49,825 (both residual GCNs) and 20,705 (mlp).

``official-layout`` adds to every node, twice, the output of a small network over its neighbours' activations
and configs. The graph is described by the mean over its nodes and by the directions of the sums over all
nodes and over configurable ones. 19,520 parameters, as published.

With the preset ``full`` a fit validates after every visit of all graphs and stops when the best ordered pair
accuracy (OPA) is 20 (tile) or 25 (layout) validations old, as published.

What differs from the published code: features are standardised instead of scaled to 0..1, which the first
layer can undo, and constant node features are 0 instead of left out. Digits are scaled to 0..1 from -1..5,
instead of from the range of each of the 18 in training. Validation is on all configs of a graph, up to
`valid_configs` in all, instead of on 10 or 16 drawn again for every epoch. Rows of the opcode embedding are
not pulled to 0, only weights are. The gradient is clipped by its norm as a whole, not tensor by tensor.
Segments of 5,000 nodes are not sampled: training is on whole graphs. The published layout trainer passes an
argument that the model does not have and fails after training; this is not reproduced.

Compared with ``google-research-datasets/tpu_graphs`` at commit ddd187c, run with equal weights on the same
graphs: scores of all five tile models and of the layout model are equal to 1e-5, losses and gradients to
7e-5.
"""

from functools import partial
from typing import Any

from tpugraphs.recipes.base import Order, Recipe, Steps, TrainingFields, always, opcodes, option, step
from tpugraphs.recipes.blocks import NODE_COLUMNS, OPCODES, TILE_COLUMNS, out, standardize, tile_scale

OPCODE_ROWS = OPCODES + 1


class OfficialFields(TrainingFields):
    """Fields that both recipes share."""

    width: int = option(64, 1, 4096, doc="columns of every layer")
    temperature: float = option(10.0, 1e-3, 1e6, doc="of ListMLE: scores are divided by it")
    dedup: str = "none"
    target: str = option("runtime", choices=("runtime", "percentile"))
    optimizer: str = "adam"
    weight_decay: float = option(2e-4, doc="a part of the gradient, of weights alone")
    schedule: str = "constant"


class OfficialTile(OfficialFields):
    """Fields of ``official-tile``."""

    variant: str = option(
        "early-sage",
        choices=("early-sage", "late-sage", "early-resgcn", "late-resgcn", "mlp"),
        doc="which of the published models",
    )
    opcode_columns: int | None = option(None, 1, 1024, doc="of the embedding; None: 64 (sage), else 32")
    layers: int = option(3, 1, 16, doc="rounds of message passing")
    slates: int = 10
    configs: int = 10
    clip: float = 1e-3
    epochs: int | None = 100
    metric: str = "top5"
    chunk: int = 1024


def _leaky(name: str, slot: str, out: str) -> dict[str, Any]:
    return step("activation", name, [slot], out, act="leaky", negative_slope=0.2)


def _mlp(name: str, slot: str, widths: list[int], *, last: bool = True) -> Steps:
    """List linear layers with leaky ReLUs after them; with `last` also after the last."""
    made: Steps = []
    for i, width in enumerate(widths):
        made.append(step("linear", f"{name}{i}", [out(made) if made else slot], f"{name}{i}_z", out=width))
        if last or i + 1 < len(widths):
            made.append(_leaky(f"{name}{i}_act", out(made), f"{name}{i}"))
    return made


def _sage(name: str, x: str, fields: OfficialTile) -> Steps:
    """List l2(leaky(W [(A + A^T) x | x] + b))."""
    return [
        step("edge_mean", f"{name}_sum", [x], kind="sum", direction="both"),
        step("concat", f"{name}_both", [f"{name}_sum", x]),
        step("linear", f"{name}_linear", [f"{name}_both"], out=fields.width),
        _leaky(f"{name}_act", f"{name}_linear", f"{name}_acted"),
        step("l2_normalise", name, [f"{name}_acted"]),
    ]


def _resgcn(name: str, x: str, fields: OfficialTile) -> Steps:
    """List x + MLP((A' + A'^T + I) leaky(x)), A' = D^-1 (A + I)."""
    return [
        _leaky(f"{name}_in", x, f"{name}_acted"),
        step("propagate", f"{name}_to", [f"{name}_acted"], norm="mean"),
        step("propagate", f"{name}_back", [f"{name}_acted"], norm="mean", transposed=True),
        step("add", f"{name}_sum", [f"{name}_acted", f"{name}_to", f"{name}_back"]),
        *_mlp(f"{name}_mlp", f"{name}_sum", [fields.width, fields.width], last=False),
        step("add", name, [x, f"{name}_mlp1_z"]),
    ]


def tile_steps(fields: OfficialTile) -> Steps:
    """List the steps of the tile models."""
    kind, early = fields.variant.rpartition("-")[2], fields.variant.startswith("early")
    width = fields.width
    model = [opcodes("node_feat", OPCODE_ROWS, fields.opcode_columns or (64 if kind == "sage" else 32))]
    if early:
        model.append(step("concat", "joined", [out(model), "config_feat"]))
    if kind == "resgcn":
        model += _mlp("first", out(model), [width, width], last=False)
    for i in range(0 if kind == "mlp" else fields.layers):
        layer = _sage if kind == "sage" else _resgcn
        model += layer(f"{kind}{i}", out(model), fields)
    if kind == "resgcn":
        model.append(_leaky("last", out(model), "last"))
    model.append(step("pool", "pool", [out(model)], "pooled", kind="sum"))
    if not early:
        model.append(step("concat", "late", [out(model), "config_feat"]))
    model += _mlp("head", out(model), [width] if kind == "resgcn" else [width, width])
    return [*model, step("linear", "score", [out(model)], "scores", out=1)]


def tile_loss(fields: OfficialFields) -> Steps:
    """List ListMLE and, lightly, squared error; the weights 1 and 0.02 are normalised to sum 1."""
    return [
        {"loss": "list_mle", "weight": 1 / 1.02, "temperature": fields.temperature},
        {"loss": "mse", "weight": 0.02 / 1.02},
    ]


class OfficialLayout(OfficialFields):
    """Fields of ``official-layout``."""

    opcode_columns: int = 32
    width: int = 32
    layers: int = option(2, 0, 16, doc="residual blocks")
    config_scale: float = option(100.0, 1e-3, 1e6, doc="factor of the digits of configs")
    config_shift: float = option(0.0, -100.0, 100.0, doc="added to the digits before; 1: so that -1 is 0")
    temperature: float = 1.0
    prune: str = "none"
    slates: int = 8
    configs: int = option(16, high=4096)
    config_sampling: str = "gumbel"
    clip: float = 1e-2
    epochs: int | None = 50
    chunk: int = option(128, high=4096)


def layout_steps(fields: OfficialLayout) -> Steps:
    """List the steps of the layout model: x0 of [100 digits | features | opcode], then residual blocks."""
    scaled = {"scale": fields.config_scale} | ({"shift": fields.config_shift} if fields.config_shift else {})
    model = [
        opcodes("node_feat", OPCODE_ROWS, fields.opcode_columns),
        step("config_columns", "digits", [], **scaled),
        step("config_linear", "pre0", ["opcodes"], "pre0_z", values="numbers", **scaled, out=fields.width),
        _leaky("pre0_act", "pre0_z", "pre0"),
        *_mlp("pre1_", "pre0", [fields.width]),
    ]
    for i in range(fields.layers):
        name, x = f"block{i}", out(model)
        model += [
            step("concat", f"{name}_in", ["digits", x]),
            step("propagate", f"{name}_near", [f"{name}_in"], norm="sym", direction="both"),
            *_mlp(f"{name}_mlp", f"{name}_near", [fields.width, fields.width], last=False),
            _leaky(f"{name}_act", f"{name}_mlp1_z", f"{name}_acted"),
            step("add", name, [x, f"{name}_acted"]),
        ]
    x = out(model)
    return [
        *model,
        step("pool", "mean", [x], kind="mean"),
        step("pool", "sum", [x], kind="sum"),
        step("l2_normalise", "sum_unit", ["sum"]),
        step("take_config_nodes", "configurable", [x]),
        step("pool", "config_sum", ["configurable"], kind="sum"),
        step("l2_normalise", "config_unit", ["config_sum"]),
        step("concat", "pooled", ["mean", "sum_unit", "config_unit"]),
        step("linear", "post0", ["pooled"], out=fields.width, use_bias=False),
        _leaky("post0_act", "post0", "hidden"),
        step("linear", "post1", ["hidden"], "scores", out=1, use_bias=False),
    ]


def layout_preprocessing(fields: OfficialLayout) -> Steps:
    """Scale node features."""
    return [{"step": "prune", "method": fields.prune}, standardize(constant="zero")]


def layout_loss(fields: OfficialFields) -> Steps:
    """ListMLE."""
    return [{"loss": "list_mle", "temperature": fields.temperature}]


# Name of a parameter here -> in a checkpoint of the published Keras models.
_LAYERS = "layer_with_weights-"
_PARTS = (("weight", "kernel"), ("bias", "bias"))
PUBLISHED = (
    (r"opcodes\.weight", "_op_embedding/embedding_layer/embeddings"),
    *(
        (rf"{ours}\.{part}", f"{theirs}/{name}")
        for part, name in _PARTS
        for ours, theirs in (
            (r"sage([0-9]+)_linear", rf"_gnn_layers/\1/{_LAYERS}0"),
            (r"resgcn([0-9]+)_mlp([01])", rf"_gc_layers/\1/0/{_LAYERS}\2"),
            (r"block([0-9]+)_mlp([01])", rf"_gc_layers/\1/{_LAYERS}\2"),
            (r"first([01])", rf"_prenet/{_LAYERS}\1"),
            (r"pre0", f"_prenet/{_LAYERS}0"),
            (r"pre1_0", f"_prenet/{_LAYERS}1"),
            (r"(?:head|post)([01])", rf"_postnet/{_LAYERS}\1"),
            (r"score", f"_postnet/{_LAYERS}2"),
        )
    ),
)


def _named(theirs: str, **places: int) -> Order:
    """Return the published names of linear layers: our name, the place among the layers of `theirs`."""
    return {
        f"{ours}.{part}": {"name": f"{theirs}/{_LAYERS}{place}/{name}"}
        for ours, place in places.items()
        for part, name in _PARTS
    }


def published_order(fields: OfficialTile) -> Order:
    """Return where the inputs of the first layer are: opcode, config if it joins early, node features."""
    join, _, kind = fields.variant.rpartition("-")
    opcode, config = fields.opcode_columns or (64 if kind == "sage" else 32), TILE_COLUMNS * (join == "early")
    before = opcode + config
    columns = [*range(before, before + NODE_COLUMNS), *range(opcode), *range(opcode, before)]
    if kind == "sage":  # messages, then the node itself
        return {"sage0_linear.weight": {"columns": columns + [len(columns) + at for at in columns]}}
    if kind == "resgcn":
        return {"first0.weight": {"columns": columns}, **_named("_postnet", score=1)}
    return _named("_mlp", head0=0, head1=1, score=2)


_official = partial(
    Recipe,
    source="baselines of the TpuGraphs data set (Phothilimthana et al. 2023)",
    groups=always([{"match": name, "weight_decay": 0.0} for name in ("*.bias", "opcodes.weight")]),
    published=PUBLISHED,
    published_padding=0,
)
_CPU = {"steps": 2000, "clip": 1.0}
_CPU_DRAWN = {"slates": 2, "configs": 64, "config_sampling": "even", "dedup": "mean", "prune": "config-1hop"}
_FULL = {"evaluate_every": 0, "metric": "opa"}

RECIPES = (
    _official(
        name="official-tile",
        summary="The data set's own baselines for tile configs: GraphSAGE, residual GCN or no messages.",
        options=OfficialTile,
        presets={"cpu": {**_CPU, "learning_rate": 1e-3}, "full": {**_FULL, "stop_after": 20}},
        steps=tile_steps,
        preprocessing=always([standardize(constant="zero"), tile_scale()]),
        loss=tile_loss,
        published_marks=("_op_embedding/",),
        published_order=published_order,
        kind="tile",
    ),
    _official(
        name="official-layout",
        summary="The data set's own baseline for layout configs: residual messages, ListMLE.",
        options=OfficialLayout,
        presets={
            "cpu": {**_CPU, **_CPU_DRAWN, "learning_rate": 5e-3, "schedule": "warmup-cosine"},
            "full": {**_FULL, "stop_after": 25, "config_shift": 1.0, "config_scale": 100 / 6},
        },
        steps=layout_steps,
        preprocessing=layout_preprocessing,
        loss=layout_loss,
        published_marks=("_op_embedding/", "_gc_layers/0/layer_with_weights"),
    ),
)
