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


def nodes(w, g) -> Tensor:
    scaled = g["node_feat"] * w["scale.weight"] + w["scale.bias"] if "scale.weight" in w else g["node_feat"]
    return join(scaled, bounded(w["opcodes.weight"])[g["node_opcode"]])


def start(w, x) -> Tensor:
    x = fn.gelu(over_nodes(linear(w, "first", x)))
    return fn.gelu(over_nodes(linear(w, "second", x)))


def gin(w, i, x, edges) -> Tensor:
    x = conv(GINConv(torch.nn.Identity()), {}, x, edges.T)
    for name in (f"gin{i}_0", f"gin{i}_2"):
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


def head(w, x, fields, late=None) -> Tensor:
    """Scores of the nodes (..., N, F); columns that come late stand behind the pooled ones."""
    pooled = fn.normalize(x.mean(-2) + x.amax(-2), eps=1e-4, dim=-1)
    x = pooled if late is None else join(pooled, late)
    for i in range(2):
        x = linear(w, f"head{i}", x)
        if fields.late_norm == "configs":
            x = fn.batch_norm(x, None, None, training=True)
        elif fields.late_norm == "layer":
            x = fn.layer_norm(x, x.shape[-1:])
        x = fn.gelu(x)
    return linear(w, "score", x).flatten()


def layout(w, g, fields) -> Tensor:
    x = start(w, join(nodes(w, g), every_node(g)))
    for i in range(fields.layers):
        passed = (
            gin(w, i, x, g["edge_index"]) if "gin0_0.weight" in w else sage(w, f"sage{i}", x, g["edge_index"])
        )
        x = fn.gelu(over_nodes(passed + x))
    return head(w, x, fields)


def tile(w, g, fields) -> Tensor:
    x = start(w, nodes(w, g))
    for i in range(fields.layers):
        x = fn.gelu(over_nodes(gatv2(w, f"gat{i}", x, g["edge_index"])))
    return head(w, x, fields, late=g["config_feat"])


def logistic(s, y, v) -> Tensor:
    """Over all pairs i < j: how likely j is the slower one. Runtimes differ."""
    i, j = s.new_ones(len(s), len(s)).triu(1).nonzero().T
    return fn.binary_cross_entropy_with_logits(s[j] - s[i], (y[j] > y[i]).to(s.dtype))


SIZES = {"width": 8, "opcode_columns": 4, "layers": 2}
CASES = [
    *(
        Case(name, {**fields, **SIZES}, layout, per_slate(logistic))
        for name in ("sixth-layout", "sixth-gin")
        for fields in ({}, {"late_norm": "none", "trainable_scale": False}, {"late_norm": "layer"})
    ),
    *(Case("sixth-tile", {**fields, **SIZES}, tile, per_slate(lambda s, y, v: list_mle(s, y)))
      for fields in ({}, {"late_norm": "layer"}, {"trainable_scale": False})),
]  # fmt: skip
