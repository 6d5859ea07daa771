"""Which layers are drawn: a space for every kind.

Sizes are log-uniform between the two numbers given here, words uniform over those of the kind. Sizes from 16
are rounded down to multiples of 8 in half of the layers, as widths of real networks are. A layer is
drawn again if it has no outputs, more operations than `_Space.flops`, or more bytes to hold or to move than
`_Space.bytes`. Half of the layers are forward passes alone, the others are trained by one of the
optimizers, if not said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.kinds import KINDS, OPTIMIZERS, Choice, Kind
from tpugraphs.layertime.kinds.base import BYTES, Columns, Floats, numbers

__all__ = ["SPACES", "draw", "held_bytes"]

_TOGETHER = 256  # drawn at once; a longer table begins with the layers of a shorter one
_ALIGNED_FROM, _ALIGNED_TO = 16, 8

Range = tuple[int, int]


def _nothing(c: Columns) -> Floats:
    return np.zeros(len(next(iter(c.values()))))


@dataclass(frozen=True)
class _Space:
    """Sizes of the layers of a kind.

    Attributes
    ----------
    sizes : dict of str to (low, high)
        Every column of the kind that is a size.
    flops : float
        Operations at most, all passes together.
    bytes : float
        Bytes at most.
    held : callable
        Bytes (n,) that layers hold apart from inputs, weights and outputs.
    """

    sizes: dict[str, Range]
    flops: float = 1e10
    bytes: float = 5e8
    held: Callable[[Columns], Floats] = field(default=_nothing, repr=False)


def _scores(c: Columns) -> Floats:
    """Bytes of every query's weights of all keys."""
    batch, heads, queries, keys = numbers(c, "batch", "heads", "queries", "keys")
    return BYTES * batch * heads * queries * keys


def _rows(c: Columns) -> Floats:
    """Bytes of the table that rows are taken from."""
    rows, cols = numbers(c, "dim_input", "dim_output")
    return BYTES * rows * cols


_BATCH, _CHANNELS, _KERNEL, _STRIDES = (1, 64), (1, 1024), (1, 7), (1, 4)
_CONV = {"batch": _BATCH, "kernelsize": _KERNEL, "channels_in": _CHANNELS, "channels_out": _CHANNELS}
_CONV |= {"strides": _STRIDES, "use_bias": (0, 1)}
_ROWS = {"B": (1, 1 << 17), "H": (1, 1 << 16)}

SPACES: dict[str, _Space] = {
    "conv1d": _Space({**_CONV, "length": (8, 8192)}),
    "conv2d": _Space({**_CONV, "matsize": (4, 512)}),
    "conv3d": _Space({**_CONV, "matsize": (4, 64), "batch": (1, 16), "channels_in": (1, 256)}, 4e9),
    "depthwise": _Space(
        {"batch": _BATCH, "matsize": (4, 512), "kernelsize": _KERNEL, "channels": _CHANNELS}
        | {"strides": _STRIDES, "use_bias": (0, 1)},
        1e9,
    ),
    "conv": _Space(
        {"B": _BATCH, "Input_Channel": _CHANNELS, "Output_Channel": _CHANNELS, "Kernel_Size": _KERNEL}
        | {"Input_Size": (4, 512), "Stride": _STRIDES, "Padding": (0, 3)}
    ),
    "dense": _Space({"batch": (1, 4096), "dim_input": (1, 8192), "dim_output": (1, 8192)}),
    "linear": _Space({"B": _BATCH, "M": (1, 4096), "N": (1, 8192), "K": (1, 8192)}),
    "bmm": _Space({"B": (1, 256), "M": (1, 2048), "N": (1, 2048), "K": (1, 2048)}),
    "attention": _Space(
        {"batch": _BATCH, "heads": (1, 32), "queries": (1, 2048), "keys": (1, 2048), "head_size": (8, 256)},
        held=_scores,
    ),
    "lstm": _Space(
        {"batch": _BATCH, "length": (1, 256), "dim_input": (1, 2048), "dim_hidden": (1, 2048)}, 5e9
    ),
    "elementwise": _Space(_ROWS),
    "softmax": _Space(_ROWS),
    "layernorm": _Space(_ROWS),
    "batchnorm": _Space({"batch": _BATCH, "matsize": (2, 512), "channels": (1, 2048)}),
    "pooling": _Space(
        {"batch": _BATCH, "matsize": (4, 512), "kernelsize": _KERNEL, "channels": (1, 2048)}
        | {"strides": _STRIDES},
        1e9,
    ),
    "embedding": _Space(
        {"batch": (1, 256), "length": (1, 512), "dim_input": (2, 1 << 20), "dim_output": (1, 2048)},
        held=_rows,
    ),
}


def held_bytes(kind: Kind, columns: Columns) -> Floats:
    """Return the bytes that layers hold while they run, about: (n,)."""
    work, space = kind.work(columns), SPACES.get(kind.name)
    once = work.read + work.weights + work.written + (0 if space is None else space.held(columns))
    return once * np.where(work.passes > 1, 2, 1) + work.update


def draw(kind: str, count: int, seed: int, training: bool | None = None) -> dict[str, NDArray[np.generic]]:
    """Draw layers of a kind.

    Parameters
    ----------
    kind : str
        One of `SPACES`.
    count : int
        The first layers are the same, whatever the count.
    seed : int
    training : bool, optional
        All in training (True), all forward (False), or half and half.

    Returns
    -------
    dict of str to (count,) array
        The columns of the kind.
    """
    rng, space, known = np.random.default_rng(seed), SPACES[kind], KINDS[kind]
    parts: list[dict[str, NDArray[np.generic]]] = []
    found = 0
    while found < count:
        columns = _drawn(known, space, rng, training)
        work = known.work(columns)
        fits = (work.written > 0) & (work.flops <= space.flops) & (work.moved <= space.bytes)
        fits &= held_bytes(known, columns) <= space.bytes
        parts.append({name: values[fits] for name, values in columns.items()})
        found += int(fits.sum())
    return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}


def _drawn(
    kind: Kind, space: _Space, rng: np.random.Generator, training: bool | None
) -> dict[str, NDArray[np.generic]]:
    """Draw some layers, whether they fit or not."""
    columns: dict[str, NDArray[np.generic]] = {}
    aligned = rng.random(_TOGETHER) < 0.5
    for column in kind.columns:
        if column.name == "optimizer":
            trained = rng.random(_TOGETHER) < 0.5 if training is None else np.full(_TOGETHER, training)
            columns["optimizer"] = np.where(trained, rng.choice(OPTIMIZERS[1:], _TOGETHER), OPTIMIZERS[0])
        elif isinstance(column, Choice):
            columns[column.name] = rng.choice(column.values, _TOGETHER)
        else:
            columns[column.name] = _sizes(*space.sizes[column.name], aligned, rng)
    return columns


def _sizes(low: int, high: int, aligned: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    if low == 0:
        return rng.integers(low, high + 1, aligned.size)
    sizes = np.exp(rng.uniform(np.log(low), np.log(high + 1), aligned.size)).astype(np.int64)
    sizes = np.clip(sizes, low, high)
    return np.where(aligned & (sizes >= _ALIGNED_FROM), sizes // _ALIGNED_TO * _ALIGNED_TO, sizes)
