"""Noise: normal numbers by counter in training, x as it is in scoring."""

import math

import numpy as np
from reference import rng as counter

GRADIENTS = ("x",)


def _normals(key, row, n):
    """Of a row: pairs of Box and Muller. Logarithms are of float32 numbers, which shows near 0."""
    key = counter.key_of(key, row)
    found = []
    for i in range(0, n, 2):
        radius = math.sqrt(-2 * math.log(np.float32(1 - counter.uniform(key, i))))
        angle = 2 * math.pi * counter.uniform(key, i + 1)
        found += [radius * math.cos(angle), radius * math.sin(angle)]
    return found[:n]


def forward(x, std=0.1, training=False, key=0):
    rows = x.reshape(-1, x.shape[-1])
    if not training:
        return x.copy()
    return x + std * np.array([_normals(key, row, rows.shape[1]) for row in range(len(rows))]).reshape(
        x.shape
    )


def backward(dy, x, **attrs):
    """The gradient goes through."""
    return {"x": dy.copy()}


def _drawn(*shape, **attrs):
    return lambda rng: {"x": rng.normal(size=shape)}, {"training": True, **attrs}


def cases():
    """Small calls; pairs, and vectors of them, that are full or not."""
    yield "one", lambda rng: {"x": rng.normal(size=(1, 1))}, {}
    yield "odd", lambda rng: {"x": rng.normal(size=(7, 3, 5))}, {"std": 2.0}
    for width in (1, 2, 7, 8, 15, 16, 31, 33, 64):
        yield f"drawn-{width}", *_drawn(3, width, std=1.0, key=width)
    yield "drawn-configs", *_drawn(4, 3, 10, key=(1 << 64) - 1)


def large():
    """Several chunks."""
    return [_drawn(3000, 24, std=0.5, key=11)]
