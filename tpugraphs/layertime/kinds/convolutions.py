"""Convolutions.

``conv2d`` is named as in the tables of the ml-performance-prediction project, and the others after it;
``conv`` as in NeuSight's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tpugraphs.layertime.kinds.base import (
    ACTIVATION,
    BATCH,
    OPTIMIZER,
    Choice,
    Columns,
    Floats,
    Kind,
    Size,
    Work,
    numbers,
    product,
    words,
)

__all__ = ["KERNEL", "KINDS", "PADDING", "STRIDES", "output_size"]

KERNEL = Size("kernelsize", 1 << 10)
STRIDES = Size("strides", 1 << 10, default=1)
PADDING = Choice("padding", ("VALID", "SAME"), "VALID")
_BIAS = Size("use_bias", 1, 0, 0)
_CHANNELS = (Size("channels_in", 1 << 20), Size("channels_out", 1 << 20))


def output_size(c: Columns, size: str = "matsize") -> Floats:
    """Return how many places a kernel takes along a side, 0 if it is larger: (n,)."""
    side, kernel, stride = numbers(c, size, "kernelsize", "strides")
    same = words(c, "padding") == "SAME"
    return np.where(same, np.ceil(side / stride), np.ceil(np.maximum(side - kernel + 1, 0) / stride))


def _over(dimensions: int, size: str = "matsize") -> Callable[[Columns], Work]:
    """Make the work of a convolution over as many dimensions, all of one size."""

    def work(c: Columns) -> Work:
        batch, side, kernel, cin, cout = numbers(
            c, "batch", size, "kernelsize", "channels_in", "channels_out"
        )
        rows, depth = batch * output_size(c, size) ** dimensions, kernel**dimensions * cin
        return product(c, rows, cout, depth, np.ones_like(rows), batch * side**dimensions * cin, depth * cout)

    return work


def _depthwise(c: Columns) -> Work:
    batch, side, kernel, channels = numbers(c, "batch", "matsize", "kernelsize", "channels")
    rows, one = batch * output_size(c) ** 2, np.ones_like(batch)
    return product(c, rows, one, kernel**2, channels, batch * side**2 * channels, kernel**2 * channels)


def _conv(c: Columns) -> Work:
    batch, cin, cout, kernel, side, stride, padding = numbers(
        c, "B", "Input_Channel", "Output_Channel", "Kernel_Size", "Input_Size", "Stride", "Padding"
    )
    places = np.floor((side + 2 * padding - kernel) / stride) + 1
    rows = batch * np.maximum(places, 0) ** 2
    depth = kernel**2 * cin
    return product(c, rows, cout, depth, np.ones_like(batch), batch * side**2 * cin, depth * cout)


_LONG = 1 << 20
_SIDE = Size("matsize", 1 << 16)
_REST = (STRIDES, PADDING, _BIAS, ACTIVATION, OPTIMIZER)

KINDS = (
    Kind("conv1d", (BATCH, Size("length", _LONG), KERNEL, *_CHANNELS, *_REST), _over(1, "length")),
    Kind("conv2d", (BATCH, _SIDE, KERNEL, *_CHANNELS, *_REST), _over(2)),
    Kind("conv3d", (BATCH, _SIDE, KERNEL, *_CHANNELS, *_REST), _over(3)),
    Kind("depthwise", (BATCH, _SIDE, KERNEL, Size("channels", 1 << 20), *_REST), _depthwise),
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
            OPTIMIZER,
        ),
        _conv,
    ),
)
