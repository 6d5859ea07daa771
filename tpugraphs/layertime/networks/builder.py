"""A builder of layers from shapes of arrays, for the readers of modules and of ONNX files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tpugraphs.layertime.networks.layer import Layer, LayerList, equal_side, window

__all__ = ["Builder"]

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
        self,
        kind: str | None,
        count: int = 1,
        columns: Mapping[str, int | str] = MappingProxyType({}),
        out: Any = None,
        part: str = "",
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
            self.add(None)
            return
        kind = "depthwise" if thin else f"conv{dimensions}d"
        columns = _sliding(x, y, weight[2:], strides, "length" if kind == "conv1d" else "matsize")
        columns |= {"channels": cout} if thin else {"channels_in": cin, "channels_out": cout}
        self.add(kind, x[0], columns | {"use_bias": int(bias)}, out)

    def dense(self, x: Shape, dim_output: int, out: Any = None, part: str = "") -> None:
        """Add a dense layer over the last dimension of `x`."""
        sizes = {"dim_input": x[-1], "dim_output": dim_output}
        self.add("dense", math.prod(x[:-1]), sizes, out, part)

    def product(self, x: Shape, y: Shape, out: Any) -> None:
        """Add a product (..., M, N) x (..., N, K); a dense layer if `y` is one matrix."""
        if min(len(x), len(y)) < 2:
            return  # with a vector: negligible
        if len(y) == 2:
            self.dense(x, y[-1], out)
            return
        count = max(math.prod(x[:-2]), math.prod(y[:-2]))
        self.add("bmm", count, {"M": x[-2], "N": x[-1], "K": y[-1]})

    def attention(self, query: Shape, key: Shape) -> None:
        """Add the products of attention; queries and keys are (N, ..., heads, length, head size)."""
        heads = query[-3] if len(query) > 3 else 1
        sizes = {"heads": heads, "queries": query[-2], "keys": key[-2], "head_size": query[-1]}
        self.add("attention", math.prod(query[:-2]) // max(1, heads), sizes)

    def lstm(self, batch: int, length: int, sizes: Shape, hidden: int, directions: int) -> None:
        """Add the layers of an LSTM, one for each input size in `sizes`."""
        for i, dim_input in enumerate(sizes):
            for way in ("", ".reverse")[:directions]:
                columns = {"length": length, "dim_input": dim_input, "dim_hidden": hidden}
                self.add("lstm", batch, columns, part=f".{i}{way}")

    def pooling(self, x: Shape, y: Shape, kernel: Shape, strides: Shape, op: str) -> None:
        """Add pooling of images (N, C, H, W)."""
        if len(x) == 4:
            self.add("pooling", x[0], _sliding(x, y, kernel, strides) | {"channels": x[1], "op": op})
        else:
            self.add(None)

    def batchnorm(self, x: Shape) -> None:
        """Add a batch norm of `x` (N, C, ...), images as squares of equal area."""
        side = max(1, round(math.sqrt(math.prod(x[2:]))))
        self.add("batchnorm", x[0], {"matsize": side, "channels": x[1]})

    def rows(self, kind: str, x: Shape, numbers: int) -> None:
        """Add a softmax or a layer norm over rows of `numbers` numbers."""
        self.add(kind, math.prod(x) // max(1, numbers), {"H": numbers})

    def pointwise(self, op: str, y: Shape, of: Any = None) -> None:
        """Add an elementwise function; an activation joins the layer with the output `of`."""
        if op in _ACTIVATIONS and of is not None and of is self._output:
            last = self.layers[-1]
            self.layers[-1] = replace(last, columns={**last.columns, "activation": op})
            self._output = None
        elif len(y) > 1 or math.prod(y) > 1:
            self.add("elementwise", math.prod(y[:-1]), {"H": y[-1], "op": op})

    def embedding(self, taken: Shape, table: Shape) -> None:
        """Add rows of `table` (rows, columns), gathered by numbers (N, ...)."""
        sizes = {"length": self.share(math.prod(taken)), "dim_input": table[0], "dim_output": table[1]}
        self.add("embedding", self.batch, sizes)

    def follows(self, of: Any, out: Any) -> bool:
        """Return whether `of` is the last layer's output; if so, the output becomes `out` (after a bias)."""
        if of is None or of is not self._output:
            return False
        self._output = out
        return True


def _sliding(
    x: Shape, y: Shape, kernel: Shape, strides: Shape, name: str = "matsize"
) -> dict[str, int | str]:
    """Return the columns of a kernel that slides over images `x` to `y` (N, C, ...); `name` has the side."""
    size, stride = equal_side(kernel), equal_side(strides)
    side, padding = window(equal_side(x[2:]), size, stride, equal_side(y[2:]))
    return {name: side, "kernelsize": size, "strides": stride, "padding": padding}
