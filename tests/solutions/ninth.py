"""The ninth place."""

import torch
from torch import Tensor
from torch.nn import functional as fn
from torch_geometric.nn import GATConv, TransformerConv

from . import Case, conv, every_node, join, linear, part, sage
from .losses import hinge, per_slate


def sent(g, fields) -> Tensor:
    """(E, 2): every edge in the direction of its message."""
    edges = g["edge_index"]
    back = edges.flip(1)
    return {"forward": edges, "reverse": back, "both": torch.cat([edges, back])}[fields.direction]


def as_batch(module, weights, x, edges) -> Tensor:
    """A module of PyG that takes (N, F) alone, over the C configs of (C, N, F) as a batch of graphs."""
    copies = [edges.T + len(x[0]) * c for c in range(len(x))]
    return conv(module, weights, x.flatten(0, 1), torch.cat(copies, 1)).reshape(*x.shape[:2], -1)


def gat(w, i, x, edges, fields) -> Tensor:
    """A residual linear layer takes the place of self loops."""
    size, heads = x.shape[-1], fields.heads
    module = GATConv(size, fields.width // heads, heads, add_self_loops=False, residual=True)
    weights = {
        "lin.weight": w[f"values{i}.weight"],
        "att_src": w[f"sender{i}.att"][None],
        "att_dst": w[f"receiver{i}.att"][None],
        "res.weight": w[f"self{i}.weight"],
        "bias": w[f"self{i}.bias"],
    }
    return as_batch(module, weights, x, edges)


def transformer(w, i, x, edges, fields) -> Tensor:
    module = TransformerConv(x.shape[-1], fields.width // fields.heads, fields.heads)
    names = {"lin_query": "query", "lin_key": "key", "lin_value": "value", "lin_skip": "self"}
    weights = {
        f"{theirs}.{key}": value
        for theirs, ours in names.items()
        for key, value in part(w, f"{ours}{i}").items()
    }
    return as_batch(module, weights, x, edges)


def graph_sage(w, i, x, edges, fields) -> Tensor:
    return sage(w, f"conv{i}", x, edges)


def scores(layer):
    """The model with one kind of layer."""

    def run(w, g, fields) -> Tensor:
        opcodes = w["opcodes.weight"][g["node_opcode"]]
        x = linear(w, "first", join(g["node_feat"], opcodes, every_node(g))).relu()
        x = linear(w, "second", x).relu()
        for i in range(fields.layers):
            x = layer(w, i, x, sent(g, fields), fields)
            x = fn.layer_norm(x, x.shape[-1:], **part(w, f"norm{i}")).relu()
        x = fn.normalize(x.mean(1) + x.amax(1), dim=-1)
        return linear(w, "head1", linear(w, "head0", x).relu()).flatten()

    return run


def summed(s, y, v) -> Tensor:
    return hinge(s, y, 0.1).sum()


SIZES = {"width": 8, "opcode_columns": 4, "layers": 2}
CASES = [
    Case(name, {**fields, **SIZES}, scores(layer), per_slate(summed))
    for name, layer in (("ninth-sage", graph_sage), ("ninth-gat", gat), ("ninth-transformer", transformer))
    for fields in ({"heads": 2}, {"direction": "forward", "heads": 1}, {"direction": "reverse"})
]
