"""The tenth place: graph transformers that meet the configs late, so that the graph is computed once.

``tenth-layout``: blocks of linear attention over all nodes and of message passing (personalised propagation,
APPNP), each after a norm, see only the graph. Then only configurable nodes stay, joined by the 18 digits of
their config as numbers; a network over these, their mean, and a linear layer make scores ("intermediate
fusion"), so a thousand configs cost little more than one. ``unit="gated"`` replaces the residual sums by
gates, as in its best private submission; ``block="sage"`` is one of the other kinds of message passing that
were tried. The preset ``cpu`` embeds the digits (`embed_digits`), which learnt better on synthetic programs.

``tenth-tile``: residual propagation, attention among the nodes of a kernel, and attention with configs as
queries and nodes as keys and values.

Node features are ln(3 + x), the loss is ListMLE over all configs of a slate. The write-up gives neither steps
nor restart probability of APPNP: 10 and 0.1 here, as in the method's paper. The places of norms, the depth of
the small networks and the number of heads are also chosen here. Written from the write-up, not compared with
the authors' code.
"""

from functools import partial

from tpugraphs.recipes.base import Recipe, TrainingFields, always, chosen, kaggle, option
from tpugraphs.recipes.blocks import EMA, OPCODES, Steps, join_digits, opcodes, step, tile_scale

OPCODE_ROWS = OPCODES + 1


class Tenth(TrainingFields):
    """Fields that layout and tile recipes share."""

    opcode_columns: int = 32
    width: int = 256
    heads: int = option(4, 1, 64, doc="heads of the attention; they share a layer's columns")
    unit: str = option("residual", choices=("residual", "gated"), doc="how a block's result joins its input")
    block: str = option("appnp", choices=("appnp", "sage"), doc="kind of message passing")
    propagation: int = option(10, 1, 64, doc="steps of APPNP")
    restart: float = option(0.1, 0.0, 1.0, doc="share of the first activations in every step of APPNP")
    direction: str = "both"
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    clip: float = 1e9


class TenthLayout(Tenth):
    """Fields of ``tenth-layout``."""

    blocks: int = option(12, 1, 32, doc="blocks")
    embed_digits: bool = option(False, doc="a digit of a config has an embedding, in place of its number")
    configs: int = option(1000, high=4096)
    prune: str = "none"
    chunk: int = option(1024, high=4096)


class TenthTile(Tenth):
    """Fields of ``tenth-tile``."""

    blocks: int = option(4, 1, 32, doc="graph blocks")
    configs: int = 1024
    metric: str = "top5"
    chunk: int = 4096


def _join(name: str, x: str, y: str, out: str, fields: Tenth) -> Steps:
    """List x + y, or a gate between the two, computed from both."""
    if fields.unit == "residual":
        return [step("add", f"{name}_join", [x, y], out)]
    return [
        step("concat", f"{name}_pair", [x, y]),
        step("linear", f"{name}_gate", [f"{name}_pair"], f"{name}_open", out=fields.width),
        step("gate", f"{name}_join", [f"{name}_open", y, x], out),
    ]


def _ask(op: str, name: str, queries: str, keys: str, out: str, fields: Tenth) -> Steps:
    """List attention of `queries` over `keys`, which are also the values."""
    inputs = {f"{name}_q": queries, f"{name}_k": keys, f"{name}_v": keys}
    model = [step("linear", one, [slot], out=fields.width) for one, slot in inputs.items()]
    return [*model, step(op, out, [*inputs], heads=fields.heads)]


def _attend(name: str, x: str, out: str, fields: Tenth, op: str) -> Steps:
    """List attention among the nodes, after a norm."""
    return [
        step("layer_norm", f"{name}_norm", [x], f"{name}_in"),
        *_ask(op, name, f"{name}_in", f"{name}_in", f"{name}_seen", fields),
        step("linear", f"{name}_out", [f"{name}_seen"], out=fields.width),
        *_join(name, x, f"{name}_out", out, fields),
    ]


def _pass(name: str, x: str, out: str, fields: Tenth) -> Steps:
    """List message passing, after a norm."""
    if fields.block == "sage":
        messages = [step("sage", f"{name}_sage", [f"{name}_in"], f"{name}_passed", out=fields.width,
                         direction=fields.direction)]  # fmt: skip
    else:
        messages = [
            step("linear", f"{name}_mlp0", [f"{name}_in"], f"{name}_hidden", out=fields.width, act="gelu"),
            step("linear", f"{name}_mlp1", [f"{name}_hidden"], f"{name}_start", out=fields.width),
            step("propagate", f"{name}_appnp", [f"{name}_start"], f"{name}_passed", steps=fields.propagation,
                 alpha=fields.restart, direction=fields.direction),
        ]  # fmt: skip
    return [
        step("layer_norm", f"{name}_norm", [x], f"{name}_in"),
        *messages,
        *_join(name, x, f"{name}_passed", out, fields),
    ]


def _nodes(fields: Tenth) -> Steps:
    """List the steps from node features and opcodes to `h0`."""
    return [
        opcodes("node_feat", OPCODE_ROWS, fields.opcode_columns),
        step("linear", "first", ["opcodes"], "h0", out=fields.width),
    ]


def layout_steps(fields: TenthLayout) -> Steps:
    """List the steps of the layout model."""
    model, values = _nodes(fields), "embedded" if fields.embed_digits else "numbers"
    for i in range(fields.blocks):
        model += _attend(f"attention{i}", f"h{i}", f"a{i}", fields, "linear_attention")
        model += _pass(f"graph{i}", f"a{i}", f"h{i + 1}", fields)
    return [
        *model,
        step("layer_norm", "last_norm", [f"h{fields.blocks}"], "nodes"),
        step("take_config_nodes", "configurable", ["nodes"]),
        join_digits("join", "configurable", "join_z", fields.width, out=fields.width, values=values),
        step("activation", "join_act", ["join_z"], "joined", act="gelu"),
        step("linear", "mlp", ["joined"], "mlp_a", out=fields.width, act="gelu"),
        step("pool", "pool", ["mlp_a"], "pooled", kind="mean"),
        step("linear", "head", ["pooled"], "scores", out=1),
    ]


def tile_steps(fields: TenthTile) -> Steps:
    """List the steps of the tile model."""
    model = _nodes(fields)
    for i in range(fields.blocks):
        model += _pass(f"graph{i}", f"h{i}", f"h{i + 1}", fields)
    return [
        *model,
        *_attend("nodes", f"h{fields.blocks}", "seen", fields, "attention"),
        step("layer_norm", "seen_norm", ["seen"], "answers"),
        step("linear", "config0", ["config_feat"], "config_a", out=fields.width, act="gelu"),
        step("linear", "config1", ["config_a"], "config", out=fields.width),
        *_ask("attention", "ask", "config", "answers", "asked", fields),
        step("add", "told", ["config", "asked"]),
        step("layer_norm", "told_norm", ["told"], "told_n"),
        step("linear", "mlp", ["told_n"], "mlp_a", out=fields.width, act="gelu"),
        step("linear", "head", ["mlp_a"], "scores", out=1),
    ]


_tenth = partial(Recipe, loss=always([{"loss": "list_mle", "reduction": "sum"}]), source=kaggle("tenth"))
_LOGARITHMS = {"step": "log-columns", "offset": 3}
_CPU = {"steps": 2000, "width": 64, "learning_rate": 1e-3}
_CPU_LAYOUT = {**_CPU, **EMA, "blocks": 3, "embed_digits": True, "configs": 128, "prune": "config-1hop"}

RECIPES = (
    _tenth(
        name="tenth-layout",
        summary="A graph transformer runs once per graph; configs join at the configurable nodes alone.",
        options=TenthLayout,
        presets={"cpu": _CPU_LAYOUT, "full": {"epochs": 16, "schedule": "cosine"}},
        steps=layout_steps,
        preprocessing=chosen(_LOGARITHMS),
    ),
    _tenth(
        name="tenth-tile",
        summary="Propagation and attention over a kernel, then tile configs ask and its nodes answer.",
        options=TenthTile,
        presets={"cpu": {**_CPU, "blocks": 2, "configs": 256}, "full": {"epochs": 5, "schedule": "cosine"}},
        steps=tile_steps,
        preprocessing=chosen(_LOGARITHMS, tile_scale("log")),
        kind="tile",
    ),
)
