"""Layers of a network, without a batch size; a builder of them; translations between their kinds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.devices import DEVICES, Device
from tpugraphs.layertime.kinds import KINDS
from tpugraphs.layertime.table import LayerTable, read_table
from tpugraphs.system import check_choice, check_whole, counted

_SET_LATER = ("batch", "B", "M", "optimizer")
_ANY_DEVICE = next(iter(DEVICES.values()))


@dataclass(frozen=True)
class Layer:
    """A layer of a network.

    Attributes
    ----------
    name : str
        In its network; need not be unique.
    kind : str or None
        One of `tpugraphs.layertime.KINDS`; None for what has no kind.
    columns : mapping of str to int or str
        Columns of the kind, without ``optimizer`` and without the one that grows with the batch. Missing ones
        have their defaults.
    rows : int
        How much that column grows per sample: usually 1, but the number of tokens for a dense layer over a
        text, or the number of rows for a softmax.
    source : str
        Class or operator that it was read from; ignored in comparisons.

    Raises
    ------
    DataError
        No such kind; a column is missing, unknown or out of its range; the layer has no outputs.
    """

    name: str
    kind: str | None
    columns: Mapping[str, int | str] = field(default_factory=dict)
    rows: int = 1
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        where = f"layer {self.name!r}"
        try:
            check_whole(f"{where}: rows", self.rows, 1, (1 << 40) - 1)
            if self.kind is None:
                return
            check_choice(f"{where}: kind", self.kind, KINDS)
        except ConfigError as error:
            raise DataError(str(error)) from None
        kind, counts = KINDS[self.kind], KINDS[self.kind].per_sample
        own = [column for column in kind.columns if column.name not in (counts, "optimizer")]
        known = [name for column in own for name in (column.name, *column.aliases)]
        if wrong := [name for name in self.columns if name not in known]:
            hint = "; the batch size and the optimizer are set later, rows= says how often a sample counts"
            has = f"{', '.join(known)}{hint if wrong[0] in _SET_LATER else ''}"
            raise DataError(f"{where}: column {wrong[0]!r}: unknown; a layer of kind {self.kind!r} has {has}")
        row = {name: [value] for name, value in self.columns.items()} | {counts: [1]}
        try:
            found = read_table(row, self.kind, _ANY_DEVICE, timed=False).columns
        except DataError as error:
            raise DataError(f"{where}: {str(error).removeprefix('table: ')}") from None
        object.__setattr__(self, "columns", {column.name: found[column.name][0].item() for column in own})


class LayerList(list[Layer]):
    """The layers of a network, in the order in which they run.

    Parameters
    ----------
    iterable : iterable of Layer
        The layers; none by default.
    """

    @property
    def unknown(self) -> list[Layer]:
        """Layers that have no kind."""
        return [layer for layer in self if layer.kind is None]


def table_of(
    kind: str, layers: Sequence[Layer], batch_size: int, optimizer: str, device: Device = _ANY_DEVICE
) -> LayerTable:
    """Return layers of one kind at a batch size as a table, a row each.

    Raises
    ------
    DataError
        A column grows beyond its range with the batch.
    """
    counts = KINDS[kind].per_sample
    rows: dict[str, Any] = {name: [one.columns[name] for one in layers] for name in layers[0].columns}
    rows |= {counts: [batch_size * layer.rows for layer in layers], "optimizer": [optimizer] * len(layers)}
    limit = next(column.high for column in KINDS[kind].columns if column.name == counts)
    for layer, count in zip(layers, rows[counts], strict=True):
        if count > limit:
            found = f"{counts} would be {count:,} for {counted(batch_size, 'sample')}"
            raise DataError(f"layer {layer.name!r} ({kind}): {found}, expected at most {limit:,}")
    return read_table(rows, kind, device, timed=False)


def equal_side(sizes: Sequence[int]) -> int:
    """Return the side of the square (cube) with the area (volume) of a rectangle, rounded, 1 at least."""
    if not sizes or min(sizes) < 1:
        raise DataError(f"expected sizes from 1 on, found {list(sizes)}")
    return max(1, round(math.pow(math.prod(sizes), 1 / len(sizes))))


def places_of(side: int, kernel: int, stride: int, padding: str) -> int:
    """Return how many places a kernel takes along a side."""
    return -((side if padding == "SAME" else side - kernel + 1) // -stride)


def window(side: int, kernel: int, stride: int, places: int) -> tuple[int, str]:
    """Return the side and padding at which a kernel takes that many places.

    The side is changed if neither padding gives the number, as with uneven padding or dilation.
    """
    for padding in ("VALID", "SAME"):
        if places_of(side, kernel, stride, padding) == places:
            return side, padding
    return (places - 1) * stride + kernel, "VALID"


Shape = Sequence[int]
_ACTIVATIONS = ("relu", "tanh", "sigmoid")  # values of a column of convolutions and dense layers


class Builder:
    """A list of layers that grows.

    Parameters
    ----------
    batch : int
        Samples in the example whose shapes are given; layers have sizes per sample, rounded up.
    """

    def __init__(self, batch: int) -> None:
        self.batch, self.layers = batch, LayerList()
        self._name = self._source = ""
        self._output: Any = None  # of the last layer, if it has a column for activations

    def at(self, name: str, source: str) -> None:
        """Set the name of the layers that follow, and the class or operator that they are read from."""
        self._name, self._source = name, source

    def add(
        self, kind: str | None, count: int = 1, out: Any = None, part: str = "", **columns: int | str
    ) -> None:
        """Add a layer whose batch column is `count` in the example.

        `out` is its output, given if an activation of it may join the layer; `part` is the end of its name.
        """
        self._output = out
        self.layers.append(Layer(self._name + part, kind, columns, self.share(count), self._source))

    def share(self, count: int) -> int:
        """Return `count` per sample, rounded up, at least 1."""
        return max(1, -(count // -self.batch))

    def convolution(self, x: Shape, weight: Shape, y: Shape, strides: Shape, bias: bool, out: Any) -> None:
        """Add a convolution of `x` (N, C, ...) to `y`, with a weight (C', C / groups, ...)."""
        dimensions, cin, cout = len(x) - 2, x[1], weight[0]
        groups = cin // max(1, weight[1])
        thin = dimensions == 2 and groups == cin > 1
        if groups > 1 and not thin:
            self._source += f" with {groups} groups"
        if dimensions not in (1, 2, 3) or (groups > 1 and not thin):
            return self.add(None)
        columns = _sliding(x, y, weight[2:], strides) | {"use_bias": int(bias)}
        columns |= {"channels": cout} if thin else {"channels_in": cin, "channels_out": cout}
        if dimensions == 1:
            columns["length"] = columns.pop("matsize")
        self.add("depthwise" if thin else f"conv{dimensions}d", x[0], out, **columns)

    def dense(self, x: Shape, dim_output: int, out: Any = None, part: str = "") -> None:
        """Add a dense layer over the last dimension of `x`."""
        self.add("dense", math.prod(x[:-1]), out, part, dim_input=x[-1], dim_output=dim_output)

    def product(self, x: Shape, y: Shape, out: Any) -> None:
        """Add a product (..., M, N) x (..., N, K); a dense layer if `y` is one matrix."""
        if min(len(x), len(y)) < 2:
            return  # with a vector: negligible
        if len(y) == 2:
            self.dense(x, y[-1], out)
        else:
            self.add("bmm", max(math.prod(x[:-2]), math.prod(y[:-2])), M=x[-2], N=x[-1], K=y[-1])

    def attention(self, query: Shape, key: Shape) -> None:
        """Add the products of attention; queries and keys are (N, ..., heads, length, head size)."""
        heads = query[-3] if len(query) > 3 else 1
        count = math.prod(query[:-2]) // max(1, heads)
        self.add("attention", count, heads=heads, queries=query[-2], keys=key[-2], head_size=query[-1])

    def lstm(self, batch: int, length: int, sizes: Shape, hidden: int, directions: int) -> None:
        """Add the layers of an LSTM, one for each input size in `sizes`."""
        for i, dim_input in enumerate(sizes):
            for way in ("", ".reverse")[:directions]:
                name = f".{i}{way}"
                self.add("lstm", batch, None, name, length=length, dim_input=dim_input, dim_hidden=hidden)

    def pooling(self, x: Shape, y: Shape, kernel: Shape, strides: Shape, op: str) -> None:
        """Add pooling of images (N, C, H, W)."""
        if len(x) == 4:
            self.add("pooling", x[0], channels=x[1], op=op, **_sliding(x, y, kernel, strides))
        else:
            self.add(None)

    def batchnorm(self, x: Shape) -> None:
        """Add a batch norm of `x` (N, C, ...), images as squares of equal area."""
        side = max(1, round(math.sqrt(math.prod(x[2:]))))
        self.add("batchnorm", x[0], matsize=side, channels=x[1])

    def rows(self, kind: str, x: Shape, numbers: int) -> None:
        """Add a softmax or a layer norm over rows of `numbers` numbers."""
        self.add(kind, math.prod(x) // max(1, numbers), H=numbers)

    def pointwise(self, op: str, y: Shape, of: Any = None) -> None:
        """Add an elementwise function; an activation joins the layer with the output `of`."""
        if op in _ACTIVATIONS and of is not None and of is self._output:
            last = self.layers[-1]
            self.layers[-1] = replace(last, columns={**last.columns, "activation": op})
            self._output = None
        elif len(y) > 1 or math.prod(y) > 1:
            self.add("elementwise", math.prod(y[:-1]), H=y[-1], op=op)

    def embedding(self, taken: Shape, table: Shape) -> None:
        """Add rows of `table` (rows, columns), gathered by numbers (N, ...)."""
        length = self.share(math.prod(taken))
        self.add("embedding", self.batch, length=length, dim_input=table[0], dim_output=table[1])

    def follows(self, of: Any, out: Any) -> bool:
        """Return whether `of` is the last layer's output; if so, the output becomes `out` (after a bias)."""
        if of is None or of is not self._output:
            return False
        self._output = out
        return True


def _sliding(x: Shape, y: Shape, kernel: Shape, strides: Shape) -> dict[str, Any]:
    """Return the columns of a kernel that slides over images `x` to `y` (N, C, ...)."""
    size, stride = equal_side(kernel), equal_side(strides)
    side, padding = window(equal_side(x[2:]), size, stride, equal_side(y[2:]))
    return {"matsize": side, "kernelsize": size, "strides": stride, "padding": padding}


def _sizes(layer: Layer, names: str) -> list[int]:
    return [int(layer.columns[name]) for name in names.split()]


def _activation(layer: Layer, numbers: int, rows: int) -> list[Layer]:
    """Return the activation of a layer as a separate layer over rows of numbers, if there is one."""
    op = str(layer.columns["activation"])
    if op == "None":
        return []
    return [Layer(f"{layer.name}.{op}", "elementwise", {"H": numbers, "op": op}, rows, layer.source)]


def _dense_linear(layer: Layer) -> list[Layer]:
    cin, cout = _sizes(layer, "dim_input dim_output")
    product = replace(layer, kind="linear", columns={"N": cin, "K": cout})
    return [product, *_activation(layer, cout, layer.rows)]


def _linear_dense(layer: Layer) -> list[Layer]:
    count, cin, cout = _sizes(layer, "B N K")
    columns, rows = {"dim_input": cin, "dim_output": cout}, layer.rows * count
    return [replace(layer, kind="dense", columns=columns, rows=rows)]


def _conv2d_conv(layer: Layer) -> list[Layer]:
    side, kernel, stride, cin, cout = _sizes(layer, "matsize kernelsize strides channels_in channels_out")
    places = places_of(side, kernel, stride, str(layer.columns["padding"]))
    around = max(0, -((side - kernel - (places - 1) * stride) // 2))
    if (side + 2 * around - kernel) // stride + 1 != places:  # an even kernel needs more on one side
        side, around = (places - 1) * stride + kernel, 0
    sizes = {"Input_Size": side, "Kernel_Size": kernel, "Stride": stride, "Padding": around}
    convolution = replace(layer, kind="conv", columns=sizes | {"Input_Channel": cin, "Output_Channel": cout})
    return [convolution, *_activation(layer, cout, layer.rows * places**2)]


def _conv_conv2d(layer: Layer) -> list[Layer]:
    side, kernel, stride, around = _sizes(layer, "Input_Size Kernel_Size Stride Padding")
    cin, cout = _sizes(layer, "Input_Channel Output_Channel")
    places = (side + 2 * around - kernel) // stride + 1
    matsize, padding = window(side, kernel, stride, places)
    columns: dict[str, int | str] = {"matsize": matsize, "kernelsize": kernel, "strides": stride}
    columns |= {"padding": padding, "channels_in": cin, "channels_out": cout}
    return [replace(layer, kind="conv2d", columns=columns)]


def _attention_bmm(layer: Layer) -> list[Layer]:
    heads, queries, keys, size = _sizes(layer, "heads queries keys head_size")
    rows = layer.rows * heads
    return [
        Layer(f"{layer.name}.scores", "bmm", {"M": queries, "N": size, "K": keys}, rows, layer.source),
        Layer(f"{layer.name}.softmax", "softmax", {"H": keys}, rows * queries, layer.source),
        Layer(f"{layer.name}.values", "bmm", {"M": queries, "N": keys, "K": size}, rows, layer.source),
    ]


TRANSLATIONS: dict[tuple[str, str], Callable[[Layer], list[Layer]]] = {
    ("dense", "linear"): _dense_linear,
    ("linear", "dense"): _linear_dense,
    ("conv2d", "conv"): _conv2d_conv,
    ("conv", "conv2d"): _conv_conv2d,
    ("attention", "bmm"): _attention_bmm,
}
"""By (from, to) kind. Activations become separate layers if the target has no column for them."""


def in_kinds(layer: Layer, kinds: Collection[str]) -> list[Layer]:
    """Return a layer as the first kind among `kinds` that can describe it, or else unchanged."""
    if layer.kind not in kinds:
        for (own, other), translated in TRANSLATIONS.items():
            if own == layer.kind and other in kinds:
                return translated(layer)
    return [layer]
