"""DropEdge (Rong et al. 2020): weights of edges, drawn by counter."""

import cases as graphs
import numpy as np

GRADIENTS = ()
WORD = (1 << 64) - 1


def _mix64(x):
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & WORD
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & WORD
    return x ^ (x >> 31)


def uniform(key, counter):
    """Draw number `counter` under `key`, in [0, 1)."""
    return (_mix64(key ^ _mix64(counter + 0x9E3779B97F4A7C15 & WORD)) >> 11) * 2.0**-53


def forward(edge_index, p=0.2, kept="rescaled", training=False, key=0, num_nodes=None):
    if not training:
        return np.ones((len(edge_index), 1))
    dropped = np.array([uniform(key, e) < p for e in range(len(edge_index))], bool)
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
    yield "one", *_call("odd", 40, p=0.5, kept="one", training=True, key=(1 << 64) - 5)


def large():
    yield _call("random", 3000, p=0.3, training=True, key=11)
