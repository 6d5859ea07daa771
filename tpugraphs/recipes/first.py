"""Models of the first place in the Kaggle competition "Google - Fast or Slow?" (2023).

``first-layout`` was trained for the *random* collections, ``first-layout-cross`` with attention across the
configs of a slate for the *default* ones. The ``full`` presets are as published (460,577 and 215,013
parameters); the ``cpu`` presets were chosen by measurement on two cores.

:meth:`tpugraphs.Ranker.from_torch` reads the published PyTorch weights; ``PUBLISHED`` and ``PUBLISHED_TILE``
are the names. Shapes are the same, with two exceptions: a temperature has shape () there, and the columns of
``dense.0`` are [config, maximum, mean], those of ``head1`` [mean, maximum, config].

``first-tile`` ranks tile configs by late fusion (540,645 parameters): the graph branch of the layout model,
without configs and with mean and maximum over the nodes, runs once per graph; a separate small network sees
the 24 numbers of a config; the head takes both. As published it has attention across configs, but for a node
without configs the softmax over them is 1.

What differs: trained here, ``first-tile`` has -1 in the layout columns past the rank of a node; the published
training left them as they are in the files, as weights read from it expect. In the W steps of the warm-up the
learning rate rises from 1/W of its peak, theirs from 0, so ours is one step ahead until the peak and the same
after it. A first step of length 0 learns nothing, and all recipes share the schedule. Theirs computed in half
precision, as ``precision="bf16"`` does here.

Compared with ``thanhhau097/google_fast_or_slow`` at commit 626c463, run with equal weights on the same
graphs: scores, losses and gradients of all three models are equal to 7e-5.
"""

from functools import partial
from typing import Any

from tpugraphs._core import SCHEMA
from tpugraphs.recipes.base import Order, Recipe, TrainingFields, chosen, hinge, kaggle, modules, option
from tpugraphs.recipes.blocks import OPCODES, Steps, standardize, step, tile_scale

SCALED_COLUMNS = SCHEMA["scaled_features"]  # node features before the layout, which is embedded
LAYOUT_ROWS = SCHEMA["digit_states"]  # digits -2 (not configurable) .. 5


class FirstFields(TrainingFields):
    """Fields that layout and tile recipes share."""

    width: int = option(256, 16, 4096, doc="columns of every layer")
    blocks: int = option(2, 0, 16, doc="layers of message passing")
    gate_reduction: int = option(8, 1, 64, doc="columns of a layer over hidden columns of its gate")
    opcode_columns: int = option(16, 1, 256, doc="columns of the opcode embedding")
    layout_columns: int = option(4, 1, 64, doc="columns of the embedding of layout digits")
    dropout: float = option(0.2, 0.0, 0.95, doc="chance that an activation of a block is dropped in training")
    direction: str = "forward"
    margin: float = 1.0


class FirstLayout(FirstFields):
    """Fields of both layout recipes."""

    configs: int = option(64, high=4096)
    chunk: int = option(128, high=4096)
    prune: str = "config-1hop"


def steps(fields: FirstLayout, cross: bool) -> Steps:
    """List the steps of the model.

    Parameters
    ----------
    fields : FirstLayout
    cross : bool
        Attention across configs: every layer makes half of the width, its product with the softmax over the
        configs the other half.
    """
    first = {"column": SCALED_COLUMNS, "share": {"table": "embedding_layout.weight"}}
    return [
        *_graph_branch(fields, cross, "config_linear", **first),
        step("pool", "pool", [f"h{fields.blocks}"], "pooled", kind="mean"),
        step("linear", "head", ["pooled"], "scores", out=1),
    ]


def _graph_branch(fields: FirstFields, cross: bool, op: str, **first: Any) -> Steps:
    """List the steps from the features to h0, h1, ...; `op` and `first` are those of the first layer."""
    out = fields.width // 2 if cross else fields.width
    mix = {"gate": max(1, out // fields.gate_reduction), "cross": cross, "act": "gelu"}
    linear = {"out": out, "stats": True, "init": "xavier"}
    model = [
        step("embedding", "embedding_layout", ["node_feat"], "with_layout",
              source="layout", rows=LAYOUT_ROWS, cols=fields.layout_columns),
        step("embedding", "embedding_opcode", ["with_layout"], "nodes",
              source="opcode", rows=OPCODES, cols=fields.opcode_columns),
        step(op, "linear1", ["nodes"], "z1", **first, **linear),
        step("mix", "mix1", ["z1"], "x1", norm=True, **mix),
        step("linear", "linear2", ["x1"], "z2", **linear),
        step("mix", "mix2", ["z2"], "h0", norm=True, stats=fields.blocks > 0, **mix),
    ]  # fmt: skip
    for i in range(fields.blocks):
        model += [
            step("sage", f"sage{i}", [f"h{i}"], f"s{i}", out=out, direction=fields.direction, norm=True),
            step("mix", f"block{i}", [f"s{i}", f"h{i}"], f"h{i + 1}",
                 dropout=fields.dropout, stats=i + 1 < fields.blocks, **mix),
        ]  # fmt: skip
    return model


class FirstTile(FirstFields):
    """Fields of ``first-tile``. The published training takes all configs of a graph in one step."""

    configs: int = 16384
    steps: int | None = 100_000
    epochs: int | None = None
    valid_configs: int = 200_000
    chunk: int = option(8192, doc="configs scored together, for which the graph branch runs once")
    metric: str = option(
        "top5", choices=("top5", "mean50"), doc="what chooses the best parameters; mean50 as published"
    )
    config_scale: str = "none"


# Digits of the layout columns; the other columns scaled.
_SCALED = chosen({"step": "layout-digits"}, standardize(SCALED_COLUMNS))


def tile_preprocessing(fields: FirstTile) -> Steps:
    """Remove equal configs (training only), make digits of the layout columns, scale the rest and configs."""
    return [*_SCALED(fields), tile_scale(fields.config_scale)]


def tile_steps(fields: FirstTile) -> Steps:
    """List the steps of the tile model."""
    return [
        *_graph_branch(fields, True, "linear"),
        step("pool", "pool", [f"h{fields.blocks}"], "pooled", kind="mean+max"),
        *_hidden("config1", ["config_feat"], fields),
        step("linear", "config2", ["config1"], "config2", out=fields.width),
        *_hidden("head1", ["config2", "pooled"], fields),
        *_hidden("head2", ["head1"], fields),
        step("linear", "head3", ["head2"], "scores", out=1),
    ]


def _hidden(name: str, inputs: list[str], fields: FirstTile) -> Steps:
    """List linear, dropout, GELU in this order, as published; only `mix` has dropout last."""
    return [
        step("linear", name, inputs, f"{name}_linear", out=fields.width),
        step("mix", f"{name}_dropout", [f"{name}_linear"], f"{name}_dropped", dropout=fields.dropout),
        step("mix", f"{name}_gelu", [f"{name}_dropped"], name, act="gelu"),
    ]


def published_order(fields: FirstTile) -> Order:
    """Return where columns of the tile model's head are: [config, maximum, mean] in the published code."""
    blocks = [range(at * fields.width, (at + 1) * fields.width) for at in (2, 1, 0)]
    return {"head1.weight": {"columns": [column for block in blocks for column in block]}}


# Name of a parameter here -> in the published PyTorch model.
PUBLISHED = (
    *modules(linear1="linear.linear", linear2="linear2.linear", head="classifier"),
    *modules(embedding_opcode="embedding_op", embedding_layout="embedding_layout_cfg"),
    (r"mix1\.gate([12])_(weight|bias)", r"linear.attn.linear\1.\2"),
    (r"mix2\.gate([12])_(weight|bias)", r"linear2.attn.linear\1.\2"),
    (r"mix1\.temperature", "linear.cross_attn.temperature"),
    (r"mix2\.temperature", "linear2.cross_attn.temperature"),
    (r"sage([0-9]+)\.(weight|bias)_([lr])", r"convs.\1.conv.lin_\3.\2"),
    (r"block([0-9]+)\.gate([12])_(weight|bias)", r"convs.\1.attn.linear\2.\3"),
    (r"block([0-9]+)\.temperature", r"convs.\1.cross_attn.temperature"),
)
# The tile model: the same graph branch, a network over each config, and a head over both.
PUBLISHED_TILE = (
    *PUBLISHED,
    *modules(config1="dense_cfg.0", config2="dense_cfg.3", head1="dense.0", head2="dense.3", head3="dense.6"),
)

_first = partial(Recipe, loss=hinge("mean-all"), source=kaggle("first"))
_layout = partial(_first, options=FirstLayout, preprocessing=_SCALED, published=PUBLISHED)
_CPU = {"steps": 2000, "width": 128}
_FULL = {"evaluate_every": 2000, "valid_configs": 20000}

RECIPES = (
    _layout(
        name="first-layout",
        summary="GraphSAGE over layout configs as the first place trained it for the random collections.",
        presets={"cpu": _CPU, "full": {"configs": 128, "chunk": 512, **_FULL}},
        steps=partial(steps, cross=False),
    ),
    _layout(
        name="first-layout-cross",
        summary="The same with attention across the configs of a slate, as for the default collections.",
        presets={"cpu": {"learning_rate": 3e-3, "chunk": 64, **_CPU}, "full": _FULL},
        steps=partial(steps, cross=True),
        published_marks=(r"linear\.cross_attn\.temperature",),
    ),
    _first(
        name="first-tile",
        summary="Tile configs by late fusion: GraphSAGE once per graph, a small network once per config.",
        options=FirstTile,
        presets={
            "cpu": {"configs": 512, "config_scale": "log", **_CPU},
            "full": {"evaluate_every": 5000, "metric": "mean50", "dedup": "none"},
        },
        steps=tile_steps,
        preprocessing=tile_preprocessing,
        published=PUBLISHED_TILE,
        published_marks=(r"linear\.", r"(dense_cfg|config_mlp)\."),
        published_order=published_order,
        kind="tile",
    ),
)
