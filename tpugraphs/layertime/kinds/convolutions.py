"""Convolutions.

``conv2d`` is named as in the tables of the ml-performance-prediction project, and the others after it;
``conv`` as in NeuSight's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tpugraphs.layertime.kinds.base import (
    ACTIVATION,
    BATCH,
    OPTIMIZER,
    Choice,
    Columns,
    Floats,
    InJax,
    Input,
    Kind,
    Layer,
    Size,
    Work,
    images,
    numbers,
    product,
    words,
)

__all__ = ["KINDS"]

SIDE = Size("matsize", 1 << 16, (4, 512), dimensions=2)
KERNEL = Size("kernelsize", 1 << 10, (1, 7), dimensions=2)
STRIDES = Size("strides", 1 << 10, (1, 4), default=1)
PADDING = Choice("padding", ("VALID", "SAME"), "VALID")


def output_size(c: Columns, size: str, kernel: str, stride: str) -> Floats:
    """Return how many places a kernel takes along a side, 0 if it is larger: (n,)."""
    side, wide, step = numbers(c, size, kernel, stride)
    if "Padding" in c:
        (around,) = numbers(c, "Padding")
        found: Floats = np.maximum(np.floor((side + 2 * around - wide) / step) + 1, 0)
        return found
    same = words(c, "padding") == "SAME"
    return np.where(same, np.ceil(side / step), np.ceil(np.maximum(side - wide + 1, 0) / step))


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the zeros before and after a side for ceil(side / stride) outputs, as TensorFlow splits them."""
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2


def ends(layer: Layer, side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the zeros before and after a side, from the columns of a layer."""
    if layer.get("padding") == "SAME":
        return same_padding(side, kernel, stride)
    return (layer.get("Padding", 0),) * 2


def padded(
    torch: Any, ends: tuple[int, int], dimensions: int, make: Callable[[int], Any], fill: float = 0.0
) -> Any:
    """Return the module `make` (padding), with a module of padding before it where the ends differ."""
    if ends[0] == ends[1]:
        return make(ends[0])
    pad = getattr(torch.nn, f"ConstantPad{dimensions}d")
    return torch.nn.Sequential(pad(ends * dimensions, fill), make(0))


def _convolution(
    name: str, dimensions: int, columns: tuple[Size | Choice, ...], roles: str, most_flops: float = 1e10
) -> Kind:
    """Return a kind of convolutions.

    `roles` names the columns of batch, side, kernel, stride, channels in and channels out. Where these two
    are one column, each channel is a group.
    """
    names = roles.split()
    batch_, side_, kernel_, stride_, cin_, cout_ = names

    def work(c: Columns) -> Work:
        batch, side, kernel, _, cin, cout = numbers(c, *names)
        groups = cin if cin_ == cout_ else np.ones_like(cin)
        rows, depth = batch * output_size(c, side_, kernel_, stride_) ** dimensions, kernel**dimensions * cin
        depth /= groups
        read = batch * side**dimensions * cin
        return product(c, rows, cout / groups, depth, groups, read, depth * cout)

    def settings(layer: Layer) -> tuple[list[int], int, bool, tuple[int, int]]:
        sizes = [layer[name] for name in (cin_, cout_, kernel_, stride_)]
        groups = layer[cin_] if cin_ == cout_ else 1
        return sizes, groups, layer.get("use_bias") == 1, ends(layer, layer[side_], *sizes[2:])

    def torch(torch: Any, layer: Layer) -> Any:
        sizes, groups, bias, around = settings(layer)
        make = getattr(torch.nn, f"Conv{dimensions}d")
        return padded(
            torch, around, dimensions, lambda padding: make(*sizes, padding, groups=groups, bias=bias)
        )

    def jax(jax: Any, layer: Layer) -> InJax:
        (cin, cout, kernel, stride), groups, bias, around = settings(layer)
        space = "DHW"[-dimensions:]
        how: dict[str, Any] = {"dimension_numbers": (f"N{space}C", f"{space}IO", f"N{space}C")}
        how |= {"window_strides": [stride] * dimensions, "padding": [around] * dimensions}
        weights = {"w": Input((*[kernel] * dimensions, cin // groups, cout))}

        def run(p: dict[str, Any], x: Any) -> Any:
            y = jax.lax.conv_general_dilated(x, p["w"], feature_group_count=groups, **how)
            return y + p["b"] if bias else y

        return run, weights | ({"b": Input((cout,))} if bias else {})

    inputs = images(batch_, cin_, side_, dimensions)
    return Kind(name, columns, work, inputs, torch, jax, most_flops)


_CHANNELS = 1 << 20
_CIN, _COUT = Size("channels_in", _CHANNELS, (1, 1024)), Size("channels_out", _CHANNELS, (1, 1024))
_REST = (STRIDES, PADDING, Size("use_bias", 1, (0, 1), 0, 0), ACTIVATION, OPTIMIZER)
_LINE = (BATCH, Size("length", 1 << 20, (8, 8192)), replace(KERNEL, dimensions=1))
_CUBE = (
    Size("batch", 1 << 20, (1, 16)),
    Size("matsize", 1 << 16, (4, 64), dimensions=3),
    replace(KERNEL, dimensions=3),
    Size("channels_in", _CHANNELS, (1, 256)),
    _COUT,
)
_DEPTHWISE = (BATCH, SIDE, KERNEL, Size("channels", _CHANNELS, (1, 1024)))
_NEUSIGHT = (
    Size("B", 1 << 20, (1, 64)),
    Size("Input_Channel", _CHANNELS, (1, 1024)),
    Size("Output_Channel", _CHANNELS, (1, 1024)),
    # the alias is how NeuSight's files spell it
    Size("Kernel_Size", 1 << 10, (1, 7), dimensions=2, aliases=("Kernel_Szie",)),
    Size("Input_Size", 1 << 16, (4, 512), dimensions=2),
    Size("Stride", 1 << 10, (1, 4), default=1),
    Size("Padding", 1 << 10, (0, 3), 0, 0),
    OPTIMIZER,
)
_ROLES = "batch matsize kernelsize strides channels_in channels_out"

KINDS = (
    _convolution("conv1d", 1, (*_LINE, _CIN, _COUT, *_REST), _ROLES.replace("matsize", "length")),
    _convolution("conv2d", 2, (BATCH, SIDE, KERNEL, _CIN, _COUT, *_REST), _ROLES),
    _convolution("conv3d", 3, (*_CUBE, *_REST), _ROLES, 4e9),
    _convolution(
        "depthwise", 2, (*_DEPTHWISE, *_REST), "batch matsize kernelsize strides channels channels", 1e9
    ),
    _convolution("conv", 2, _NEUSIGHT, "B Input_Size Kernel_Size Stride Input_Channel Output_Channel"),
)
