"""Graph Segment Training (Cao et al. 2023), which the seventh place of the competition built on.

``seventh-gst`` scores a graph in segments of a thousand nodes, see :mod:`tpugraphs.training.segments`. So it
trains on graphs as they are, not pruned, in the memory of one segment. The model of a segment follows the
code of the paper: features, opcode and config of every node, two linear layers, three of GraphSAGE without
activations between them, mean and maximum over the nodes, divided by their length, and two linear layers.

The inputs differ. In the paper's code a digit is one number and an opcode has an embedding no longer than 1,
both times a learnt scale that begins at 100. Here a digit has an embedding, too. That of an opcode has no
bound, and a smaller factor, so that it has the same length at first. The learnt scales are one per column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpugraphs._core import SCHEMA
from tpugraphs.recipes.base import Recipe, TrainingFields, option, step

FEATURES = SCHEMA["node_features"]
OPCODE_ROWS = SCHEMA["opcodes"]


@dataclass(frozen=True)
class SeventhFields(TrainingFields):
    """Fields of ``seventh-gst``."""

    segment: int = option(
        1000, 0, 1 << 30, doc="nodes of a segment, at most: a step trains one per graph; 0: whole graphs"
    )
    width: int = option(256, 16, 4096, doc="columns of every layer but the first, which has half of them")
    layers: int = option(3, 0, 16, doc="layers of message passing")
    opcode_columns: int = option(128, 1, 256, doc="columns of the opcode embedding")
    opcode_scale: float = option(8.8, 0.0, 1e6, doc="factor of the opcode embedding, besides the learnt one")
    digit_columns: int = option(1, 1, 64, doc="columns of the embedding of config digits")
    dropout: float = option(0.1, 0.0, 0.95, doc="chance that an activation is dropped in training")
    direction: str = option(
        "forward",
        choices=("forward", "reverse", "both"),
        doc="messages along the edges, back, or both ways",
    )
    prune: str = option("none", doc="nodes kept: a method of tpugraphs.preprocess.prune, or none")
    margin: float = option(0.1, 0.0, 1e6, doc="of the hinge: by how much a slower config must score higher")
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
              source="opcode", rows=OPCODE_ROWS, cols=opcodes),
        step("affine", "scales", ["nodes"], learn="weight", column=FEATURES, scale=fields.opcode_scale),
        step("config_linear", "linear1", ["scales"],
              column=FEATURES + opcodes, cols=fields.digit_columns, out=width // 2),
        step("linear", "linear2", ["linear1"], out=width),
        step("dropout", "dropped", ["linear2"], p=fields.dropout),
        step("activation", "prelu", ["dropped"], "h0", act="prelu"),
        *(
            step("sage", f"sage{i}", [f"h{i}"], f"h{i + 1}", out=width, direction=fields.direction)
            for i in range(fields.layers)
        ),
        step("pool", "pool", [f"h{fields.layers}"], kind="mean+max"),
        step("l2_normalise", "unit", ["pool"]),
        step("linear", "head1", ["unit"], out=width, act="prelu"),
        step("linear", "head2", ["head1"], "scores", out=1),
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
                "opcode_scale": 1.0,
                "accumulate": 2,
                **_ADAM,
            },
            "full": {
                "epochs": 20000,
                "accumulate": 32,
                "learning_rate": 1e-4,
                "schedule": "constant",
                "clip": 1e9,
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
