"""The fifth place."""

from functools import partial

import torch
from torch import Tensor
from torch_geometric.nn import SAGEConv

from . import Case, conv, join, linear, part
from .losses import hinge

TENSORS, DIMENSIONS = 3, 6
SCALARS, GROUPS = 53, 23  # columns of a node; numbers of each of its dimensions
KERNEL, OUTPUT, INPUT = (slice(first, first + DIMENSIONS) for first in (0, 8, 16))  # of a tile config
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


def layouts_of_nodes(g) -> Tensor:
    """(C, N, 3, 6): those of the config, elsewhere the node's own three times."""
    layouts = g["layout_digits"][None, :, None].repeat(len(g["digits"]), 1, TENSORS, 1)
    layouts[:, g["config_nodes"]] = g["digits"].unflatten(-1, (TENSORS, DIMENSIONS))
    return layouts


def places_of(layouts) -> Tensor:
    """(..., 6): the place of every dimension in a list, -1 where it is not; a number below -1 is an index."""
    places = torch.full(layouts.shape, -1)
    for place in range(DIMENSIONS):
        at = torch.where(layouts[..., place] != -1)
        places[(*at, layouts[(*at, torch.full_like(at[0], place))])] = place
    return places


def layout_scores(w, g, fields) -> Tensor:
    opcodes = w["opcodes.weight"][g["node_opcode"]]
    return graph_model(w, g, join(g["node_feat"], opcodes, layouts_of_nodes(g).flatten(2).double()), fields)


def encoder_layer(w, name, x, fields) -> Tensor:
    layer = torch.nn.TransformerEncoderLayer(
        fields.token_columns, fields.heads, fields.hidden, dropout=0.0, batch_first=True
    )
    weights = {}
    for key, value in part(w, name).items():
        module, _, kind = key.rpartition("_")
        weights[ENCODER[module] + kind] = value
    return conv(layer, weights, x)


def token_scores(w, g, tensors, fields) -> Tensor:
    """With further numbers of the dimensions of every node, (C, N, 6, ...)."""
    groups = g["node_feat"][:, SCALARS : SCALARS + GROUPS * DIMENSIONS].unflatten(-1, (GROUPS, DIMENSIONS)).mT
    numbers = torch.arange(DIMENSIONS)[:, None].expand(*tensors.shape[:3], 1)
    x = torch.cat([groups.expand(len(tensors), -1, -1, -1), tensors, numbers], -1)
    x = linear(w, "tokens0", x).relu().flatten(0, 1)
    for i in range(fields.token_layers):
        x = encoder_layer(w, f"tokens{i + 1}", x, fields)
    opcodes = w["opcodes.weight"][g["node_opcode"]]
    x = x.mean(1).unflatten(0, tensors.shape[:2])
    return graph_model(w, g, join(g["node_feat"][:, :SCALARS], opcodes, x), fields)


def dimension_scores(w, g, fields) -> Tensor:
    places = places_of(layouts_of_nodes(g)).mT.double()
    tiles = g["node_feat"][:, SCALARS + GROUPS * DIMENSIONS :].unflatten(-1, (TENSORS, DIMENSIONS)).mT
    return token_scores(w, g, torch.cat([tiles.expand(len(places), -1, -1, -1), places], -1), fields)


def tile_scores(w, g, fields) -> Tensor:
    tiles = torch.stack([g["config_feat"][:, part] for part in (KERNEL, OUTPUT, INPUT)], -1)  # (C, 6, 3)
    places = places_of(g["layout_digits"])[:, :, None].expand(-1, -1, TENSORS).double()  # (N, 6, 3)
    return token_scores(w, g, join(places, tiles[:, None]), fields)


def of_slates_and_batch(slates, margin) -> Tensor:
    """Half over the pairs of a graph, half over all pairs of the batch."""
    apart = torch.stack([hinge(s, y, margin).mean() for s, y, _ in slates]).mean()
    together = torch.cat([s for s, *_ in slates]), torch.cat([y for _, y, _ in slates])
    return 0.5 * apart + 0.5 * hinge(*together, margin).mean()


SIZES = {"opcode_columns": 5, "width": 12, "layers": 2}
TOKENS = {"token_columns": 8, "heads": 2, "hidden": 10}
CASES = [
    Case("fifth-layout", SIZES, layout_scores, partial(of_slates_and_batch, margin=1)),
    Case("fifth-dimension", {**SIZES, **TOKENS}, dimension_scores, partial(of_slates_and_batch, margin=1)),
    Case("fifth-tile", {**SIZES, **TOKENS}, tile_scores, partial(of_slates_and_batch, margin=0.1)),
]
