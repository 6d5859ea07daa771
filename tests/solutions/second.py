"""The second place."""

from torch import Tensor
from torch.nn import functional as fn

from . import Case, every_node, join, linear, sage
from .losses import list_mle, per_slate


def scores(w, g, fields) -> Tensor:
    opcodes = w["opcodes.weight"][g["node_opcode"]]
    config = g["config_feat"][:, None, :] if "config_feat" in g else every_node(g)
    x = linear(w, "first", join(linear(w, "reduce", g["node_feat"]), opcodes, config)).relu()
    widths = [fields.width * 2**stage for stage in range(fields.stages) for _ in range(fields.layers)]
    for i, width in enumerate(widths):
        y = sage(w, f"sage{i}", x, g["edge_index"])
        assert y.shape[-1] == width
        x = (x + y if fields.residual and x.shape == y.shape else y).relu()
    return fields.score_scale * linear(w, "head", x).sum((1, 2))


def margin_ranking(s, y, margin) -> Tensor:
    """PyTorch's own over all pairs i < j; runtimes differ."""
    i, j = s.new_ones(len(s), len(s)).triu(1).nonzero().T
    return fn.margin_ranking_loss(s[i], s[j], (y[i] - y[j]).sign(), margin)


def differences_and_errors(s, y, v) -> Tensor:
    return margin_ranking(s, y, 0.01) / 0.01 + ((s - v).abs() / v.abs()).mean()


def clipped_list_mle(s, y, v) -> Tensor:
    return list_mle(s * (500 / s.norm()).clamp(max=1), y)


SIZES = {"node_columns": 5, "opcode_columns": 4, "first": 8, "width": 8, "stages": 2, "layers": 2}
ORDERED = {
    "pairs": "ordered"
}  # all pairs have an order here; slates of one size only are in test_published.py
CASES = [
    Case("second-xla", {**SIZES, **ORDERED}, scores, per_slate(differences_and_errors)),
    Case("second-nlp", SIZES, scores, per_slate(clipped_list_mle)),
    Case("second-nlp", {**SIZES, "score_scale": 1e4}, scores, per_slate(clipped_list_mle)),  # is clipped
    Case("second-tile", {**SIZES, **ORDERED}, scores, per_slate(lambda s, y, v: margin_ranking(s, y, 0.1))),
]
