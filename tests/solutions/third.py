"""The third place."""

import math

import torch
from torch import Tensor
from torch.nn import functional as fn
from torch_geometric.nn import SimpleConv

from . import Case, every_node, join, linear, part, sage
from .losses import hinge, per_slate


def norm(w, name, x) -> Tensor:
    return fn.layer_norm(x, x.shape[-1:], **part(w, f"{name}_norm"))


def dense(w, name, x, to) -> Tensor:
    """Linear layer `name`, SiLU, and layer norm `to`."""
    return norm(w, to, fn.silu(linear(w, name, x)))


def messages(w, name, x, g, fields) -> Tensor:
    """What a node is, what its consumers send, what its producers send."""
    mean, edges = SimpleConv(aggr="mean"), g["edge_index"].T
    received, back = linear(w, f"{name}_out", x), edges.flip(0)
    from_producers = mean(received, back)
    if fields.degrees == "published":  # by the operands of the producer, not by those of the node
        own = torch.bincount(edges[0], minlength=x.shape[-2]).clamp(min=1)
        from_producers = SimpleConv(aggr="sum")(received / own[:, None], back)
    return torch.cat(
        [linear(w, f"{name}_self", x), mean(linear(w, f"{name}_in", x), edges), from_producers], -1
    )


def attention(w, name, x) -> Tensor:
    q, k = (fn.elu(linear(w, f"{name}_{which}", x)) + 1 for which in "qk")
    return q @ (k.mT @ linear(w, f"{name}_v", x))


def layout_scores(w, g, fields) -> Tensor:
    walks = fields.directed_steps + fields.undirected_steps - 1
    features, walked = g["node_feat"][:, :-walks], g["node_feat"][:, -walks:]
    p = linear(w, "position", walked).tanh()
    opcodes = w["opcodes.weight"][g["node_opcode"]]
    x = dense(w, "first", join(features, every_node(g, fields.config_scale), opcodes), "x0")
    for i in range(fields.blocks):
        h = join(p, x)
        a = norm(w, f"sage{i}_mixed", fn.silu(messages(w, f"sage{i}", h, g, fields)))
        a = dense(w, f"sage{i}_linear", a, f"sage{i}")
        p = linear(w, f"p{i + 1}_linear", messages(w, f"p{i + 1}", p, g, fields).tanh()).tanh()
        x = dense(w, f"join{i}", torch.cat([a, attention(w, f"attention{i}", h)], -1), f"x{i + 1}")
    x = dense(w, "mlp1", dense(w, "mlp0", join(p, x), "m0"), "m1")
    return linear(w, "head", x.sum(1))[:, 0]


def tile_scores(w, g, fields) -> Tensor:
    opcodes = w["opcodes.weight"][g["node_opcode"]]
    x = dense(w, "first", join(g["node_feat"], opcodes, g["config_feat"][:, None] / 5), "x0")
    for i in range(fields.blocks):
        x = norm(w, f"x{i + 1}", fn.silu(sage(w, f"sage{i}", x, g["edge_index"])))
    return linear(w, "head", x.sum(1))[:, 0]


def tile_loss(s, y, v) -> Tensor:
    """The published one and 1 / ln 2: 0 is the least."""
    return 1 / math.log(2) - 1 / (2 + hinge(s, y, 1).sum()).log()


SIZES = {"opcode_columns": 4, "first": 12, "width": 8}
LAYOUT = {**SIZES, "blocks": 2, "message": 5, "keys": 6, "position": 6, "position_message": 3}
CASES = [
    *(
        Case(
            "third-layout",
            {"degrees": degrees, **LAYOUT, **more},
            layout_scores,
            per_slate(lambda s, y, v: hinge(s, y, 1).sum()),
        )
        for degrees, more in (("published", {}), ("receiver", {"program": True}))
    ),
    Case("third-tile", {**SIZES, "blocks": 3}, tile_scores, per_slate(tile_loss)),
]
