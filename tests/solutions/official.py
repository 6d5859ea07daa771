"""The baselines of the data set. Their messages are products with the adjacency matrix."""

import torch
from torch import Tensor
from torch.nn import functional as fn
from torch_geometric.utils import remove_self_loops, to_dense_adj

from . import Case, every_node, join, linear
from .losses import list_mle, per_slate


def leaky(x) -> Tensor:
    return fn.leaky_relu(x, 0.2)


def adjacency(g, loops) -> Tensor:
    """A (N, N), A[v, u] = number of edges (u, v)."""
    edges = g["edge_index"].T if loops else remove_self_loops(g["edge_index"].T)[0]
    return to_dense_adj(edges, max_num_nodes=len(g["node_feat"]))[0].T.double()


def with_opcodes(w, g) -> Tensor:
    return torch.cat([g["node_feat"], w["opcodes.weight"][g["node_opcode"]]], -1)


def sage_layers(w, g, x, fields) -> Tensor:
    a = adjacency(g, loops=True)
    for i in range(fields.layers):
        x = fn.normalize(leaky(linear(w, f"sage{i}_linear", torch.cat([(a + a.T) @ x, x], -1))), dim=-1)
    return x


def gcn_layers(w, g, x, fields) -> Tensor:
    """Every node has one edge from itself, whatever the graph has."""
    a = adjacency(g, loops=False) + torch.eye(len(g["node_feat"]))
    p = a / a.sum(1, keepdim=True)
    x = linear(w, "first1", leaky(linear(w, "first0", x)))
    for i in range(fields.layers):
        y = leaky(x)
        y = leaky(linear(w, f"resgcn{i}_mlp0", p @ y + p.T @ y + y))
        x = x + linear(w, f"resgcn{i}_mlp1", y)
    return leaky(x)


def tile_scores(w, g, fields) -> Tensor:
    join_at, _, kind = fields.variant.rpartition("-")
    x, config = with_opcodes(w, g), g["config_feat"]
    if join_at == "early":
        x = join(x, config[:, None])
    x = {"sage": sage_layers, "resgcn": gcn_layers, "mlp": lambda w, g, x, fields: x}[kind](w, g, x, fields)
    x = x.sum(-2)
    if join_at != "early":
        x = join(x, config)
    x = leaky(linear(w, "head0", x))
    if kind != "resgcn":
        x = leaky(linear(w, "head1", x))
    return linear(w, "score", x)[:, 0]


def tile_loss(s, y, v) -> Tensor:
    return (list_mle(s / 10, y) + 0.02 * fn.mse_loss(s, v)) / 1.02


def layout_scores(w, g, fields) -> Tensor:
    config = every_node({**g, "digits": g["digits"] + 1}, 100 / 6)  # -1 to 5 as 0 to 100
    a = adjacency(g, loops=False)
    a = a + a.T + torch.eye(len(a))
    root = a.sum(0).rsqrt()
    a = root[:, None] * a * root
    x = linear(w, "pre1_0", leaky(linear(w, "pre0", join(config, with_opcodes(w, g)))))
    x = leaky(x)
    for i in range(fields.layers):
        y = leaky(linear(w, f"block{i}_mlp0", a @ torch.cat([config, x], -1)))
        x = x + leaky(linear(w, f"block{i}_mlp1", y))
    sums = x.sum(1), x[:, g["config_nodes"]].sum(1)
    pooled = torch.cat([x.mean(1), *(fn.normalize(some, dim=-1) for some in sums)], -1)
    return linear(w, "post1", leaky(linear(w, "post0", pooled)))[:, 0]


TILE = {"opcode_columns": 6, "width": 8}
VARIANTS = ("early-sage", "late-sage", "early-resgcn", "late-resgcn", "mlp")
CASES = [
    *(
        Case("official-tile", {"variant": kind, **TILE}, tile_scores, per_slate(tile_loss))
        for kind in VARIANTS
    ),
    Case(
        "official-layout",
        {"opcode_columns": 6, "width": 8},
        layout_scores,
        per_slate(lambda s, y, v: list_mle(s, y)),
    ),
]
