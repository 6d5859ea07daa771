"""The seventh place: the model of a segment in graph segment training (Cao et al. 2023)."""

from torch import Tensor
from torch.nn import functional as fn

from . import Case, every_node, join, linear, sage
from .losses import hinge, per_slate
from .ninth import sent
from .sixth import bounded


def scores(w, g, fields) -> Tensor:
    opcodes = w["opcode_scale.weight"] * bounded(w["embedding.weight"])[g["node_opcode"]]
    digits = w["linear1.digit_scale"] * every_node(g)
    weights = {"weight": w["linear1.weight"], "bias": w["linear1.bias"]}
    x = fn.linear(join(g["node_feat"], opcodes, digits), **weights)
    x = fn.normalize(fn.prelu(linear(w, "linear2", x), w["prelu.slope"]), dim=-1)
    for i in range(fields.layers):
        x = sage(w, f"sage{i}", x, sent(g, fields))
    x = fn.normalize(x.amax(1) + x.mean(1), dim=-1)
    x = fn.normalize(fn.relu(linear(w, "head1", x)), dim=-1)
    return linear(w, "head2", x).flatten()


def summed(s, y, v) -> Tensor:
    return hinge(s, y, 0.1).sum()


SIZES = {"width": 16, "opcode_columns": 4, "layers": 2}
CASES = [
    Case("seventh-gst", {"direction": direction, **SIZES}, scores, per_slate(summed))
    for direction in ("forward", "reverse", "both")
]
