"""The fourth place: a small network over the edges of configurable nodes, without message passing.

A row is an edge whose consumer is configurable: a few features of both ends and their opcodes. A network over
these rows sees no config and runs once per graph. Per config a second network sees the digits of the
configurable node and the mean of all edges. A config is described by the products of both networks' outputs,
summed over nodes, and by the mean of the second; a third network turns this into a score. Scores fit the
share of configs that are faster.

The write-up gives no widths, no optimizer and no exact list of features. Here a linear layer makes 12
features of all. The published model reads 8 of the 18 digits; here it reads all. It computes the second
network once per edge; here it runs once per node, as it sees only the node's digits and that mean, and the
products take the sum over the node's edges. All means are sums divided by the number of configurable nodes,
not of edges. Written from the write-up, not compared with the authors' code.
"""

from tpugraphs.recipes.base import Recipe, TrainingFields, always, chosen, kaggle, option
from tpugraphs.recipes.blocks import EMA, OPCODES, Steps, opcodes, step


class Fourth(TrainingFields):
    """Fields of ``fourth-layout``."""

    opcode_columns: int = 16
    node_columns: int = option(12, 1, 1024, doc="columns that the node features are reduced to")
    edge_width: int = option(64, 1, 4096, doc="columns of the network over edges")
    edge_columns: int = option(32, 1, 1024, doc="columns that describe an edge")
    config_width: int = option(64, 1, 4096, doc="columns of the network over configs")
    config_columns: int = option(32, 1, 1024, doc="columns that describe a configurable node's config")
    width: int = option(128, 1, 4096, doc="columns of the last network")
    prune: str = "config-1hop"
    configs: int = option(128, high=4096)
    target: str = option("percentile", choices=("percentile", "normal-score"))
    chunk: int = option(512, high=4096)


def _relu(name: str, slot: str, out: int) -> Steps:
    return [step("linear", name, [slot], out=out, act="relu")]


def steps(fields: Fourth) -> Steps:
    """List the steps of the model."""
    return [
        step("linear", "reduce", ["node_feat"], out=fields.node_columns),
        opcodes("reduce", OPCODES, fields.opcode_columns),
        step("edge_ends", "ends", ["opcodes"]),
        *_relu("edge0", "ends", fields.edge_width),
        *_relu("edge1", "edge0", fields.edge_columns),
        step("edge_pool", "of_node", ["edge1"], kind="sum", end="consumer"),
        step("take_config_nodes", "edges", ["of_node"]),
        step("pool", "edge_mean", ["edges"], kind="mean"),
        step("config_columns", "digits", [], of="config_nodes"),
        step("concat", "seen", ["digits", "edge_mean"]),
        *_relu("config0", "seen", fields.config_width),
        *_relu("config1", "config0", fields.config_columns),
        step("outer_pool", "products", ["edges", "config1"], mean=True),
        step("pool", "config_mean", ["config1"], kind="mean"),
        step("concat", "described", ["products", "config_mean"]),
        *_relu("head0", "described", fields.width),
        *_relu("head1", "head0", fields.width),
        step("linear", "head", ["head1"], "scores", out=1),
    ]


RECIPES = (
    Recipe(
        name="fourth-layout",
        summary="A network over the edges of configurable nodes, without messages, that fits ranks.",
        options=Fourth,
        presets={"cpu": {"steps": 2000, **EMA}, "full": {}},
        steps=steps,
        preprocessing=chosen({"step": "log-columns", "form": "signed"}),
        loss=always([{"loss": "mse"}]),
        source=kaggle("fourth"),
    ),
)
