"""The sixth place."""

import torch
from torch import Tensor
from torch.nn import functional as fn
from torch_geometric.nn import GATv2Conv, GINConv

from . import Case, conv, every_node, join, linear, part, sage
from .losses import list_mle, per_slate


def over_nodes(x) -> Tensor:
    """Instance norm of (C, N, F) or (N, F): PyTorch wants channels before the nodes."""
    return fn.instance_norm(x.reshape(-1, *x.shape[-2:]).mT).mT.reshape(x.shape)


def bounded(table) -> Tensor:
    """Rows of an embedding no longer than 1; gradients go through the bound, unlike PyTorch's `max_norm`."""
    return table / table.norm(dim=1, keepdim=True).clamp(min=1)


def scaled(w, name, x) -> Tensor:
    return x * w[f"{name}.weight"] + w[f"{name}.bias"] if f"{name}.weight" in w else x


def nodes(w, g) -> Tensor:
    return join(scaled(w, "scale", g["node_feat"]), bounded(w["opcodes.weight"])[g["node_opcode"]])


def first(w, x) -> Tensor:
    return fn.gelu(over_nodes(linear(w, "first", x)))


def second(w, x) -> Tensor:
    return fn.gelu(over_nodes(linear(w, "second", x)))


def gin_layer(w, i, x, edges) -> Tensor:
    x = conv(GINConv(torch.nn.Identity()), {}, x, edges.T)
    for name in (f"gin{i}_0", f"gin{i}_3"):
        x = fn.elu(over_nodes(linear(w, name, x)))
    return x


GATV2 = {"weight_l": "lin_l.weight", "bias_l": "lin_l.bias", "weight_r": "lin_r.weight", "bias_r": "lin_r.bias",
         "att": "att", "bias": "bias"}  # fmt: skip


def gatv2(w, name, x, edges) -> Tensor:
    """The edges have their self loops already."""
    weights = {GATV2[key]: value for key, value in part(w, name).items()}
    weights["att"] = weights["att"][None]
    module = GATv2Conv(x.shape[-1], len(weights["bias"]), add_self_loops=False)
    return conv(module, weights, x, edges.T)


def pooled(x) -> Tensor:
    return x.mean(-2) + x.amax(-2)


def head(w, x, fields) -> Tensor:
    """Scores of the pooled columns (C, F)."""
    for i in range(2):
        x = linear(w, f"head{i}", x)
        if fields.late_norm == "configs":
            x = fn.batch_norm(x, None, None, training=True)
        elif fields.late_norm == "layer":
            x = fn.layer_norm(x, x.shape[-1:])
        x = fn.gelu(x)
    return linear(w, "score", x).flatten()


def layout(w, g, fields) -> Tensor:
    x = second(w, first(w, join(nodes(w, g), every_node(g))))
    for i in range(fields.layers):
        x = fn.gelu(over_nodes(sage(w, f"sage{i}", x, g["edge_index"]) + x))
    return head(w, fn.normalize(pooled(x), eps=1e-4, dim=-1), fields)


def gin(w, g, fields) -> Tensor:
    """Of three layers or more, the last reads what the one before it reads."""
    made = [first(w, join(nodes(w, g), every_node(g)))]
    for i in range(fields.layers):
        read = made[-2] if 2 <= i == fields.layers - 1 else made[-1]
        made.append(gin_layer(w, i, read, g["edge_index"]))
    return head(w, sum(x.mean(-2) for x in made[1:]), fields)


def tile(w, g, fields) -> Tensor:
    x = second(w, first(w, nodes(w, g)))
    for i in range(fields.layers):
        x = fn.gelu(over_nodes(gatv2(w, f"gat{i}", x, g["edge_index"])))
    return head(w, join(pooled(x), scaled(w, "config_scale", g["config_feat"])), fields)


def logistic(s, y, v) -> Tensor:
    """Over all pairs i < j: how likely j is the slower one. Runtimes differ."""
    i, j = s.new_ones(len(s), len(s)).triu(1).nonzero().T
    return fn.binary_cross_entropy_with_logits(s[j] - s[i], (y[j] > y[i]).to(s.dtype))


SIZES = {"width": 8, "opcode_columns": 4, "layers": 2}
CASES = [
    *(
        Case(name, {**fields, **SIZES, "layers": layers}, scores, per_slate(logistic))
        for name, scores, layers in (("sixth-layout", layout, 2), ("sixth-gin", gin, 2), ("sixth-gin", gin, 4))
        for fields in ({}, {"late_norm": "none", "trainable_scale": False}, {"late_norm": "layer"})
    ),
    *(Case("sixth-tile", {**fields, **SIZES}, tile, per_slate(lambda s, y, v: list_mle(s, y)))
      for fields in ({}, {"late_norm": "layer"}, {"trainable_scale": False})),
]  # fmt: skip
