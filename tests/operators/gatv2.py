"""GATv2 (Brody et al. 2022) over the edges into a node, without self loops."""

import cases as graphs
import numpy as np

GRADIENTS = ("x", "weight_l", "bias_l", "weight_r", "bias_r", "att", "bias")


def _edges(edge_index, direction):
    """Sender and receiver of every edge."""
    u, v = edge_index.T
    ways = {"forward": [(u, v)], "reverse": [(v, u)], "both": [(u, v), (v, u)]}[direction]
    return tuple(np.concatenate(side) for side in zip(*ways, strict=True))


def _sums(values, at, n):
    out = np.zeros((n, *values.shape[1:]))
    np.add.at(out, at, values)
    return out


def _attend(x, edge_index, weight_l, bias_l, weight_r, bias_r, att, slope, direction):
    """Of every edge: sender, receiver, l of the one, z, and the weights (E,...,H)."""
    heads = (*x.shape[:-1], *att.shape)
    left, right = (x @ weight_l.T + bias_l).reshape(heads), (x @ weight_r.T + bias_r).reshape(heads)
    j, i = _edges(edge_index, direction)
    z = left[j] + right[i]
    score = np.sum(att * np.where(z > 0, z, slope * z), -1)
    top = np.full((len(x), *score.shape[1:]), -np.inf)
    np.maximum.at(top, i, score)
    power = np.exp(score - top[i])
    return j, i, left[j], z, power / _sums(power, i, len(x))[i]


def forward(
    x, edge_index, weight_l, bias_l, weight_r, bias_r, att, bias, cols=None, heads=1, merge="concat", slope=0.2,
    direction="forward",
):  # fmt: skip
    _, i, left, _, weight = _attend(x, edge_index, weight_l, bias_l, weight_r, bias_r, att, slope, direction)
    y = _sums(weight[..., None] * left, i, len(x))
    return (y.mean(-2) if merge == "mean" else y.reshape(*x.shape[:-1], -1)) + bias


def backward(
    dy, x, edge_index, weight_l, bias_l, weight_r, bias_r, att, bias, cols=None, heads=1, merge="concat", slope=0.2,
    direction="forward",
):  # fmt: skip
    j, i, left, z, weight = _attend(x, edge_index, weight_l, bias_l, weight_r, bias_r, att, slope, direction)
    per_head = (*x.shape[:-1], *att.shape)
    g = np.broadcast_to(dy[..., None, :] / len(att), per_head) if merge == "mean" else dy.reshape(per_head)
    dweight = np.sum(g[i] * left, -1)
    dscore = weight * (dweight - _sums(weight * dweight, i, len(x))[i])
    dz = dscore[..., None] * att * np.where(z > 0, 1.0, slope)
    dl = _sums(weight[..., None] * g[i] + dz, j, len(x)).reshape(-1, len(weight_l))
    dr = _sums(dz, i, len(x)).reshape(-1, len(weight_r))
    rows = x.reshape(-1, x.shape[-1])
    datt = dscore[..., None] * np.where(z > 0, z, slope * z)
    return {
        "x": (dl @ weight_l + dr @ weight_r).reshape(x.shape),
        "weight_l": dl.T @ rows,
        "bias_l": dl.sum(0),
        "weight_r": dr.T @ rows,
        "bias_r": dr.sum(0),
        "att": datt.sum(tuple(range(datt.ndim - 2))),
        "bias": dy.reshape(-1, dy.shape[-1]).sum(0),
    }


def make(kind, n, c, f, o, heads=1, merge="concat"):
    def arguments(rng):
        wide = heads * o
        return {
            "x": rng.normal(size=(n, f) if c == 0 else (n, c, f)),
            "edge_index": graphs.edges(kind, n, rng),
            "weight_l": rng.normal(size=(wide, f)) / np.sqrt(f),
            "bias_l": rng.normal(size=wide),
            "weight_r": rng.normal(size=(wide, f)) / np.sqrt(f),
            "bias_r": rng.normal(size=wide),
            "att": rng.normal(size=(heads, o)) / np.sqrt(o),
            "bias": rng.normal(size=o if merge == "mean" else wide),
        }

    return arguments


def _call(kind, n, c, f, o, heads=1, merge="concat", **attrs):
    return make(kind, n, c, f, o, heads, merge), {"cols": o, "heads": heads, "merge": merge, **attrs}


def cases_of(direction):
    for kind, n, c, f, o, heads, merge in (
        ("none", 1, 1, 1, 1, 1, "concat"),
        ("none", 5, 3, 17, 3, 2, "mean"),
        ("line", 6, 0, 3, 17, 1, "concat"),  # every weight is 1
        ("star", 40, 1, 8, 5, 3, "concat"),
        ("star", 9, 7, 6, 33, 2, "mean"),
        ("random", 30, 13, 24, 16, 4, "concat"),
        ("random", 30, 5, 24, 8, 8, "mean"),
        ("random", 25, 0, 12, 64, 1, "mean"),
        ("odd", 21, 5, 17, 3, 5, "concat"),
        ("odd", 21, 0, 17, 20, 17, "mean"),  # more heads than a vector has floats
    ):
        arguments, attrs = _call(kind, n, c, f, o, heads, merge, direction=direction)
        yield f"{direction}-{kind}-n{n}c{c}-{f}to{heads}x{o}-{merge}", arguments, attrs


def cases():
    for direction in ("forward", "reverse", "both"):
        yield from cases_of(direction)
    for slope in (0.0, 0.5, 0.9):
        yield f"slope-{slope}", *_call("random", 12, 3, 5, 6, 2, slope=slope)
    yield "many-configs", *_call("odd", 6, 150, 5, 4, 2, direction="both")


def large():
    yield _call("random", 150, 24, 48, 16, 4, direction="both")
    yield _call("random", 3000, 0, 48, 16, 2, "mean")
