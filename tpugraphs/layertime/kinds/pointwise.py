"""Layers that pass over memory: functions of single numbers, norms, pooling, embeddings.

``elementwise``, ``softmax`` and ``layernorm`` are named as in NeuSight's tables: B rows of H numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpugraphs.layertime.kinds.base import (
    BATCH,
    BYTES,
    OPTIMIZER,
    Choice,
    Columns,
    Floats,
    Kind,
    Size,
    Work,
    numbers,
    passes_of,
    updated,
    words,
)
from tpugraphs.layertime.kinds.convolutions import KERNEL, PADDING, STRIDES, output_size

__all__ = ["KINDS"]

_TWO_ARRAYS = ("add", "mul", "div", "pow")
_ONE_ARRAY = ("addu", "mulu", "divu", "powu", "relu", "tanh", "gelu", "sigmoid", "silu")


def _passing(c: Columns, operations: Floats, read: Floats, written: Floats, weights: Floats) -> Work:
    """Return the work of passes over `read` and `written` numbers; the backward pass is one more."""
    passes = passes_of(c, 2)
    return Work(
        operations * passes,
        BYTES * read,
        BYTES * weights,
        BYTES * written,
        passes,
        updated(c, BYTES * weights),
    )


def _elementwise(c: Columns) -> Work:
    rows, cols = numbers(c, "B", "H")
    inputs = np.where(np.isin(words(c, "op"), _TWO_ARRAYS), 2.0, 1.0)
    return _passing(c, rows * cols, inputs * rows * cols, rows * cols, np.zeros_like(rows))


def _softmax(c: Columns) -> Work:
    rows, cols = numbers(c, "B", "H")
    work = _passing(c, 5 * rows * cols, rows * cols, rows * cols, np.zeros_like(rows))
    return replace(work, row=cols)


def _layernorm(c: Columns) -> Work:
    rows, cols = numbers(c, "B", "H")
    return replace(_passing(c, 8 * rows * cols, rows * cols, rows * cols, 2 * cols), row=cols)


def _batchnorm(c: Columns) -> Work:
    batch, side, channels = numbers(c, "batch", "matsize", "channels")
    count = batch * side**2 * channels
    return _passing(c, 8 * count, count, count, 2 * channels)


def _pooling(c: Columns) -> Work:
    batch, side, kernel, channels = numbers(c, "batch", "matsize", "kernelsize", "channels")
    written = batch * output_size(c) ** 2 * channels
    return _passing(c, kernel**2 * written, batch * side**2 * channels, written, np.zeros_like(batch))


def _embedding(c: Columns) -> Work:
    """Rows gathered by number; training writes a gradient as large as the table and updates all of it."""
    batch, length, rows, cols = numbers(c, "batch", "length", "dim_input", "dim_output")
    taken = batch * length * cols
    none = np.zeros_like(batch)
    return replace(_passing(c, taken, taken, taken, none), update=updated(c, BYTES * rows * cols))


_NUMBERS = (Size("B", 1 << 30), Size("H", 1 << 30))
_IMAGES = (BATCH, Size("matsize", 1 << 16))
_CHANNELS = Size("channels", 1 << 20)

KINDS = (
    Kind("elementwise", (*_NUMBERS, Choice("op", (*_TWO_ARRAYS, *_ONE_ARRAY)), OPTIMIZER), _elementwise),
    Kind("softmax", (*_NUMBERS, OPTIMIZER), _softmax),
    Kind("layernorm", (*_NUMBERS, OPTIMIZER), _layernorm),
    Kind("batchnorm", (*_IMAGES, _CHANNELS, OPTIMIZER), _batchnorm),
    Kind(
        "pooling",
        (*_IMAGES, KERNEL, _CHANNELS, STRIDES, PADDING, Choice("op", ("max", "average"), "max"), OPTIMIZER),
        _pooling,
    ),
    Kind(
        "embedding",
        (BATCH, Size("length", 1 << 20), Size("dim_input", 1 << 30), Size("dim_output", 1 << 20), OPTIMIZER),
        _embedding,
    ),
)
