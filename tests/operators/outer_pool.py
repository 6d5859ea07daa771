"""Outer products of the rows of two inputs, summed over the nodes."""

import numpy as np

GRADIENTS = ("a", "b")


def _configs(x):
    """(N,C,F); C is 1 of (N,F)."""
    return x[:, None] if x.ndim == 2 else x


def _both(a, b):
    """Both with the configs of either."""
    a, b = _configs(a), _configs(b)
    count = max(a.shape[1], b.shape[1])
    return tuple(np.broadcast_to(x, (len(x), count, x.shape[2])) for x in (a, b))


def forward(a, b, mean=0, num_nodes=None):
    """(C, F G): row c is A_c^T B_c, flattened."""
    y = np.einsum("ncf,ncg->cfg", *_both(a, b)).reshape(-1, a.shape[-1] * b.shape[-1])
    return y / len(a) if mean else y


def backward(dy, a, b, mean=0, num_nodes=None):
    """da = b D^T, db = a D, summed over the configs that an input does not have."""
    d = dy.reshape(-1, a.shape[-1], b.shape[-1]) / (len(a) if mean else 1)
    wide_a, wide_b = _both(a, b)
    found = {"a": np.einsum("cfg,ncg->ncf", d, wide_b), "b": np.einsum("cfg,ncf->ncg", d, wide_a)}
    return {name: found[name].sum(1) if x.ndim == 2 else found[name] for name, x in (("a", a), ("b", b))}


def _call(n, c, f, g, alone="", **attrs):
    """`alone`: names of the inputs without configs."""

    def arguments(rng):
        return {
            name: rng.normal(size=(n, cols) if name in alone else (n, c, cols))
            for name, cols in (("a", f), ("b", g))
        }

    return arguments, attrs


def cases():
    for alone in ("", "a", "b", "ab"):
        for n, c, f, g in ((1, 1, 1, 1), (17, 5, 3, 8), (40, 3, 33, 16), (70, 40, 5, 1), (200, 2, 16, 17)):
            for mean in (0, 1):
                yield f"n{n}c{c}-{f}x{g}-{alone}{mean}", *_call(n, c, f, g, alone, mean=mean)


def large():
    yield _call(400, 24, 20, 40)
    yield _call(400, 24, 20, 40, "b", mean=1)
    yield _call(3000, 0, 48, 16, "ab")
    yield _call(3000, 3, 48, 16, "a")
