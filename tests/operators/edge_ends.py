"""The rows of both ends of every edge."""

import cases as graphs
import numpy as np

GRADIENTS = ("x",)


def forward(x, edge_index):
    """y(E,[C,]2F) = [x_u | x_v] of the edges (u, v)."""
    u, v = edge_index.T
    return np.concatenate([x[u], x[v]], axis=-1)


def backward(dy, x, edge_index):
    """Either half goes to its end."""
    dx = np.zeros_like(x)
    for end, half in zip(edge_index.T, np.split(dy, 2, axis=-1), strict=True):
        np.add.at(dx, end, half)
    return {"x": dx}


def _call(kind, n, c, f):
    def arguments(rng):
        x = rng.normal(size=(n, f) if c == 0 else (n, c, f))
        return {"x": x, "edge_index": graphs.edges(kind, n, rng)}

    return arguments, {}


def cases():
    for kind, n, c, f in (
        ("none", 5, 3, 7),
        ("line", 6, 0, 3),
        ("star", 40, 1, 9),
        ("random", 30, 13, 64),
        ("random", 25, 0, 33),
        ("odd", 21, 5, 17),
        ("odd", 6, 150, 5),
    ):
        yield f"{kind}-n{n}c{c}f{f}", *_call(kind, n, c, f)


def large():
    yield _call("random", 150, 24, 48)
    yield _call("random", 3000, 0, 48)
