"""Graph Segment Training (Cao et al. 2023), which the seventh place of the competition built on.

``seventh-gst`` scores a graph in segments of a thousand nodes, see ``csrc/store/segments.h``. So it
trains on whole graphs, not pruned, in the memory of one segment. The model of a segment is that of the
paper's code: standardised features, an opcode's embedding of length 1 at most, and the digits of the config
as numbers; two linear layers, three of GraphSAGE without activations between them, mean plus maximum over the
nodes, divided by its length, and two linear layers. Outputs of activations are also divided by their length,
GraphGym's default. The embedding is multiplied by one learnt scale, every digit by a separate one; they begin
at 100.

The preset ``cpu`` has smaller initial scales and a higher learning rate; ``full`` is as in the code: Adam
with 5e-4 of every weight added to its gradient, as in GraphGym, a cosine, 32 graphs in a step, and no
gradient clipping. :meth:`tpugraphs.Ranker.from_torch` reads its PyTorch weights (546,197); ``PUBLISHED`` are
the names.

What differs: the trained segment counts for all segments without a stored score; in the code always for (P -
1) / 2 + 1 of P, and a score that was never stored counts as 0. The code stores and reads the scores of all
graphs of a batch under the configs drawn for the last one; here every graph has its own. No batch is smaller
than the others. Features are scaled by the training graphs, there by all splits. The learning rate falls with
every step, there with every epoch. The bound of the embedding's rows is part of the model, so gradients go
through it; PyTorch's `max_norm` shortens the table itself.

Compared with ``kaidic/GST`` at commit d19f412 (configs/tpugraphs.yaml), run with equal weights on the same
graphs: scores of whole graphs and of graphs in segments are equal to 3e-7, loss and gradients of a graph in
one segment to 7e-5.
"""

from tpugraphs.recipes.base import Recipe, Steps, TrainingFields, chosen, hinge, modules, option, step
from tpugraphs.recipes.blocks import NODE_COLUMNS, join_digits, mean_plus_max, standardize

OPCODE_ROWS = 128


class SeventhFields(TrainingFields):
    """Fields of ``seventh-gst``."""

    segment: int = 1000
    width: int = option(256, 16, 4096, doc="columns of every layer but the first, which has half of them")
    layers: int = option(3, 0, 16, doc="layers of message passing")
    opcode_columns: int = option(128, 1, 256, doc="columns of the opcode embedding")
    opcode_scale: float = option(100.0, 0.0, 1e6, doc="first value of the factor of the opcode embedding")
    digit_scale: float = option(100.0, 1e-6, 1e6, doc="first value of the factors of config digits")
    dropout: float = 0.1
    direction: str = "forward"
    prune: str = "none"
    margin: float = 0.1
    optimizer: str = "adam"
    weight_decay: float = option(5e-4, doc="a part of the gradient (adam), as GraphGym adds it")
    clip: float = 1e9
    configs: int = option(32, high=4096)


def steps(fields: SeventhFields) -> Steps:
    """List the steps of the model of a segment."""
    width, opcodes = fields.width, fields.opcode_columns
    embedding = {"source": "opcode", "rows": OPCODE_ROWS, "cols": opcodes, "max_norm": 1.0}
    scale = {"learn": "weight", "column": NODE_COLUMNS, "per_column": False, "init": fields.opcode_scale}
    digits = {"out": width // 2, "scale": fields.digit_scale, "learn_scale": True}
    return [
        step("embedding", "embedding", ["node_feat"], "nodes", **embedding),
        step("affine", "opcode_scale", ["nodes"], "scaled", **scale),
        join_digits("linear1", "scaled", "linear1", NODE_COLUMNS + opcodes, **digits),
        step("linear", "linear2", ["linear1"], out=width),
        step("dropout", "dropped", ["linear2"], p=fields.dropout),
        step("activation", "prelu", ["dropped"], act="prelu"),
        step("l2_normalise", "normed", ["prelu"], "h0"),
        *(
            step("sage", f"sage{i}", [f"h{i}"], f"h{i + 1}", out=width, direction=fields.direction)
            for i in range(fields.layers)
        ),
        *mean_plus_max(f"h{fields.layers}"),
        step("l2_normalise", "unit", ["pooled"]),
        step("linear", "head1", ["unit"], out=width, act="relu"),
        step("l2_normalise", "hidden", ["head1"]),
        step("linear", "head2", ["hidden"], "scores", out=1),
    ]


# Name of a parameter here -> in the published PyTorch model.
PUBLISHED = (
    *modules(embedding="emb", linear1="linear_map", linear2="pre_mp.Layer_0.layer.model"),
    (r"opcode_scale\.weight", "op_weights"),
    (r"linear1\.digit_scale", "config_weights"),
    (r"prelu\.slope", "pre_mp.Layer_0.post_layer.1.weight"),
    (r"sage([0-9]+)\.(weight|bias)_([lr])", r"gnn_layers.\1.model.lin_\3.\2"),
    (r"head1\.(weight|bias)", r"post_mp.layer_post_mp.model.0.Layer_0.layer.model.\1"),
    (r"head2\.(weight|bias)", r"post_mp.layer_post_mp.model.1.model.\1"),
)

_CPU_MODEL = {"width": 64, "opcode_columns": 32, "opcode_scale": 10.0, "digit_scale": 3.0}
_FULL = {"learning_rate": 1e-4, "schedule": "cosine", "dedup": "none", "config_sampling": "replacement"}

RECIPES = (
    Recipe(
        name="seventh-gst",
        summary="GraphSAGE over segments of whole graphs, one trained per step, the others as they were.",
        options=SeventhFields,
        presets={
            "cpu": {**_CPU_MODEL, "steps": 2000, "learning_rate": 3e-3, "accumulate": 2, "weight_decay": 0.0},
            "full": {**_FULL, "epochs": 20000, "accumulate": 32, "evaluate_every": 1000},
        },
        steps=steps,
        preprocessing=chosen(standardize()),
        loss=hinge("sum"),
        published=PUBLISHED,
        published_marks=(r"linear_map\.",),
        published_padding=0,
        source="Cao et al., 'Learning Large Graph Property Prediction via Graph Segment Training', 2023",
    ),
)
