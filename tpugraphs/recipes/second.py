"""The second place: GraphSAGE over whole graphs with wide last layers, a number per node and their sum.

Node features go through sign(x) ln(1 + |x|) and a linear layer to 20 columns. They are joined by 12 columns
of an opcode embedding and the raw config: 18 digits, 0 at nodes without a config, or the 24 tile numbers at
every node. GraphSAGE layers follow whose width doubles from stage to stage, and a linear layer to one number
per node. A score is the sum of these. Parameters as published: 265,093 (xla), 2,272,101 (nlp), 2,272,485
(tile).

``second-xla`` fits runtimes in seconds: their differences (hinge with a margin of 0.01 s, divided by the
margin) plus relative errors. ``second-nlp`` is trained by ListMLE, with scores of a list scaled down to
length 500. ``second-tile`` is trained by differences of normalised runtimes with a margin of 0.1. For equal
configs the fastest measurement counts.

The preset ``full`` follows, for xla and tiles, the code that their weights were trained with, for nlp the
last code: Adam without weight decay, against AdamW that decays only the last layer and clips at 100; negative
node features as 0, against their logarithms (`negative`); the hinge averaged over all pairs of a slate
(`pairs`); every config of a slate drawn independently (`config_sampling`). The code for xla and tiles clips
at 1,000 only gradients that it logs: its steps are not clipped.

What differs: equal runtimes form no pair here; in their hinge they have a loss of the whole margin, without a
gradient. Residual sums, where widths are equal, are only in ``second-nlp``, as in the published code (the
write-up has them everywhere): see `residual`. All recipes take 400,000 steps, as in the last code; an earlier
job file for tiles had 200,000. Graphs whose measurements are known to be corrupt are left out by ``--exclude
known-corrupt``.

Compared with ``Obs01ete/kaggle_latenciaga``, nlp at its head (b6b55b1), xla and tiles at commit 3edb3f4, run
with equal weights on the same graphs: scores and losses are equal to 1e-6, gradients to 2e-6.
"""

from functools import partial
from itertools import pairwise
from typing import Any

from tpugraphs.recipes.base import Recipe, TrainingFields, always, kaggle, modules, option
from tpugraphs.recipes.blocks import EMA, OPCODES, Steps, choose, join_digits, opcodes, out, step, tile_scale


class Second(TrainingFields):
    """Fields that all three recipes share."""

    node_columns: int = option(20, 1, 1024, doc="columns that the node features are reduced to")
    opcode_columns: int = 12
    first: int = option(32, 1, 4096, doc="columns of the first layer that sees the config")
    width: int = option(64, 1, 4096, doc="columns of the first stage of message passing")
    stages: int = option(3, 1, 6, doc="stages, each twice as wide as the one before")
    layers: int = option(2, 1, 16, doc="layers of a stage")
    residual: bool = option(False, doc="add the input of a layer to its output where widths are equal")
    score_scale: float = option(1e-3, 1e-9, 1e9, doc="factor of the sum over the nodes")
    margin: float = option(1e-2, 0.0, 1e6, doc="of the hinge over differences")
    slates: int = 10
    configs: int = option(4, high=4096)
    negative: str = option("signed", choices=("signed", "zero"), doc="negative features x: -ln(1 - x), or 0")
    pairs: str = option("ordered", choices=("ordered", "all"), doc="pairs that the hinge is averaged over")
    dedup: str = "min"
    target: str = option("seconds", choices=("seconds", "runtime"))
    weight_decay: float = option(0.0, doc="of all layers but the last")
    head_decay: float = option(1e-4, 0.0, 10.0, doc="weight decay of the last layer")
    eps: float = 1e-6
    clip: float = 1e9
    schedule: str = "step"
    decay: float = 0.31622776601683794
    decay_every: float = 0.1
    decay_from: float | None = 0.6
    steps: int | None = 400_000


class SecondLayout(Second):
    """Fields of ``second-xla`` and ``second-nlp``."""

    prune: str = "none"


class SecondTile(Second):
    """Fields of ``second-tile``."""

    config_scale: str = option("none", choices=("none", "standard"), doc="as they are, or standardised")
    margin: float = 0.1
    score_scale: float = 1.0
    target: str = "runtime"
    metric: str = "top5"


def preprocessing(fields: Second) -> Steps:
    """Prune; keep the fastest of equal configs (training only); take logarithms of node features."""
    form: dict[str, Any] = {"form": "signed"} if fields.negative == "signed" else {"offset": 1}
    return [*choose(fields), {"step": "log-columns", **form}]


def tile_preprocessing(fields: SecondTile) -> Steps:
    """List the same steps, and scale configs."""
    return [*preprocessing(fields), tile_scale(standard=fields.config_scale == "standard")]


def steps(fields: Second, tile: bool = False) -> Steps:
    """List the steps of the model."""
    model = [
        step("linear", "reduce", ["node_feat"], out=fields.node_columns),
        opcodes("reduce", OPCODES, fields.opcode_columns),
    ]
    if tile:
        model.append(step("concat", "joined", ["opcodes", "config_feat"]))
        model.append(step("linear", "first", ["joined"], "z", out=fields.first))
    else:
        column = fields.node_columns + fields.opcode_columns
        model.append(join_digits("first", "opcodes", "z", column, out=fields.first))
    model.append(step("activation", "first_act", ["z"], "h0", act="relu"))
    widths = [fields.width << stage for stage in range(fields.stages) for _ in range(fields.layers)]
    for i, (before, width) in enumerate(pairwise([fields.first, *widths])):
        model.append(step("sage", f"sage{i}", [f"h{i}"], f"s{i}", out=width))
        if fields.residual and width == before:
            model.append(step("add", f"residual{i}", [f"s{i}", f"h{i}"], f"r{i}"))
        model.append(step("activation", f"act{i}", [out(model)], f"h{i + 1}", act="relu"))
    return [
        *model,
        step("linear", "head", [out(model)], "per_node", out=1),
        step("pool", "sum", ["per_node"], "total", kind="sum"),
        step("affine", "scaled", ["total"], "scores", scale=fields.score_scale, learn="none"),
    ]


def differences(fields: Second) -> Steps:
    """Hinge over pairs of a slate: averaged over those with an order, or over all C (C - 1) / 2."""
    hinge = {"loss": "pairwise_hinge", "margin": fields.margin, "reduction": "mean-pairs"}
    if fields.pairs == "all":
        hinge |= {"reduction": "mean-all", "weight": 2 * fields.configs / (fields.configs - 1)}
    return [hinge]


def differences_and_errors(fields: Second) -> Steps:
    """Hinge over pairs of a slate, in units of the margin, and relative error."""
    (hinge,) = differences(fields)
    weight = hinge.get("weight", 1.0) / (fields.margin or 1.0)
    return [{**hinge, "weight": weight}, {"loss": "mape", "weight": 1.0}]


def groups(fields: Second) -> Steps:
    """List the last layer, which has a separate weight decay."""
    return [{"match": "head.*", "weight_decay": fields.head_decay}]


# Name of a parameter here -> in the published PyTorch model.
PUBLISHED = (
    *modules(reduce="node_feat_embedding", first="input_shaping", head="output_shaping"),
    (r"opcodes\.weight", "node_opcode_embedding.weight"),
    (r"sage([0-9]+)\.(weight|bias)_([lr])", r"convs.\1.lin_\3.\2"),
)

_second = partial(
    Recipe,
    groups=groups,
    source=kaggle("second"),
    published=PUBLISHED,
    published_marks=(r"node_feat_embedding\.",),
    published_padding=0,
)
_layout = partial(_second, options=SecondLayout, steps=steps, preprocessing=preprocessing)
_CPU = {"steps": 2000, "stages": 2, "layers": 1, "configs": 32}
_CPU_WIDER = {**_CPU, "first": 64, "layers": 2}
_PRUNED = {"slates": 2, "prune": "config-1hop"}
_WIDE = {"first": 64, "width": 256, "stages": 2, "layers": 4}
_DRAWN = {"config_sampling": "replacement"}
_BEFORE = {**_DRAWN, "optimizer": "adam", "eps": 1e-8, "head_decay": 0.0, "negative": "zero", "pairs": "all"}

RECIPES = (
    _layout(
        name="second-xla",
        summary="GraphSAGE that predicts seconds, by differences and relative errors.",
        presets={"cpu": {**_CPU, **_PRUNED, **EMA, "margin": 1e-4}, "full": _BEFORE},
        loss=differences_and_errors,
    ),
    _layout(
        name="second-nlp",
        summary="The same twice as wide with residual sums, trained by ListMLE.",
        presets={
            "cpu": {**_CPU_WIDER, **_PRUNED, "residual": True},
            "full": {**_WIDE, **_DRAWN, "residual": True, "slates": 4, "configs": 10, "clip": 100.0},
        },
        loss=always([{"loss": "list_mle", "max_norm": 500.0}]),  # scores of a list of length 500, at most
    ),
    _second(
        name="second-tile",
        options=SecondTile,
        summary="The same for tile configs, which every node sees.",
        presets={
            "cpu": {**_CPU_WIDER, "config_scale": "standard", "slates": 4},
            "full": {**_WIDE, **_BEFORE, "slates": 100, "configs": 10},
        },
        steps=partial(steps, tile=True),
        preprocessing=tile_preprocessing,
        loss=differences,
        kind="tile",
    ),
)
