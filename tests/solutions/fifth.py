"""The fifth place."""

import torch
from torch import Tensor
from torch.nn import functional as fn
from torch_geometric.nn import SAGEConv

from . import Case, conv, join, linear, part
from .losses import hinge, per_slate

TENSORS, DIMENSIONS = 3, 6
SCALARS, GROUPS = 53, 23  # columns of a node; numbers of each of its dimensions
ENCODER = {
    "in_proj": "self_attn.in_proj_",
    "out_proj": "self_attn.out_proj.",
    "linear1": "linear1.",
    "linear2": "linear2.",
    "norm1": "norm1.",
    "norm2": "norm2.",
}


def one_way(w, name, x, edges) -> Tensor:
    near, own = part(w, f"{name}_near"), w[f"{name}_self.weight"]
    weights = {"lin_l.weight": near["weight"], "lin_l.bias": near["bias"], "lin_r.weight": own}
    return conv(SAGEConv(own.shape[1], len(own)), weights, x, edges)


def graph_model(w, g, x, fields) -> Tensor:
    x, edges = linear(w, "first", x).relu(), g["edge_index"].T
    for i in range(fields.layers):
        ways = one_way(w, f"along{i}", x, edges), one_way(w, f"against{i}", x, edges.flip(0))
        x = torch.cat(ways, -1).relu()
    return linear(w, "head", x.sum(1))[:, 0]


def own_layouts(g) -> Tensor:
    """(C, N, 3, 6): those of the config, elsewhere the node's own three times."""
    layouts = g["layout_digits"][None, :, None].repeat(len(g["digits"]), 1, TENSORS, 1)
    layouts[:, g["config_nodes"]] = g["digits"].unflatten(-1, (TENSORS, DIMENSIONS))
    return layouts


def inverted(layouts) -> Tensor:
    """The place of every dimension in a list, -1 where it is not: (..., 6)."""
    found = layouts[..., None, :] == torch.arange(DIMENSIONS)[:, None]  # (..., dimension, place)
    return torch.where(found.any(-1), found.int().argmax(-1), -1)


def layout_scores(w, g, fields) -> Tensor:
    layouts = own_layouts(g)
    columns = layouts.flatten(2).double(), inverted(layouts).flatten(2).double()
    return graph_model(w, g, join(g["node_feat"], w["opcodes.weight"][g["node_opcode"]], *columns), fields)


def encoder_layer(w, name, x, fields) -> Tensor:
    layer = torch.nn.TransformerEncoderLayer(
        fields.token_columns, fields.heads, fields.hidden, dropout=0.0, batch_first=True
    )
    weights = {}
    for key, value in part(w, name).items():
        module, _, kind = key.rpartition("_")
        weights[ENCODER[module] + kind] = value
    return conv(layer, weights, x)


def tokens(w, g, fields) -> Tensor:
    """(C, K, columns of a token): a transformer over the dimensions of every configurable node."""
    groups = g["node_feat"][g["config_nodes"], SCALARS:].unflatten(-1, (GROUPS, DIMENSIONS)).mT  # (K, 6, 23)
    places = inverted(g["digits"].unflatten(-1, (TENSORS, DIMENSIONS))).mT + 1  # (C, K, 6, 3)
    places = fn.one_hot(places, DIMENSIONS + 1).flatten(-2).double()
    x = groups @ w["tokens0.weight"].T + places @ w["tokens0.position"] + w["tokens0.bias"]
    x = x.relu().flatten(0, 1)
    for i in range(fields.token_layers):
        x = encoder_layer(w, f"tokens{i + 1}", x, fields)
    return x.mean(1).unflatten(0, places.shape[:2])


def dimension_scores(w, g, fields) -> Tensor:
    plain = linear(w, "plain", torch.cat([g["node_feat"], g["layout_digits"].double()], -1)).relu()
    dimensions = plain.repeat(len(g["digits"]), 1, 1)
    dimensions[:, g["config_nodes"]] = tokens(w, g, fields)
    opcodes = w["opcodes.weight"][g["node_opcode"]]
    return graph_model(w, g, join(g["node_feat"][:, :SCALARS], opcodes, dimensions), fields)


def tile_scores(w, g, fields) -> Tensor:
    opcodes = w["opcodes.weight"][g["node_opcode"]]
    return graph_model(w, g, join(g["node_feat"], opcodes, g["config_feat"][:, None]), fields)


def of_slates_and_batch(slates) -> Tensor:
    """Half over the pairs of a graph, half over all pairs of the batch."""
    apart = torch.stack([hinge(s, y, 1).mean() for s, y, _ in slates]).mean()
    together = hinge(torch.cat([s for s, *_ in slates]), torch.cat([y for _, y, _ in slates]), 1).mean()
    return 0.5 * apart + 0.5 * together


SIZES = {"opcode_columns": 5, "width": 12, "layers": 2}
TOKENS = {"token_columns": 8, "heads": 2, "hidden": 10}
CASES = [
    Case("fifth-layout", SIZES, layout_scores, of_slates_and_batch),
    Case("fifth-dimension", {**SIZES, **TOKENS}, dimension_scores, of_slates_and_batch),
    Case("fifth-tile", SIZES, tile_scores, per_slate(lambda s, y, v: hinge(s, y, 0.1).mean())),
]
