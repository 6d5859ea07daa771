"""Translations between kinds that describe the same layers in other columns."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from tpugraphs.layertime.networks.layer import Layer, places_of, window

__all__ = ["TRANSLATIONS", "in_kinds"]


def _activation(layer: Layer, numbers: int, rows: int) -> list[Layer]:
    """Return the activation of a layer as a separate layer over rows of numbers, if there is one."""
    op = str(layer.columns["activation"])
    if op == "None":
        return []
    return [Layer(f"{layer.name}.{op}", "elementwise", {"H": numbers, "op": op}, rows, layer.source)]


def _dense_linear(layer: Layer) -> list[Layer]:
    cin, cout = (int(layer.columns[name]) for name in ("dim_input", "dim_output"))
    product = replace(layer, kind="linear", columns={"N": cin, "K": cout})
    return [product, *_activation(layer, cout, layer.rows)]


def _linear_dense(layer: Layer) -> list[Layer]:
    count, cin, cout = (int(layer.columns[name]) for name in ("B", "N", "K"))
    columns = {"dim_input": cin, "dim_output": cout}
    return [replace(layer, kind="dense", columns=columns, rows=layer.rows * count)]


def _conv2d_conv(layer: Layer) -> list[Layer]:
    side, kernel, stride, cin, cout = (
        int(layer.columns[name])
        for name in ("matsize", "kernelsize", "strides", "channels_in", "channels_out")
    )
    places = places_of(side, kernel, stride, str(layer.columns["padding"]))
    around = max(0, -((side - kernel - (places - 1) * stride) // 2))
    if (side + 2 * around - kernel) // stride + 1 != places:  # an even kernel needs more on one side
        side, around = (places - 1) * stride + kernel, 0
    columns = {"Input_Channel": cin, "Output_Channel": cout, "Kernel_Size": kernel, "Input_Size": side}
    convolution = replace(layer, kind="conv", columns=columns | {"Stride": stride, "Padding": around})
    return [convolution, *_activation(layer, cout, layer.rows * places**2)]


def _conv_conv2d(layer: Layer) -> list[Layer]:
    side, kernel, stride, around, cin, cout = (
        int(layer.columns[name])
        for name in ("Input_Size", "Kernel_Size", "Stride", "Padding", "Input_Channel", "Output_Channel")
    )
    places = (side + 2 * around - kernel) // stride + 1
    matsize, padding = window(side, kernel, stride, places)
    columns: dict[str, int | str] = {"matsize": matsize, "kernelsize": kernel, "strides": stride}
    columns |= {"padding": padding, "channels_in": cin, "channels_out": cout}
    return [replace(layer, kind="conv2d", columns=columns)]


TRANSLATIONS: dict[tuple[str, str], Callable[[Layer], list[Layer]]] = {
    ("dense", "linear"): _dense_linear,
    ("linear", "dense"): _linear_dense,
    ("conv2d", "conv"): _conv2d_conv,
    ("conv", "conv2d"): _conv_conv2d,
}
"""By (from, to) kind. Activations become separate layers if the target has no column for them."""


def in_kinds(layer: Layer, kinds: Collection[str]) -> list[Layer]:
    """Return a layer as the first kind among `kinds` that can describe it, or else unchanged."""
    if layer.kind not in kinds:
        for (own, other), translated in TRANSLATIONS.items():
            if own == layer.kind and other in kinds:
                return translated(layer)
    return [layer]
