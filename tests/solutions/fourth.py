"""The fourth place, every network over edges once per edge."""

import torch
from torch import Tensor
from torch.nn import functional as fn

from . import Case, join, linear
from .losses import per_slate


def mlp(w, name, x) -> Tensor:
    return linear(w, f"{name}1", linear(w, f"{name}0", x).relu()).relu()


def scores(w, g, fields) -> Tensor:
    x = torch.cat([linear(w, "reduce", g["node_feat"]), w["opcodes.weight"][g["node_opcode"]]], -1)
    count = len(g["config_nodes"])
    place = torch.full((len(x),), -1)
    place[g["config_nodes"]] = torch.arange(count)
    u, v = g["edge_index"][place[g["edge_index"][:, 0]] >= 0].T  # the consumer is configurable
    a = mlp(w, "edge", torch.cat([x[u], x[v]], -1))
    b = mlp(w, "config", join(g["digits"].double(), a.sum(0) / count))
    products = torch.einsum("ea,ceb->cab", a, b[:, place[u]]) / count
    described = torch.cat([products.flatten(1), b.mean(1)], -1)
    return linear(w, "head", mlp(w, "head", described))[:, 0]


SIZES = {"node_columns": 4, "opcode_columns": 3, "edge_width": 8, "edge_columns": 5, "config_width": 7,
         "config_columns": 6, "width": 9}  # fmt: skip
CASES = [Case("fourth-layout", SIZES, scores, per_slate(lambda s, y, v: fn.mse_loss(s, v)))]
