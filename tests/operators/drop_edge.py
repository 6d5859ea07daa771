"""DropEdge (Rong et al. 2020): weights of edges, drawn by counter."""

import cases as graphs
import numpy as np
from reference import rng

GRADIENTS = ()


def forward(edge_index, p=0.2, kept="rescaled", chance="fixed", training=False, key=0, num_nodes=None):
    if not training:
        return np.ones((len(edge_index), 1))
    if chance == "drawn":  # of the whole batch
        p = p * rng.uniform(key ^ ((1 << 64) - 1), 0)
    dropped = np.array([rng.uniform(key, e) < p for e in range(len(edge_index))], bool)
    return np.where(dropped, 0.0, 1.0 / (1.0 - p) if kept == "rescaled" else 1.0).reshape(-1, 1)


def backward(dy, edge_index, **attrs):
    return {}


def _call(kind, n, **attrs):
    return lambda rng: {"edge_index": graphs.edges(kind, n, rng)}, {"num_nodes": n, **attrs}


def cases():
    yield "none", *_call("none", 3, training=True)
    yield "scoring", *_call("random", 20, p=0.5, key=7)
    for p in (0.0, 0.2, 0.9):
        yield f"training-{p}", *_call("random", 40, p=p, training=True, key=3)
    for key in (3, 4):
        yield f"drawn-{key}", *_call("random", 40, p=0.9, training=True, key=key, chance="drawn")
    yield "one", *_call("odd", 40, p=0.5, kept="one", training=True, key=(1 << 64) - 5)


def large():
    yield _call("random", 3000, p=0.3, training=True, key=11)
