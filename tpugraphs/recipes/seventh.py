"""Graph Segment Training (Cao et al. 2023), which the seventh place of the competition built on.

``seventh-gst`` scores a graph in segments of a thousand nodes, see :mod:`tpugraphs.training.segments`. So it
trains on graphs as they are, not pruned, in the memory of one segment. The model of a segment is that of the
paper's code: standardised features, an opcode's embedding of length 1 at most, and the digits of the config
as numbers; two linear layers, three of GraphSAGE without activations between them, mean plus maximum over
the nodes, divided by its length, and two linear layers. What an activation makes is divided by its length,
too: GraphGym does so unless it is told not to. The embedding is multiplied by one learnt scale,
every digit by one of its own; they begin at 100.

The preset ``cpu`` has smaller scales to begin with and a higher learning rate. What differs: the segment that
is trained counts for all that are not represented; in the code always for (P - 1) / 2 + 1 of P, and a score
that was never stored counts as 0. A slate has no config twice. The bound of the embedding's rows is part of
the model, so gradients go through it; PyTorch's `max_norm` shortens the table itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpugraphs._core import SCHEMA
from tpugraphs.recipes.base import Recipe, TrainingFields, option, step

FEATURES = SCHEMA["node_features"]
OPCODE_ROWS = 128


@dataclass(frozen=True)
class SeventhFields(TrainingFields):
    """Fields of ``seventh-gst``."""

    segment: int = option(
        1000, 0, 1 << 30, doc="nodes of a segment, at most: a step trains one per graph; 0: whole graphs"
    )
    width: int = option(256, 16, 4096, doc="columns of every layer but the first, which has half of them")
    layers: int = option(3, 0, 16, doc="layers of message passing")
    opcode_columns: int = option(128, 1, 256, doc="columns of the opcode embedding")
    opcode_scale: float = option(
        100.0, 0.0, 1e6, doc="learnt factor of the opcode embedding: its first value"
    )
    digit_scale: float = option(
        100.0, 1e-6, 1e6, doc="learnt factors of the config digits: their first value"
    )
    dropout: float = option(0.1, 0.0, 0.95, doc="chance that an activation is dropped in training")
    direction: str = option(
        "forward",
        choices=("forward", "reverse", "both"),
        doc="messages along the edges, back, or both ways",
    )
    prune: str = option("none", doc="nodes kept: a method of tpugraphs.preprocess.prune, or none")
    margin: float = option(0.1, 0.0, 1e6, doc="of the hinge: by how much a slower config must score higher")
    clip: float = option(1e9, 1e-6, 1e9, doc="global norm that a gradient is scaled down to")
    configs: int = option(32, 2, 4096, doc="configs of a slate, at most")


def preprocessing(fields: SeventhFields) -> list[dict[str, Any]]:
    """Prune if asked to, remove equal configs (training only), scale all columns."""
    return [
        {"step": "prune", "method": fields.prune},
        {"step": "dedup", "keep": fields.dedup},
        {"step": "standardize", "columns": FEATURES},
    ]


def steps(fields: SeventhFields) -> list[dict[str, Any]]:
    """List the steps of the model of a segment."""
    width, opcodes = fields.width, fields.opcode_columns
    return [
        step("embedding", "embedding", ["node_feat"], "nodes",
              source="opcode", rows=OPCODE_ROWS, cols=opcodes, max_norm=1.0),
        step("affine", "opcode_scale", ["nodes"], "scaled",
              learn="weight", column=FEATURES, per_column=False, init=fields.opcode_scale),
        step("config_linear", "linear1", ["scaled"], column=FEATURES + opcodes, out=width // 2,
              values="numbers", scale=fields.digit_scale, learn_scale=True),
        step("linear", "linear2", ["linear1"], out=width),
        step("dropout", "dropped", ["linear2"], p=fields.dropout),
        step("activation", "prelu", ["dropped"], act="prelu"),
        step("l2_normalise", "normed", ["prelu"], "h0"),
        *(
            step("sage", f"sage{i}", [f"h{i}"], f"h{i + 1}", out=width, direction=fields.direction)
            for i in range(fields.layers)
        ),
        step("pool", "mean", [f"h{fields.layers}"], kind="mean"),
        step("pool", "max", [f"h{fields.layers}"], kind="max"),
        step("add", "pooled", ["mean", "max"]),
        step("l2_normalise", "unit", ["pooled"]),
        step("linear", "head1", ["unit"], out=width, act="relu"),
        step("l2_normalise", "hidden", ["head1"]),
        step("linear", "head2", ["hidden"], "scores", out=1),
    ]  # fmt: skip


def hinge(fields: SeventhFields) -> list[dict[str, Any]]:
    """Sum over the pairs of a graph."""
    return [{"loss": "pairwise_hinge", "margin": fields.margin, "reduction": "sum"}]


_ADAM = {"optimizer": "adam", "weight_decay": 0.0}

RECIPES = (
    Recipe(
        name="seventh-gst",
        summary="GraphSAGE over segments of whole graphs, one trained per step, the others as they were.",
        options=SeventhFields,
        presets={
            "cpu": {
                "steps": 2000,
                "width": 64,
                "opcode_columns": 32,
                "opcode_scale": 10.0,
                "digit_scale": 3.0,
                "learning_rate": 3e-3,
                "accumulate": 2,
                **_ADAM,
            },
            "full": {
                "epochs": 20000,
                "accumulate": 32,
                "learning_rate": 1e-4,
                "schedule": "constant",
                "evaluate_every": 1000,
                **_ADAM,
            },
        },
        steps=steps,
        preprocessing=preprocessing,
        loss=hinge,
        source="Cao et al., 'Learning Large Graph Property Prediction via Graph Segment Training', 2023",
    ),
)
