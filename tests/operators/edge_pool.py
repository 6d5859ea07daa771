"""Mean or sum of the rows of a node's edges."""

import cases as graphs
import numpy as np

GRADIENTS = ("x",)


def _ends(edge_index, end):
    return edge_index[:, 0 if end == "consumer" else 1]


def _divisors(at, num_nodes, kind, rank):
    """(N,1,..): how many edges a node has, at least 1."""
    counts = np.bincount(at, minlength=num_nodes) if kind == "mean" else np.ones(num_nodes)
    return np.maximum(counts, 1.0).reshape(-1, *[1] * (rank - 1))


def forward(x, edge_index, kind="mean", end="consumer", num_nodes=None):
    """x(E,[C,]F) -> y(N,[C,]F), 0 without edges."""
    at = _ends(edge_index, end)
    y = np.zeros((num_nodes, *x.shape[1:]))
    np.add.at(y, at, x)
    return y / _divisors(at, num_nodes, kind, x.ndim)


def backward(dy, x, edge_index, kind="mean", end="consumer", num_nodes=None):
    """Every edge has the gradient of its node, divided likewise."""
    at = _ends(edge_index, end)
    return {"x": (dy / _divisors(at, num_nodes, kind, x.ndim))[at]}


def _call(edges, n, c, f, **attrs):
    def arguments(rng):
        index = graphs.edges(edges, n, rng)
        shape = (len(index), f) if c == 0 else (len(index), c, f)
        return {"x": rng.normal(size=shape), "edge_index": index}

    return arguments, {"num_nodes": n, **attrs}


def cases():
    for end in ("consumer", "operand"):
        for kind in ("mean", "sum"):
            for edges, n, c, f in (
                ("none", 5, 3, 7),
                ("line", 6, 0, 3),
                ("star", 40, 1, 9),
                ("random", 30, 13, 64),
                ("odd", 21, 5, 17),
                ("odd", 6, 150, 5),
            ):
                yield f"{kind}-{end}-{edges}-n{n}c{c}f{f}", *_call(edges, n, c, f, kind=kind, end=end)


def large():
    yield _call("random", 150, 24, 48, end="operand")
    yield _call("random", 3000, 0, 48, kind="sum")
