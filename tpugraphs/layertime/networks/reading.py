"""Layers of a network from a module, an ONNX model or JSON.

ONNX infers the shapes of its models. JSON is our own, or that of the ml-performance-prediction project:
Justus, Brennan, Bonner and McGough, Predicting the Computational Cost of Deep Learning Models (2018).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.networks.layer import Builder, Layer, LayerList, Shape, places_of, window
from tpugraphs.layertime.networks.torch_modules import is_module, layers_of_torch
from tpugraphs.system import file_name, name_of, optional, parsed, read_whole
from tpugraphs.system.arguments import is_number

if TYPE_CHECKING:
    import onnx


def read_layers(
    source: object,
    example: object = None,
    *,
    batch_size: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> LayerList:
    """Read the layers of a network.

    Parameters
    ----------
    source : path, open file, dict, list, torch.nn.Module or onnx.ModelProto
        A path names an ONNX model (``.onnx``) or a JSON file; a file that is open gives JSON. JSON is a
        list of layers, or an object whose field ``layers`` holds them; dicts and lists of the same form do
        as well. A layer is either of our kinds,
        ``{"kind": "attention", "heads": 8, "queries": 128, "keys": 128, "head_size": 64}``, with the
        columns of `Layer` and, if wanted, ``name`` and ``rows``. Or it is as in the ml-performance-prediction
        project, with the fields ``name``, ``type`` (``Convolution``, ``Fully_connected`` or ``Dense``,
        ``Max_pool``, ``Avg_pool``), ``matsize``, ``kernelsize`` or ``pool_size``, ``channels_in``,
        ``channels_out``, ``padding``, ``strides``, ``use_bias``, ``activation`` and ``output_size``. Sizes
        that follow from the layer before, or from the field ``input``, may be missing. A convolution over
        all of its input is read as the dense layer that it is.
    example : tensor, tuple or dict, optional
        For a module, see `layers_of_torch`.
    batch_size : int, optional
        Of the example.
    sizes : dict of str to int, optional
        For an ONNX model, see `layers_of_onnx`.

    Returns
    -------
    LayerList
        A list of `Layer`. What has no kind is in it, too, and in its attribute `unknown`.

    Raises
    ------
    ConfigError
        A module without an example; the package that reads the source is missing.
    DataError
        Not such a file; a layer that is described wrongly. The message names file, layer and field.
    """
    if is_module(source):
        if example is None:
            raise ConfigError("example: the layers of a module need an input to run it with")
        return layers_of_torch(source, example, batch_size)
    named = isinstance(source, (str, os.PathLike)) and os.fsdecode(source).lower().endswith(".onnx")
    if named or type(source).__name__ == "ModelProto":
        return layers_of_onnx(source, sizes)
    return layers_of_json(source)


# ---- JSON

_DENSE = ("fully_connected", "dense")
_POOLING = {"max_pool": "max", "avg_pool": "average", "average_pool": "average"}


def layers_of_json(source: Any) -> LayerList:
    """Read a list of layers in JSON; see `read_layers` for what it may hold.

    Raises
    ------
    DataError
        Not such a file; the message names the layer and the field.
    """
    where = "layers"
    if hasattr(source, "read") or isinstance(source, (str, os.PathLike)):
        file = source if hasattr(source, "read") else file_name(source)
        where, raw = name_of(file), read_whole(file)
        try:
            source = parsed(raw)
        except ValueError as error:
            raise DataError(f"{where}: not a JSON file, or damaged: {error}") from None
    side = channels = None
    if isinstance(source, Mapping):
        if "layers" not in source:
            raise DataError(f"{where}: expected the field 'layers', found {', '.join(map(str, source))}")
        if isinstance(given := source.get("input"), Mapping):
            side, channels = given.get("size"), given.get("dimension")
        source = source["layers"]
    if isinstance(source, Mapping):
        keys = list(source)
        if all(key.isascii() and key.isdigit() and len(key) < 10 for key in map(str, keys)):
            keys.sort(key=int)
        source = [source[key] for key in keys]
    if not isinstance(source, (list, tuple)) or not source:
        raise DataError(f"{where}: expected a list of layers, found {source!r:.80}")
    found = LayerList()
    for i, entry in enumerate(source):
        if not isinstance(entry, Mapping):
            raise DataError(f"{where}: layer {i}: expected an object, found {entry!r:.80}")
        try:
            if "kind" in entry:
                layer = _own_layer(entry, i)
            else:
                layer, side, channels = _published(entry, i, side, channels)
            found.append(layer)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
    return found


def _own_layer(entry: Mapping[str, Any], number: int) -> Layer:
    columns = {str(name): value for name, value in entry.items() if name not in ("kind", "name", "rows")}
    kind = entry["kind"]
    name = str(entry.get("name", f"{kind}_{number + 1}"))
    if not isinstance(kind, str):
        raise DataError(f"layer {name!r}: kind: expected a word, found {kind!r:.80}")
    return Layer(name, kind, columns, entry.get("rows", 1), kind)


def _published(entry: Mapping[str, Any], number: int, side: Any, channels: Any) -> tuple[Layer, Any, Any]:
    """Return a layer, and the side and channels of its output, which the next may leave out."""
    made_of = str(entry.get("type"))
    name = str(entry.get("name", f"layer_{number + 1}"))
    known, where = made_of.lower(), f"layer {name!r} ({made_of})"
    sizes = {**{"matsize": side, "channels_in": channels}, **entry}

    def whole(field: str, default: Any = None) -> int:
        value: float = default if sizes.get(field) is None else sizes[field]
        if not is_number(value) or not 0 < value < 1 << 31:
            raise DataError(f"{where}: {field}: expected a number above 0, found {value!r:.80}")
        return math.ceil(value)  # the project keeps fractions where a stride does not divide a side

    given = str(entry.get("activation") or "None").lower()
    activation = "None" if given in ("none", "linear") else given

    def dense(cin: int, cout: int) -> tuple[Layer, int, int]:
        columns: dict[str, Any] = {"dim_input": cin, "dim_output": cout, "activation": activation}
        return Layer(name, "dense", columns, source=made_of), 1, cout

    if known in _DENSE:
        flat = "dim_input" in entry
        cin = whole("dim_input", 0) if flat else whole("matsize", 1) ** 2 * whole("channels_in")
        return dense(cin, whole("dim_output" if "dim_output" in entry else "channels_out"))
    if known != "convolution" and known not in _POOLING:
        expected = "one of Convolution, Fully_connected, Dense, Max_pool, Avg_pool"
        raise DataError(f"layer {name!r}: type: expected {expected}; found {entry.get('type')!r:.80}")
    side = whole("matsize")
    kernel = whole("pool_size" if "pool_size" in entry else "kernelsize")
    stride, padding = whole("strides", 1), str(entry.get("padding", "VALID")).upper()
    if padding not in ("VALID", "SAME"):
        raise DataError(f"{where}: padding: expected VALID or SAME, found {entry['padding']!r:.80}")
    places = places_of(side, kernel, stride, padding)
    if places < 1:
        raise DataError(f"{where}: kernelsize: expected at most the side {side}, found {kernel}")
    if "output_size" in entry and whole("output_size") != places:
        expected = f"{places}, which follows from the other fields"
        raise DataError(f"{where}: output_size: expected {expected}, found {entry['output_size']!r:.80}")
    cin = whole("channels_in", entry.get("channels_out") if known in _POOLING else 0)
    if known not in _POOLING and places == 1 and kernel == side:
        return dense(side * side * cin, whole("channels_out"))
    matsize, padding = window(side, kernel, stride, places)
    columns: dict[str, Any] = {"matsize": matsize, "kernelsize": kernel, "strides": stride}
    columns |= {"padding": padding}
    if known in _POOLING:
        columns |= {"channels": cin, "op": _POOLING[known]}
        return Layer(name, "pooling", columns, source=made_of), places, cin
    cout = whole("channels_out")
    columns |= {"channels_in": cin, "channels_out": cout}
    columns |= {"use_bias": entry.get("use_bias", 0), "activation": activation}
    return Layer(name, "conv2d", columns, source=made_of), places, cout


# ---- ONNX

_MOST_BYTES = (1 << 31) - 1  # that protobuf reads
# Operators that take no time, or only move or sum numbers.
_MOVES = (
    *("Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Dropout", "Constant", "ConstantOfShape"),
    *("Shape", "Cast", "Transpose", "Concat", "Split", "Slice", "Pad", "Expand", "Tile", "Range", "Where"),
    *("ReduceMean", "ReduceSum", "ReduceMax", "DepthToSpace", "SpaceToDepth", "Trilu"),
)


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
    missing = "layers of an ONNX model need onnx, which is missing: pip install tpugraphs[onnx]"
    onnx, inference = (optional(name, missing) for name in ("onnx", "onnx.shape_inference"))
    where, model = "model", source
    if isinstance(source, (str, os.PathLike)):
        where = file_name(source)
        with open(where, "rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            todo = "keep the weights in a file of their own"
            raise DataError(f"{where}: more than {_MOST_BYTES >> 20} MiB; {todo}")
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
    opset = max((one.version for one in copied.opset_import if one.domain in ("", "ai.onnx")), default=1)
    read = _Graph(onnx, graph, where, Builder(batch), opset)
    for i, node in enumerate(graph.node):
        read.node(node, node.name or f"{node.op_type}_{i}")
    if not read.to.layers:
        raise DataError(f"{where}: expected nodes of layers, found none")
    return read.to.layers


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
    """Shapes of a graph, and the builder that its layers are added to."""

    def __init__(self, onnx: Any, graph: Any, where: str, to: Builder, opset: int) -> None:
        self.where, self.to, self.shapes, self.whole = where, to, dict[str, Shape](), set[str]()
        self.opset = opset
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
            todo = "export the model with fixed sizes, or give sizes="
            raise DataError(f"{self.where}: node {of!r}: the shape of {name!r} is unknown; {todo}")
        return found

    def node(self, node: Any, name: str) -> None:
        """Add the layer of a node."""
        op = node.op_type
        self.to.at(name, op)
        if op in _MOVES or all(out in self.whole for out in node.output):
            return
        reader = _NODES.get(op)
        if reader is None or node.domain not in ("", "ai.onnx"):
            if self.shapes.get(node.output[0]) not in ((), (1,)):  # one number takes no time
                self.to.add(None)
            return
        try:
            reader(_Node(self, node, name))
        except DataError:
            raise
        except (IndexError, TypeError, ValueError, ArithmeticError):
            wrong = "its inputs or attributes do not fit"
            raise DataError(f"{self.where}: node {name!r} ({op}): {wrong}") from None


class _Node:
    """A node with its shapes."""

    def __init__(self, graph: _Graph, node: Any, name: str) -> None:
        self.graph, self.to, self.name, self.op = graph, graph.to, name, node.op_type
        self.inputs = [sys.intern(one) for one in node.input]  # compared by identity
        self.output = sys.intern(node.output[0])
        self.attributes = {one.name: graph.read_attribute(one) for one in node.attribute}
        self.axis = self.attributes.get("axis", -1)  # that rows lie along

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


def _conv(n: _Node) -> None:
    n.to.convolution(n.shape(0), n.shape(1), n.y, n.strides, len(n.inputs) > 2, n.output)


def _gemm(n: _Node) -> None:
    x, y = n.shape(0), n.y
    n.to.dense(x[::-1] if n.attributes.get("transA") else x, y[-1], n.output)


def _arithmetic(n: _Node) -> None:
    for one, other in (n.inputs, n.inputs[::-1]):
        vector = one in n.graph.weights and len(n.graph.weights[one]) == 1
        if n.op == "Add" and vector and n.to.follows(other, n.output):
            return
    op = "add" if n.op == "Sub" else n.op.lower()
    both = all(math.prod(n.shape(i)) == math.prod(n.y) for i in range(len(n.inputs)))
    n.to.pointwise(op if both else f"{op}u", n.y)


def _pooling(n: _Node) -> None:
    x, op = n.shape(0), "max" if "Max" in n.op else "average"
    n.to.pooling(x, n.y, n.attributes.get("kernel_shape", x[2:]), n.strides, op)


def _lstm(n: _Node) -> None:
    x, weight = n.shape(0), n.shape(1)  # (length, N, numbers), (directions, 4 hidden, numbers)
    length, batch = (x[1], x[0]) if n.attributes.get("layout") else x[:2]
    n.to.lstm(batch, length, [weight[2]], weight[1] // 4, weight[0])


def _softmax(n: _Node) -> None:
    if n.graph.opset >= 13:
        numbers = n.y[n.axis]
    else:  # rows are all that follows the axis
        numbers = math.prod(n.y[n.attributes.get("axis", 1) :])
    n.to.rows("softmax", n.y, numbers)


def _gather(n: _Node) -> None:
    table = n.graph.weights.get(n.inputs[0], ())
    if len(table) == 2 and n.attributes.get("axis", 0) == 0:
        n.to.embedding(n.shape(1), table)


_ACTIVATIONS = ("Relu", "Gelu", "Sigmoid", "Tanh")
_NODES: dict[str, Callable[[_Node], None]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": lambda n: n.to.product(n.shape(0), n.shape(1), n.output),
    "LSTM": _lstm,
    "BatchNormalization": lambda n: n.to.batchnorm(n.shape(0)),
    "LayerNormalization": lambda n: n.to.rows("layernorm", n.y, math.prod(n.y[n.axis :])),
    "Softmax": _softmax,
    "Gather": _gather,
    **dict.fromkeys(("MaxPool", "GlobalMaxPool", "AveragePool", "GlobalAveragePool"), _pooling),
    **dict.fromkeys(_ACTIVATIONS, lambda n: n.to.pointwise(n.op.lower(), n.y, n.inputs[0])),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow"), _arithmetic),
}
