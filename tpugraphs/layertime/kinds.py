"""Kinds of layers: their columns, and the work that follows from the columns.

A kind is a row of the table `KINDS`. Its columns are named as in the public tables of measurements:
``conv2d`` and ``dense`` as in the ml-performance-prediction project, the others as in NeuSight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "Choice", "Kind", "Size", "Work"]

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[np.generic]]

ACTIVATIONS = ("None", "relu", "tanh", "sigmoid")
OPTIMIZERS = ("None", "SGD", "Momentum", "Adagrad", "RMSProp", "Adadelta", "Adam")
# Times that an update reads or writes an array as large as the weights: weights, gradient, its state.
_UPDATE = {"None": 0, "SGD": 3, "Momentum": 5, "Adagrad": 5, "RMSProp": 7, "Adadelta": 7, "Adam": 7}
_BYTES = 4  # of float32


@dataclass(frozen=True)
class Size:
    """A whole number from `low` to `high`, `default` where a table has no such column."""

    name: str
    high: int
    low: int = 1
    default: int | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """One of several words, `default` where a table has no such column."""

    name: str
    values: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Work:
    """What layers have to do, every field of shape (n,).

    Attributes
    ----------
    flops : array
        Operations, all passes together.
    read, weights, written : array
        Bytes of inputs, weights and outputs of the forward pass.
    passes : array
        1 for a forward pass alone, 3 for forward and both backward passes.
    update : array
        Bytes that the optimizer reads and writes.
    rows, cols, depth, count : array or None
        Sizes of the product (rows, depth) x (depth, cols) that the forward pass is, and how many there are;
        None where there is none.
    """

    flops: Floats
    read: Floats
    weights: Floats
    written: Floats
    passes: Floats
    update: Floats
    rows: Floats | None = None
    cols: Floats | None = None
    depth: Floats | None = None
    count: Floats | None = None

    @property
    def moved(self) -> Floats:
        """Bytes read and written at least, all passes together."""
        return (self.read + self.weights + self.written) * self.passes + self.update


@dataclass(frozen=True)
class Kind:
    """A kind of layers.

    Attributes
    ----------
    name : str
    columns : tuple of Size or Choice
    work : callable
        Columns to `Work`.
    extra : callable or None
        Columns to further features by name, each (n,).
    """

    name: str
    columns: tuple[Size | Choice, ...]
    work: Callable[[Columns], Work]
    extra: Callable[[Columns], dict[str, Floats]] | None = field(default=None, repr=False)


def _training(c: Columns, weights: Floats) -> tuple[Floats, Floats]:
    """Return passes, and bytes of the update."""
    optimizer = np.asarray(c["optimizer"]).astype(str)
    times = np.array([_UPDATE[name] for name in OPTIMIZERS], np.float64)
    order = np.argsort(OPTIMIZERS)
    place = order[np.searchsorted(np.array(OPTIMIZERS)[order], optimizer)]
    return np.where(place > 0, 3.0, 1.0), times[place] * weights


def _number(c: Columns, *names: str) -> list[Floats]:
    return [np.asarray(c[name], np.float64) for name in names]


def _product(
    rows: Floats, cols: Floats, depth: Floats, count: Floats, read: Floats, weights: Floats, c: Columns
) -> Work:
    """Return the work of a product with inputs of `read` numbers and `weights` numbers."""
    passes, update = _training(c, _BYTES * weights) if "optimizer" in c else (np.ones_like(rows), 0 * rows)
    return Work(
        2 * rows * cols * depth * count * passes,
        _BYTES * read,
        _BYTES * weights,
        _BYTES * rows * cols * count,
        passes,
        update,
        rows,
        cols,
        depth,
        count,
    )


def _conv2d(c: Columns) -> Work:
    batch, size, kernel, cin, cout, stride = _number(
        c, "batch", "matsize", "kernelsize", "channels_in", "channels_out", "strides"
    )
    same = np.asarray(c["padding"]).astype(str) == "SAME"
    out = np.where(same, np.ceil(size / stride), np.ceil((size - kernel + 1) / stride))
    depth = kernel * kernel * cin
    one = np.ones_like(batch)
    return _product(batch * out * out, cout, depth, one, batch * size * size * cin, depth * cout, c)


def _dense(c: Columns) -> Work:
    batch, cin, cout = _number(c, "batch", "dim_input", "dim_output")
    return _product(batch, cout, cin, np.ones_like(batch), batch * cin, cin * cout, c)


def _matmul(c: Columns) -> Work:
    count, rows, cols, depth = _number(c, "B", "M", "N", "K")
    return _product(rows, cols, depth, count, count * rows * depth, count * depth * cols, c)


def _conv(c: Columns) -> Work:
    batch, cin, cout, kernel, size, stride, padding = _number(
        c, "B", "Input_Channel", "Output_Channel", "Kernel_Size", "Input_Size", "Stride", "Padding"
    )
    out = np.floor((size + 2 * padding - kernel) / stride) + 1
    depth = kernel * kernel * cin
    read = batch * size * size * cin
    return _product(batch * out * out, cout, depth, np.ones_like(batch), read, depth * cout, c)


def _by_number(operations: float, inputs: float = 1.0) -> Callable[[Columns], Work]:
    """Make the work of `operations` per number of a (B, H) array, with `inputs` arrays that are read."""

    def work(c: Columns) -> Work:
        rows, cols = _number(c, "B", "H")
        numbers, none = rows * cols, np.zeros_like(rows)
        read, written = _BYTES * inputs * numbers, _BYTES * numbers
        return Work(operations * numbers, read, none, written, np.ones_like(rows), none)

    return work


_ONE_ARRAY = ("addu", "mulu", "divu", "powu", "relu", "tanh", "gelu")
_TWO_ARRAYS = ("add", "mul", "div", "pow")


def _elementwise(c: Columns) -> Work:
    inputs = np.where(np.isin(np.asarray(c["op"]).astype(str), _TWO_ARRAYS), 2.0, 1.0)
    one = _by_number(1.0)(c)
    return replace(one, read=inputs * one.read)


_TRAINING = (
    Choice("activation", ACTIVATIONS, "None"),
    Choice("optimizer", OPTIMIZERS, "None"),
)
_BATCH = Size("batch", 1 << 20)
_MATRICES = (Size("B", 1 << 30, default=1), Size("M", 1 << 30), Size("N", 1 << 30), Size("K", 1 << 30))
_NUMBERS = (Size("B", 1 << 30), Size("H", 1 << 30))

_ALL = (
    Kind(
        "conv2d",
        (
            _BATCH,
            Size("matsize", 1 << 16),
            Size("kernelsize", 1 << 10),
            Size("channels_in", 1 << 20),
            Size("channels_out", 1 << 20),
            Size("strides", 1 << 10, default=1),
            Choice("padding", ("VALID", "SAME"), "VALID"),
            Size("use_bias", 1, 0, 0),
            *_TRAINING,
        ),
        _conv2d,
    ),
    Kind("linear", _MATRICES, _matmul),
    Kind("bmm", _MATRICES, _matmul),
    Kind(
        "conv",
        (
            Size("B", 1 << 20),
            Size("Input_Channel", 1 << 20),
            Size("Output_Channel", 1 << 20),
            Size("Kernel_Size", 1 << 10, aliases=("Kernel_Szie",)),  # as NeuSight's files spell it
            Size("Input_Size", 1 << 16),
            Size("Stride", 1 << 10, default=1),
            Size("Padding", 1 << 10, 0, default=0),
        ),
        _conv,
    ),
    Kind("elementwise", (*_NUMBERS, Choice("op", (*_TWO_ARRAYS, *_ONE_ARRAY))), _elementwise),
    Kind("softmax", _NUMBERS, _by_number(5.0)),
    Kind("layernorm", _NUMBERS, _by_number(8.0)),
    Kind("dense", (_BATCH, Size("dim_input", 1 << 30), Size("dim_output", 1 << 30), *_TRAINING), _dense),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
"""Known kinds by name."""
