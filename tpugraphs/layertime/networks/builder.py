"""Layers from the shapes of arrays: what readers of modules and of ONNX files share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tpugraphs.layertime.networks.layer import Layer, LayerList, equal_side, window

__all__ = ["Builder"]

Shape = Sequence[int]
_ACTIVATIONS = ("relu", "tanh", "sigmoid")  # that convolutions and dense layers have a column of


class Builder:
    """A list of layers that grows.

    Parameters
    ----------
    batch : int
        Samples in the example whose shapes are given; sizes of layers are shares of it, rounded up.
    """

    def __init__(self, batch: int) -> None:
        self.batch, self.layers = batch, LayerList()
        self._output: Any = None  # of the last layer, if it has a column of activations

    def add(self, name: str, source: str, kind: str, count: int, **columns: int | str) -> None:
        """Add a layer whose column of the batch is `count` in the example."""
        self._output = None
        self.layers.append(Layer(name, kind, columns, self.share(count), source))

    def share(self, count: int) -> int:
        """Return how many of `count` a sample has, 1 at least."""
        return max(1, -(count // -self.batch))

    def unknown(self, name: str, source: str) -> None:
        """Add what has no kind."""
        self._output = None
        self.layers.append(Layer(name, None, source=source))

    def convolution(
        self, name: str, source: str, x: Shape, weight: Shape, y: Shape, strides: Shape, bias: bool, out: Any
    ) -> None:
        """Add a convolution of `x` (N, C, ...) to `y`, with a weight (C', C / groups, ...)."""
        dimensions, cin, cout = len(x) - 2, x[1], weight[0]
        groups = cin // max(1, weight[1])
        thin = dimensions == 2 and groups == cin > 1
        if dimensions not in (1, 2, 3) or (groups > 1 and not thin):
            self.unknown(name, f"{source} with {groups} groups" if groups > 1 else source)
            return
        kernel, stride = equal_side(weight[2:]), equal_side(strides)
        side, padding = window(equal_side(x[2:]), kernel, stride, equal_side(y[2:]))
        kind = "depthwise" if thin else f"conv{dimensions}d"
        sizes = {"channels": cout} if thin else {"channels_in": cin, "channels_out": cout}
        sizes |= {"length" if kind == "conv1d" else "matsize": side, "kernelsize": kernel, "strides": stride}
        self.add(name, source, kind, x[0], **sizes, padding=padding, use_bias=int(bias))
        self._output = out

    def dense(self, name: str, source: str, x: Shape, dim_output: int, out: Any) -> None:
        """Add a dense layer over the last dimension of `x`."""
        self.add(name, source, "dense", math.prod(x[:-1]), dim_input=x[-1], dim_output=dim_output)
        self._output = out

    def product(self, name: str, source: str, x: Shape, y: Shape, out: Any) -> None:
        """Add a product (..., M, N) x (..., N, K); a dense layer if `y` is one matrix."""
        if min(len(x), len(y)) < 2:
            return  # with a vector: next to nothing
        if len(y) == 2:
            self.dense(name, source, x, y[-1], out)
            return
        count = max(math.prod(x[:-2]), math.prod(y[:-2]))
        self.add(name, source, "bmm", count, M=x[-2], N=x[-1], K=y[-1])

    def attention(self, name: str, source: str, query: Shape, key: Shape) -> None:
        """Add the products of attention; queries and keys are (N, ..., heads, length, head size)."""
        heads = query[-3] if len(query) > 3 else 1
        count = math.prod(query[:-2]) // max(1, heads)
        self.add(
            name,
            source,
            "attention",
            count,
            heads=heads,
            queries=query[-2],
            keys=key[-2],
            head_size=query[-1],
        )

    def lstm(
        self, name: str, source: str, batch: int, length: int, sizes: Shape, hidden: int, directions: int
    ) -> None:
        """Add the layers of an LSTM, each of which has an input of one of `sizes` numbers."""
        for i, dim_input in enumerate(sizes):
            for way in ("", ".reverse")[:directions]:
                own = {"length": length, "dim_input": dim_input, "dim_hidden": hidden}
                self.add(f"{name}.{i}{way}", source, "lstm", batch, **own)

    def pooling(
        self, name: str, source: str, x: Shape, y: Shape, kernel: Shape, strides: Shape, op: str
    ) -> None:
        """Add pooling of images (N, C, H, W)."""
        if len(x) != 4:
            self.unknown(name, source)
            return
        size, stride = equal_side(kernel), equal_side(strides)
        side, padding = window(equal_side(x[2:]), size, stride, equal_side(y[2:]))
        own = {"matsize": side, "kernelsize": size, "strides": stride, "channels": x[1]}
        self.add(name, source, "pooling", x[0], **own, padding=padding, op=op)

    def batchnorm(self, name: str, source: str, x: Shape) -> None:
        """Add a batch norm of `x` (N, C, ...)."""
        self.add(name, source, "batchnorm", x[0], matsize=side_of_area(x[2:]), channels=x[1])

    def rows(self, name: str, source: str, kind: str, x: Shape, numbers: int) -> None:
        """Add a softmax or a layer norm over rows of as many numbers."""
        self.add(name, source, kind, math.prod(x) // max(1, numbers), H=numbers)

    def pointwise(self, name: str, source: str, op: str, y: Shape, of: Any = None) -> None:
        """Add a function of single numbers; an activation joins the layer whose output `of` it takes."""
        if op in _ACTIVATIONS and of is not None and of is self._output:
            last = self.layers[-1]
            self.layers[-1] = replace(last, columns={**last.columns, "activation": op})
            self._output = None
            return
        if len(y) > 1 or math.prod(y) > 1:
            self.add(name, source, "elementwise", math.prod(y[:-1]), H=y[-1], op=op)

    def embedding(self, name: str, source: str, taken: Shape, table: Shape) -> None:
        """Add rows of `table` (rows, columns), gathered by numbers (N, ...)."""
        length = self.share(math.prod(taken))
        self.add(
            name, source, "embedding", self.batch, length=length, dim_input=table[0], dim_output=table[1]
        )

    def follows(self, of: Any, out: Any) -> bool:
        """Return whether `of` is the output of the last layer; then it is `out` from here on (a bias)."""
        if of is None or of is not self._output:
            return False
        self._output = out
        return True


def side_of_area(sizes: Shape) -> int:
    """Return the side of the square that has as many places, rounded."""
    return max(1, round(math.sqrt(math.prod(sizes))))
