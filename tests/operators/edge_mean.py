"""Weighted mean or sum of the rows of a node's neighbours."""

import cases as graphs
import numpy as np

GRADIENTS = ("x", "weight")


def _edges(edge_index, weight, direction):
    """Sender, receiver, number and weight of every message."""
    u, v = edge_index.T
    ways = {"forward": [(u, v)], "reverse": [(v, u)], "both": [(u, v), (v, u)]}[direction]
    j, i = (np.concatenate(side) for side in zip(*ways, strict=True))
    number = np.tile(np.arange(len(u)), len(ways))
    return j, i, number, np.ones(len(j)) if weight is None else weight[number, 0]


def _divisors(i, w, n, kind, eps):
    """Of every node, and whether it is a sum of weights."""
    sums = np.bincount(i, w, n) if len(i) else np.zeros(n)
    return (np.ones(n), np.zeros(n, bool)) if kind != "mean" else (np.maximum(sums, eps), sums > eps)


def _shares(j, i, n, kind, eps):
    """Weights of messages whose senders divide what they send by the number of edges into themselves."""
    return 1 / np.maximum(eps, np.bincount(i, minlength=n))[j] if kind == "share" else 1


def forward(x, edge_index, weight=None, kind="mean", eps=1e-6, direction="forward"):
    j, i, _, w = _edges(edge_index, weight, direction)
    w = w * _shares(j, i, len(x), kind, eps)
    y = np.zeros_like(x)
    np.add.at(y.reshape(len(x), -1), i, w[:, None] * x.reshape(len(x), -1)[j])
    return y / _divisors(i, w, len(x), kind, eps)[0].reshape(-1, *[1] * (x.ndim - 1))


def backward(dy, x, edge_index, weight=None, kind="mean", eps=1e-6, direction="forward"):
    j, i, number, w = _edges(edge_index, weight, direction)
    w = w * _shares(j, i, len(x), kind, eps)
    s, free = _divisors(i, w, len(x), kind, eps)
    rows, g = x.reshape(len(x), -1), dy.reshape(len(x), -1) / s[:, None]
    dx = np.zeros_like(rows)
    np.add.at(dx, j, w[:, None] * g[i])
    y = forward(x, edge_index, weight, kind, eps, direction).reshape(len(x), -1)
    found = {"x": dx.reshape(x.shape)}
    if weight is not None:
        found["weight"] = np.zeros_like(weight)
        np.add.at(found["weight"][:, 0], number, np.sum(g[i] * (rows[j] - free[i, None] * y[i]), 1))
    return found


def _call(edges, n, c, f, weighted=True, low=0.2, **attrs):
    def arguments(rng):
        index = graphs.edges(edges, n, rng)
        weight = rng.uniform(low, 2.0, (len(index), 1))
        return {
            "x": rng.normal(size=(n, f) if c == 0 else (n, c, f)),
            "edge_index": index,
            "weight": np.where(weight < 0, 0.0, weight) if weighted else None,
        }

    return arguments, attrs


def cases():
    for direction in ("forward", "reverse", "both"):
        for kind in ("mean", "sum", "share"):
            for edges, n, c, f in (
                ("none", 5, 3, 7),
                ("line", 6, 0, 3),
                ("star", 40, 1, 9),
                ("random", 30, 13, 64),
                ("odd", 21, 5, 17),
            ):
                for weighted in (True, False)[kind == "share" :]:
                    name = f"{kind}-{direction}-{edges}-n{n}c{c}f{f}{'-weighted' if weighted else ''}"
                    yield (
                        name,
                        *_call(
                            edges,
                            n,
                            c,
                            f,
                            weighted,
                            kind=kind,
                            direction=direction,
                            **({"eps": 1.0} if kind == "share" else {}),
                        ),
                    )
    yield "many-configs", *_call("odd", 6, 150, 5, direction="both")
    yield "some-dropped", *_call("random", 30, 3, 8, low=-2.0, eps=0.1)  # sums of weights that are 0, too
    yield "least-divisor", *_call("random", 30, 3, 8, eps=3.0)
    for eps in (0.5, 3.0):
        yield f"least-share-{eps}", *_call("random", 30, 3, 8, False, kind="share", eps=eps)


def large():
    yield _call("random", 150, 24, 48, direction="both")
    yield _call("random", 3000, 0, 48, kind="sum")
    yield _call("random", 3000, 0, 48, False)
