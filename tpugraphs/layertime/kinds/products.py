"""Layers that are matrix products.

``dense`` is named as in the tables of the ml-performance-prediction project, ``linear`` and ``bmm`` as in
NeuSight's: products (M, N) x (N, K). That N is what is summed over can be seen in the times: on one GPU
products with M or K of 64 run at half the rate of those with 128, products with N of 64 at nine tenths.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpugraphs.layertime.kinds.base import (
    ACTIVATION,
    BATCH,
    OPTIMIZER,
    Columns,
    Kind,
    Size,
    Work,
    numbers,
    product,
)

__all__ = ["KINDS"]


def _dense(c: Columns) -> Work:
    batch, cin, cout = numbers(c, "batch", "dim_input", "dim_output")
    return product(c, batch, cout, cin, np.ones_like(batch), batch * cin, cin * cout)


def _linear(c: Columns) -> Work:
    count, rows, depth, cols = numbers(c, "B", "M", "N", "K")
    return product(c, count * rows, cols, depth, np.ones_like(rows), count * rows * depth, depth * cols)


def _bmm(c: Columns) -> Work:
    count, rows, depth, cols = numbers(c, "B", "M", "N", "K")
    work = product(c, rows, cols, depth, count, count * rows * depth, count * depth * cols)
    return replace(work, update=np.zeros_like(rows))


def _attention(c: Columns) -> Work:
    """Products of queries and keys, and of their softmax and values."""
    batch, heads, queries, keys, width = numbers(c, "batch", "heads", "queries", "keys", "head_size")
    count = batch * heads
    read = count * width * (queries + 2 * keys)
    return product(c, queries, width, 2 * keys, count, read, np.zeros_like(batch))


def _lstm(c: Columns) -> Work:
    """All steps read the weights of the four gates."""
    batch, length, cin, hidden = numbers(c, "batch", "length", "dim_input", "dim_hidden")
    depth = cin + hidden
    return product(c, batch, 4 * hidden, depth, length, batch * length * cin, 4 * hidden * depth)


_WIDE = 1 << 30
_MATRICES = (Size("B", _WIDE, default=1), Size("M", _WIDE), Size("N", _WIDE), Size("K", _WIDE), OPTIMIZER)

KINDS = (
    Kind(
        "dense", (BATCH, Size("dim_input", _WIDE), Size("dim_output", _WIDE), ACTIVATION, OPTIMIZER), _dense
    ),
    Kind("linear", _MATRICES, _linear),
    Kind("bmm", _MATRICES, _bmm),
    Kind(
        "attention",
        (
            BATCH,
            Size("heads", 1 << 16),
            Size("queries", 1 << 20),
            Size("keys", 1 << 20),
            Size("head_size", 1 << 16),
            OPTIMIZER,
        ),
        _attention,
    ),
    Kind(
        "lstm",
        (BATCH, Size("length", 1 << 20), Size("dim_input", 1 << 20), Size("dim_hidden", 1 << 20), OPTIMIZER),
        _lstm,
    ),
)
