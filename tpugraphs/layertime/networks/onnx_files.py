"""Layers of an ONNX model, by the shapes that ONNX infers."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.networks.builder import Builder
from tpugraphs.layertime.networks.layer import LayerList
from tpugraphs.system.files import file_name

if TYPE_CHECKING:
    import onnx

__all__ = ["is_onnx", "layers_of_onnx"]

Shape = tuple[int, ...]
_MOST_BYTES = (1 << 31) - 1  # that protobuf reads
# Operators that take no time, or only move or sum numbers.
_FREE = (
    *("Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Dropout", "Constant", "ConstantOfShape"),
    *("Shape", "Cast", "Transpose", "Concat", "Split", "Slice", "Pad", "Expand", "Tile", "Range", "Where"),
    *("ReduceMean", "ReduceSum", "ReduceMax", "DepthToSpace", "SpaceToDepth"),
)


def is_onnx(source: Any) -> bool:
    """Return whether something is a model of ONNX, or a path that ends with ``.onnx``."""
    if isinstance(source, (str, os.PathLike)):
        return os.fsdecode(source).lower().endswith(".onnx")
    return type(source).__name__ == "ModelProto"


def layers_of_onnx(
    source: str | os.PathLike[str] | onnx.ModelProto, sizes: Mapping[str, int] | None = None
) -> LayerList:
    """Return the layers of an ONNX model, in the order of its nodes.

    Nodes with a kind: Conv (of one group, or of as many as channels in two dimensions), Gemm, MatMul, LSTM,
    BatchNormalization, LayerNormalization, MaxPool, AveragePool and their global forms, Relu, Gelu, Sigmoid,
    Tanh, Softmax, Gather from a matrix of weights, and arithmetic of arrays. A Relu, Tanh or Sigmoid of a
    convolution or dense layer becomes its column ``activation``, and an Add of a vector is its bias. Nodes
    that only move or sum numbers are left out, as is Dropout; all others are listed without a kind, see
    `LayerList.unknown`. Attention is listed as the products and softmaxes that it consists of.

    Images and kernels that are not square count as the square of equal area, rounded to a whole side.

    Parameters
    ----------
    source : path or onnx.ModelProto
        Weights in external files are not read.
    sizes : dict of str to int, optional
        Sizes that the model leaves open, by name. The first of each input, the batch, is 1 by default.

    Returns
    -------
    LayerList
        In the order of the nodes.

    Raises
    ------
    ConfigError
        ONNX is not installed.
    DataError
        Not such a file; a size is open, or a shape unknown; the message names it.
    """
    try:
        onnx = importlib.import_module("onnx")
        inference = importlib.import_module("onnx.shape_inference")
    except ImportError:
        raise ConfigError(
            "layers of an ONNX model need onnx, which is missing: pip install tpugraphs[onnx]"
        ) from None
    where, model = "model", source
    if isinstance(source, (str, os.PathLike)):
        where = file_name(source)
        with open(where, "rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise DataError(
                f"{where}: more than {_MOST_BYTES >> 20} MiB; keep the weights in a file of their own"
            )
        try:
            model = onnx.load_model_from_string(raw)
        except Exception as error:  # of protobuf, whose classes differ by version
            raise DataError(f"{where}: not an ONNX model, or damaged: {error}") from None
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    batch = _close(copied.graph, dict(sizes or {}), where)
    try:
        graph = inference.infer_shapes(copied, data_prop=True).graph
    except (inference.InferenceError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"{where}: shapes do not fit: {error}") from None
    read = _Graph(onnx, graph, where)
    builder = Builder(batch)
    for i, node in enumerate(graph.node):
        read.node(builder, node, node.name or f"{node.op_type}_{i}")
    if not builder.layers:
        raise DataError(f"{where}: expected nodes of layers, found none")
    return builder.layers


def _close(graph: Any, sizes: dict[str, int], where: str) -> int:
    """Set the open sizes of the inputs; return the first size of the first input."""
    weights, batch = {one.name for one in graph.initializer}, 0
    for given in graph.input:
        if given.name in weights:
            continue
        for place, size in enumerate(given.type.tensor_type.shape.dim):
            if not size.HasField("dim_value"):
                name = size.dim_param or f"{given.name}[{place}]"
                if place == 0:
                    sizes.setdefault(name, 1)
                if name not in sizes:
                    raise DataError(f"{where}: size {name!r} of input {given.name!r} is open: give sizes=")
                size.dim_value = sizes[name]
            batch = batch or size.dim_value
    if batch < 1:
        raise DataError(f"{where}: expected an input with a batch, found none")
    return batch


class _Graph:
    """Shapes of a graph."""

    def __init__(self, onnx: Any, graph: Any, where: str) -> None:
        self.where, self.shapes, self.whole = where, dict[str, Shape](), set[str]()
        self.weights: dict[str, Shape] = {one.name: tuple(one.dims) for one in graph.initializer}
        for value in (*graph.input, *graph.value_info, *graph.output):
            tensor = value.type.tensor_type
            if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
                self.shapes[value.name] = tuple(d.dim_value for d in tensor.shape.dim)
            if tensor.elem_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL):
                self.whole.add(value.name)
        for node in graph.node:
            if node.op_type == "Constant":
                value = next((a.t for a in node.attribute if a.name == "value"), None)
                self.weights[node.output[0]] = tuple(value.dims) if value is not None else ()
        self.read_attribute = onnx.helper.get_attribute_value

    def shape(self, name: str, of: str) -> Shape:
        """Return the shape of an array, which a node needs."""
        found = self.weights.get(name, self.shapes.get(name))
        if found is None:
            raise DataError(
                f"{self.where}: node {of!r}: the shape of {name!r} is unknown; "
                "export the model with fixed sizes, or give sizes="
            )
        return found

    def node(self, to: Builder, node: Any, name: str) -> None:
        """Add the layer of a node."""
        op = node.op_type
        to.at(name, op)
        if op in _FREE or all(out in self.whole for out in node.output):
            return
        reader = _NODES.get(op)
        if reader is None or node.domain not in ("", "ai.onnx"):
            if self.shapes.get(node.output[0]) not in ((), (1,)):  # one number takes no time
                to.add(None)
            return
        try:
            inputs = [sys.intern(one) for one in node.input]  # compared by identity
            attributes = {one.name: self.read_attribute(one) for one in node.attribute}
            reader(_Node(to, name, op, inputs, sys.intern(node.output[0]), self, attributes))
        except DataError:
            raise
        except (IndexError, TypeError, ValueError, ArithmeticError):
            raise DataError(
                f"{self.where}: node {name!r} ({op}): its inputs or attributes do not fit"
            ) from None


@dataclass(frozen=True)
class _Node:
    """A node with its shapes, and the builder that its layer is added to."""

    to: Builder
    name: str
    op: str
    inputs: list[str]
    output: str
    graph: _Graph
    attributes: Mapping[str, Any]

    def shape(self, number: int) -> Shape:
        """Return the shape of an input."""
        return self.graph.shape(self.inputs[number], self.name)

    @property
    def y(self) -> Shape:
        """The shape of the output."""
        return self.graph.shape(self.output, self.name)

    @property
    def strides(self) -> Sequence[int]:
        """Strides over the first input; 1 where none are given."""
        found: Sequence[int] = self.attributes.get("strides", [1] * (len(self.shape(0)) - 2))
        return found


_Reader = Callable[[_Node], None]


def _conv(n: _Node) -> None:
    n.to.convolution(n.shape(0), n.shape(1), n.y, n.strides, len(n.inputs) > 2, n.output)


def _gemm(n: _Node) -> None:
    x, y = n.shape(0), n.y
    n.to.dense(x[::-1] if n.attributes.get("transA") else x, y[-1], n.output)


def _arithmetic(op: str) -> _Reader:
    def read(n: _Node) -> None:
        for one, other in (n.inputs, n.inputs[::-1]):
            vector = one in n.graph.weights and len(n.graph.weights[one]) == 1
            if n.op == "Add" and vector and n.to.follows(other, n.output):
                return
        both = all(math.prod(n.shape(i)) == math.prod(n.y) for i in range(len(n.inputs)))
        n.to.pointwise(op if both else f"{op}u", n.y)

    return read


def _layernorm(n: _Node) -> None:
    n.to.rows("layernorm", n.y, math.prod(n.y[n.attributes.get("axis", -1) :]))


def _pooling(op: str) -> _Reader:
    def read(n: _Node) -> None:
        x = n.shape(0)
        n.to.pooling(x, n.y, n.attributes.get("kernel_shape", x[2:]), n.strides, op)

    return read


def _lstm(n: _Node) -> None:
    x, weight = n.shape(0), n.shape(1)  # (length, N, numbers), (directions, 4 hidden, numbers)
    length, batch = (x[1], x[0]) if n.attributes.get("layout") else x[:2]
    n.to.lstm(batch, length, [weight[2]], weight[1] // 4, weight[0])


def _gather(n: _Node) -> None:
    table = n.graph.weights.get(n.inputs[0], ())
    if len(table) == 2 and n.attributes.get("axis", 0) == 0:
        n.to.embedding(n.shape(1), table)


def _activation(n: _Node) -> None:
    n.to.pointwise(n.op.lower(), n.y, n.inputs[0])


_NODES: dict[str, _Reader] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": lambda n: n.to.product(n.shape(0), n.shape(1), n.output),
    "LSTM": _lstm,
    "BatchNormalization": lambda n: n.to.batchnorm(n.shape(0)),
    "LayerNormalization": _layernorm,
    "Softmax": lambda n: n.to.rows("softmax", n.y, n.y[n.attributes.get("axis", -1)]),
    "Gather": _gather,
    **dict.fromkeys(("MaxPool", "GlobalMaxPool"), _pooling("max")),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool"), _pooling("average")),
    **dict.fromkeys(("Relu", "Gelu", "Sigmoid", "Tanh"), _activation),
    **dict.fromkeys(("Add", "Sub"), _arithmetic("add")),
    "Mul": _arithmetic("mul"),
    "Div": _arithmetic("div"),
    "Pow": _arithmetic("pow"),
}
