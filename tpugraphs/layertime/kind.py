"""A kind of layers: its columns, its work, and how frameworks run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[np.generic]]
Layer = Any
"""A layer with its columns as attributes: whole numbers and words, or arrays (n,) of float64 and words."""

# Times that an update reads or writes an array as large as the weights: weights, gradient, its state.
_UPDATE = {"None": 0, "SGD": 3, "Momentum": 5, "Adagrad": 5, "RMSProp": 7, "Adadelta": 7, "Adam": 7}
OPTIMIZERS = tuple(_UPDATE)
BYTES = 4
"""Bytes of a float32."""


class Column(NamedTuple):
    """A column of whole numbers, or of words.

    Attributes
    ----------
    name : str
    high : int
        The largest number that a table may hold.
    drawn : (int, int)
        Smallest and largest number of layers that are drawn to be measured.
    low : int
        The smallest number that a table may hold.
    default : int, str or None
        Value if a table lacks the column; None: the column is required.
    dimensions : int
        Dimensions of the image or kernel that has a side of this size.
    aliases : tuple of str
        Other names of the column.
    values : tuple of str
        The words that a table may hold; empty for a column of numbers.
    """

    name: str
    high: int = 0
    drawn: tuple[int, int] = (1, 1)
    low: int = 1
    default: int | str | None = None
    dimensions: int = 1
    aliases: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class Work(NamedTuple):
    """Amount of work of layers, every field of shape (n,).

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
    product : (rows, cols, depth, count) or None
        Sizes of the matrix product (rows, depth) x (depth, cols) that the forward pass is, and how many there
        are; None for other layers.
    row : array or None
        Numbers of a row that is reduced as a whole; None where there are no rows.
    """

    flops: Floats
    read: Floats
    weights: Floats
    written: Floats
    passes: Floats
    update: Floats
    product: tuple[Floats, Floats, Floats, Floats] | None = None
    row: Floats | None = None

    @property
    def moved(self) -> Floats:
        """Fewest bytes read and written, all passes together."""
        return (self.read + self.weights + self.written) * self.passes + self.update


class Input(NamedTuple):
    """An array that a layer takes: normal numbers, or whole numbers from 0 to `below` - 1.

    Attributes
    ----------
    shape : tuple of int
        In the order of PyTorch: channels before the sides of an image.
    in_jax : tuple of int, optional
        The same axes in the order of JAX, where it differs.
    below : int, optional
        Exclusive bound of whole numbers.
    positive : bool
        Draw absolute values: powers of negative numbers are NaN and take a different time.
    """

    shape: tuple[int, ...]
    in_jax: tuple[int, ...] | None = None
    below: int | None = None
    positive: bool = False

    def draw(self, rng: np.random.Generator, for_jax: bool = False) -> NDArray[Any]:
        """Return the array, float32 or int32."""
        order = self.in_jax if for_jax and self.in_jax else range(len(self.shape))
        shape = [self.shape[axis] for axis in order]
        if self.below is not None:
            return rng.integers(0, self.below, shape, np.int32)
        drawn = rng.standard_normal(shape, np.float32)
        return np.abs(drawn) + np.float32(0.1) if self.positive else drawn


Inputs = Callable[[Layer], tuple[Input, ...]]
InJax = tuple[Callable[..., Any], dict[str, Input]]
"""A function of weights and inputs, and the weights by name."""


def shaped(*shapes: str, in_jax: tuple[int, ...] | None = None, below: str = "") -> Inputs:
    """Return the inputs of a kind by their axes, names of columns: ``"batch dim_input"``."""

    def inputs(layer: Layer) -> tuple[Input, ...]:
        sizes = [tuple(getattr(layer, name) for name in shape.split()) for shape in shapes]
        return tuple(Input(size, in_jax, getattr(layer, below, None)) for size in sizes)

    return inputs


def images(batch: str, channels: str, side: str, dimensions: int = 2) -> Inputs:
    """Return inputs that are images. XLA's convolutions are fastest on a CPU if channels come last."""
    in_jax = (0, *range(2, 2 + dimensions), 1)
    return shaped(" ".join((batch, channels, *[side] * dimensions)), in_jax=in_jax)


@dataclass(frozen=True)
class Kind:
    """A kind of layers.

    Attributes
    ----------
    name : str
    columns : tuple of Column
        The first grows with the batch, unless `grows` names another one.
    count : callable
        Maps layers to their `Work`.
    inputs : callable
        Maps a layer to the arrays that it takes.
    torch : callable
        Maps PyTorch and a layer to the module or function that takes these arrays.
    jax : callable
        Maps JAX and a layer to a function of weights and these arrays, and to the weights. Both frameworks
        apply the column ``activation`` afterwards.
    most_flops : float
        Most operations of a drawn layer, all passes together.
    held : callable, optional
        Maps layers to how many numbers (n,) they hold besides inputs, weights and outputs.
    grows : str
    """

    name: str
    columns: tuple[Column, ...]
    count: Callable[[Layer], Work] = field(repr=False)
    inputs: Inputs = field(repr=False)
    torch: Callable[[Any, Layer], Callable[..., Any]] = field(repr=False)
    jax: Callable[[Any, Layer], InJax] = field(repr=False)
    most_flops: float = 1e10
    held: Callable[[Layer], Floats] | None = field(default=None, repr=False)
    grows: str = ""

    def work(self, columns: Columns) -> Work:
        """Return the work of layers, from their columns."""
        return self.count(layers_of(columns))

    @property
    def per_sample(self) -> str:
        """The column that grows with the batch: ``batch``, ``B``, or ``M`` of ``linear``."""
        return self.grows or self.columns[0].name


def layers_of(columns: Columns) -> Layer:
    """Return layers with their columns as attributes."""
    words = {name: values for name, values in columns.items() if values.dtype.kind == "U"}
    numbers = {name: values.astype(np.float64) for name, values in columns.items() if name not in words}
    return SimpleNamespace(**words, **numbers)


def passing(
    c: Any, operations: Floats, read: Floats, written: Floats, weights: Floats, training: int = 2, **more: Any
) -> Work:
    """Return the work of layers that take, give and keep these numbers, in `training` passes if trained."""
    times = np.zeros(weights.shape)
    for name, value in _UPDATE.items():
        times[c.optimizer == name] = value
    passes = np.where(c.optimizer == "None", 1.0, training)
    sizes = (BYTES * read, BYTES * weights, BYTES * written)
    return Work(operations * passes, *sizes, passes, times * BYTES * more.pop("updated", weights), **more)


def product(
    c: Any, rows: Floats, cols: Floats, depth: Floats, count: Any, read: Floats, weights: Floats, **more: Any
) -> Work:
    """Return the work of `count` products, with inputs of `read` numbers and `weights` numbers."""
    flops, written = 2 * rows * cols * depth * count, rows * cols * count
    return passing(c, flops, read, written, weights, 3, product=(rows, cols, depth, count), **more)
