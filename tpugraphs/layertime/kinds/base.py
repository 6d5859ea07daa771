"""What a kind of layers is: its columns, and the work that follows from the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ACTIVATION",
    "BATCH",
    "BYTES",
    "OPTIMIZER",
    "OPTIMIZERS",
    "Choice",
    "Columns",
    "Floats",
    "Kind",
    "Size",
    "Work",
    "numbers",
    "passes_of",
    "product",
    "updated",
    "words",
]

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[np.generic]]

OPTIMIZERS = ("None", "SGD", "Momentum", "Adagrad", "RMSProp", "Adadelta", "Adam")
# Times that an update reads or writes an array as large as the weights: weights, gradient, its state.
_UPDATE = {"None": 0, "SGD": 3, "Momentum": 5, "Adagrad": 5, "RMSProp": 7, "Adadelta": 7, "Adam": 7}
BYTES = 4
"""Of a number of float32."""


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


BATCH = Size("batch", 1 << 20)
ACTIVATION = Choice("activation", ("None", "relu", "tanh", "sigmoid"), "None")
OPTIMIZER = Choice("optimizer", OPTIMIZERS, "None")
"""``None``: the forward pass alone; any other: forward, backward and update."""


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
        Times that these are moved: 1 for a forward pass alone, 3 for forward and both backward passes.
    update : array
        Bytes that the optimizer reads and writes.
    rows, cols, depth, count : array or None
        Sizes of the product (rows, depth) x (depth, cols) that the forward pass is, and how many there are;
        None where there is none.
    row : array or None
        Numbers of a row that is reduced as a whole; None where there are no rows.
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
    row: Floats | None = None

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
    """

    name: str
    columns: tuple[Size | Choice, ...]
    work: Callable[[Columns], Work] = field(repr=False)


def numbers(c: Columns, *names: str) -> list[Floats]:
    """Return columns as float64."""
    return [np.asarray(c[name], np.float64) for name in names]


def words(c: Columns, name: str) -> NDArray[np.str_]:
    """Return a column of words."""
    return np.asarray(c[name]).astype(str)


def passes_of(c: Columns, training: float) -> Floats:
    """Return 1 for layers that only run forward, `training` for the others: (n,)."""
    return np.where(words(c, "optimizer") == "None", 1.0, training)


def updated(c: Columns, weights: Floats) -> Floats:
    """Return the bytes that optimizers move for `weights` bytes: (n,)."""
    found = words(c, "optimizer")
    times = np.zeros(weights.shape)
    for name, value in _UPDATE.items():
        times[found == name] = value
    return times * weights


def product(
    c: Columns, rows: Floats, cols: Floats, depth: Floats, count: Floats, read: Floats, weights: Floats
) -> Work:
    """Return the work of `count` products, with inputs of `read` numbers and `weights` numbers."""
    passes = passes_of(c, 3)
    return Work(
        2 * rows * cols * depth * count * passes,
        BYTES * read,
        BYTES * weights,
        BYTES * rows * cols * count,
        passes,
        updated(c, BYTES * weights),
        rows,
        cols,
        depth,
        count,
    )
