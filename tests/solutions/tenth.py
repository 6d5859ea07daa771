"""The tenth place."""

from torch import Tensor
from torch.nn import functional as fn
from torch_geometric.nn import APPNP

from . import Case, conv, join, linear, part, sage
from .losses import list_mle, per_slate
from .ninth import sent


def norm(w, name, x) -> Tensor:
    return fn.layer_norm(x, x.shape[-1:], **part(w, name))


def joined(w, name, x, y, fields) -> Tensor:
    """The result y of a block with its input x."""
    if fields.unit == "residual":
        return x + y
    share = linear(w, f"{name}_gate", join(x, y)).sigmoid()
    return share * y + (1 - share) * x


def by_head(x, heads) -> Tensor:
    """(N, F) -> (heads, N, F / heads)."""
    return x.unflatten(-1, (heads, -1)).transpose(0, 1)


def linear_attention(q, k, v) -> Tensor:
    """Of one head after the other: the kernel elu + 1 in place of the exponential."""
    weights = (fn.elu(q) + 1) @ (fn.elu(k) + 1).mT
    return weights @ v / weights.sum(-1, keepdim=True)


def attend(w, name, ask, answer, fields, attention) -> Tensor:
    """Attention of the rows `ask` to the rows `answer`, in heads."""
    rows = (linear(w, f"{name}_{to}", x) for to, x in (("q", ask), ("k", answer), ("v", answer)))
    seen = attention(*(by_head(x, fields.heads) for x in rows))
    return seen.transpose(0, 1).flatten(1)


def among_nodes(w, name, x, fields, attention) -> Tensor:
    normed = norm(w, f"{name}_norm", x)
    seen = attend(w, name, normed, normed, fields, attention)
    return joined(w, name, x, linear(w, f"{name}_out", seen), fields)


def message_passing(w, name, x, g, fields) -> Tensor:
    normed, edges = norm(w, f"{name}_norm", x), sent(g, fields)
    if fields.block == "sage":
        passed = sage(w, f"{name}_sage", normed, edges)
    else:
        hidden = fn.gelu(linear(w, f"{name}_mlp0", normed))
        propagate = APPNP(fields.propagation, fields.restart)
        passed = conv(propagate, {}, linear(w, f"{name}_mlp1", hidden), edges.T)
    return joined(w, name, x, passed, fields)


def start(w, g) -> Tensor:
    return linear(w, "first", join(g["node_feat"], w["opcodes.weight"][g["node_opcode"]]))


def layout(w, g, fields) -> Tensor:
    x = start(w, g)
    for i in range(fields.blocks):
        x = among_nodes(w, f"attention{i}", x, fields, linear_attention)
        x = message_passing(w, f"graph{i}", x, g, fields)
    x = norm(w, "last_norm", x)[g["config_nodes"]]
    digits = g["digits"].double()
    if fields.embed_digits:
        digits = w["join.table"][g["digits"] + 2].flatten(-2)
    x = fn.gelu(fn.linear(join(x, digits), w["join.weight"], w["join.bias"]))
    x = fn.gelu(linear(w, "mlp", x)).mean(1)
    return linear(w, "head", x).flatten()


def tile(w, g, fields) -> Tensor:
    x = start(w, g)
    for i in range(fields.blocks):
        x = message_passing(w, f"graph{i}", x, g, fields)
    x = norm(w, "seen_norm", among_nodes(w, "nodes", x, fields, fn.scaled_dot_product_attention))
    config = linear(w, "config1", fn.gelu(linear(w, "config0", g["config_feat"])))
    told = config + attend(w, "ask", config, x, fields, fn.scaled_dot_product_attention)
    return linear(w, "head", fn.gelu(linear(w, "mlp", norm(w, "told_norm", told)))).flatten()


SIZES = {"width": 8, "opcode_columns": 4, "blocks": 2, "heads": 2}
LIST_MLE = per_slate(lambda s, y, v: list_mle(s, y))
VARIANTS = (
    {},
    {"unit": "gated"},
    {"block": "sage"},
    {"unit": "gated", "block": "sage", "direction": "reverse"},
    {"propagation": 3, "restart": 0.3, "direction": "forward"},
)
CASES = [
    Case("tenth-layout", {"embed_digits": True, **SIZES}, layout, LIST_MLE),
    *(Case("tenth-layout", {**fields, **SIZES}, layout, LIST_MLE) for fields in VARIANTS),
    *(Case("tenth-tile", {**fields, **SIZES}, tile, LIST_MLE) for fields in VARIANTS),
]
