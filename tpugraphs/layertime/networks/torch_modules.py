"""Layers of a PyTorch module, from one run of it with an example."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.devices import torch_library
from tpugraphs.layertime.networks.layer import Builder, LayerList
from tpugraphs.system.arguments import check_whole

if TYPE_CHECKING:
    import torch

# Modules without children that take no time, or only move numbers.
_FREE = (
    *("Identity", "Flatten", "Unflatten", "_DropoutNd", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle"),
    *("_ConstantPadNd", "_ReflectionPadNd", "_ReplicationPadNd", "ModuleList", "ModuleDict", "Sequential"),
)


def is_module(source: Any) -> bool:
    """Return whether something is a PyTorch module, without importing PyTorch."""
    return "Module" in _torch_names(source)


def layers_of_torch(module: torch.nn.Module, example: object, batch_size: int | None = None) -> LayerList:
    """Return the layers that a PyTorch module runs for an example, in the order in which they run.

    The module runs once, without gradients and as in evaluation. Hooks on it and its modes of training are
    restored, also after an error. On the device ``meta`` shapes alone are computed, so a large network takes
    no time and no memory.

    These have a kind, as modules and as functions: convolutions (of one group, or of as many as channels in
    two dimensions), Linear and products of matrices, MultiheadAttention (its projections and its products
    apart), `scaled_dot_product_attention`, LSTM (each layer and direction separately), BatchNorm, LayerNorm,
    MaxPool2d, AvgPool2d and their adaptive forms, ReLU, GELU, SiLU, Sigmoid, Tanh, Softmax, Embedding, and
    arithmetic of arrays. A ReLU, Tanh or Sigmoid of a convolution or dense layer becomes its column
    ``activation``. What is used twice counts twice.

    Dropout is left out, as in inference, and so are functions that only move or sum numbers (`cat`,
    `contiguous`, `mean`, slices). Other modules without children, and other functions that take time such as
    `einsum`, are listed without a kind: see `LayerList.unknown`.

    Images and kernels that are not square count as the square of equal area, rounded to a whole side.

    Parameters
    ----------
    module : torch.nn.Module
    example : tensor, tuple of arguments, or dict of named arguments
    batch_size : int, optional
        Samples in the example; the first size of its first tensor otherwise.

    Returns
    -------
    LayerList
        In the order in which they run.

    Raises
    ------
    ConfigError
        PyTorch is not installed; not a module; the example holds no tensor, and `batch_size` is missing.
    """
    torch = torch_library()
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(f"module: expected a torch.nn.Module, got {type(module).__name__}")
    named: dict[str, Any] = dict(example) if isinstance(example, Mapping) else {}
    args = () if named else tuple(example) if isinstance(example, (tuple, list)) else (example,)
    if batch_size is None:
        shapes = [tuple(one.shape) for one in (*args, *named.values()) if isinstance(one, torch.Tensor)]
        if not shapes or not shapes[0]:
            raise ConfigError("example: expected a tensor with a batch in it; or give batch_size=")
        batch_size = int(shapes[0][0])
    trace = _Trace(torch, check_whole("batch_size", batch_size, 1))
    with ExitStack() as stack:
        for name, one in module.named_modules():
            stack.callback(setattr, one, "training", one.training)
            stack.callback(one.register_forward_pre_hook(trace.entering(name, one)).remove)
            stack.callback(one.register_forward_hook(trace.leave).remove)
        module.eval()
        stack.enter_context(torch.no_grad())
        stack.enter_context(trace.mode())
        module(*args, **named)
    return trace.builder.layers


class _Trace:
    """A recorder of the functions and modules of a run."""

    def __init__(self, torch: Any, batch: int) -> None:
        self.torch, self.builder = torch, Builder(batch)
        self.path: list[tuple[str, Any, int]] = []  # modules that run, and calls that were seen before
        self.calls = 0

    def entering(self, name: str, module: Any) -> Any:
        """Return a hook that runs before a module."""
        return lambda *_: self.path.append((name or type(module).__name__, module, self.calls))

    def leave(self, module: Any, args: Any, out: Any) -> None:
        """Record a module without children that called no known function."""
        name, _, before = self.path.pop()
        free = not _is_leaf(module) or set(_torch_names(module)) & set(_FREE)
        if not free and self.calls == before and not any(out is one for one in args):
            self.builder.at(name, type(module).__name__)
            self.builder.add(None)

    def call(self, function: Any, args: Any, named: Any, out: Any) -> None:
        """Record a function that has run."""
        first = out[0] if isinstance(out, tuple) and out else out
        if not self.torch.is_tensor(first) or not first.is_floating_point() or not first.dim():
            return
        plain = getattr(function, "__name__", "").strip("_")
        reader = _FUNCTIONS.get(plain)
        if reader is None and plain not in _UNKNOWN and not plain.startswith(("fft_", "linalg_", "conv")):
            return
        self.calls += 1
        name, module, _ = self.path[-1]
        source = type(module).__name__
        if not _is_leaf(module) or source not in _torch_names(module):  # may call several functions
            name, source = f"{name}.{plain}".removeprefix("."), plain
        self.builder.at(name, source)
        if reader is None:
            self.builder.add(None)
        else:
            reader(_Call(self.builder, plain, args, named, out))

    def mode(self) -> Any:
        """Return the context in which functions are seen."""
        trace, base = self, importlib.import_module("torch.overrides").TorchFunctionMode

        class Mode(base):  # type: ignore[misc, valid-type]
            def __torch_function__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                out = function(*args, **(kwargs or {}))
                trace.call(function, args, kwargs or {}, out)
                return out

        return Mode()


def _torch_names(module: Any) -> list[str]:
    """Return the names of the classes of PyTorch that something derives from."""
    return [c.__name__ for c in type(module).__mro__ if c.__module__.startswith("torch.nn.")]


def _is_leaf(module: Any) -> bool:
    """Return whether a module has no modules in it; those of attention are called as functions."""
    names = _torch_names(module)
    return "MultiheadAttention" in names or next(module.children(), None) is None


class _Call(NamedTuple):
    """A function that has run, and the builder that its layer is added to."""

    to: Builder
    function: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    out: Any

    def given(self, place: int, name: str, default: Any = None) -> Any:
        """Return an argument, by place or by name."""
        return self.args[place] if len(self.args) > place else self.named.get(name, default)

    def shape(self, place: int, name: str) -> tuple[int, ...]:
        """Return the shape of an argument."""
        return tuple(self.given(place, name).shape)

    @property
    def x(self) -> Any:
        """The first argument."""
        return self.given(0, "input")


def _sizes(value: Any, count: int) -> tuple[int, ...]:
    """Return one size per dimension: functions take a number, one in a list, or all."""
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return sizes * count if len(sizes) == 1 else sizes


def _batched(shape: Sequence[int], dimensions: int) -> tuple[int, ...]:
    """Return a shape with a batch: functions of images also take a single one."""
    return tuple(shape) if len(shape) == dimensions else (1, *shape)


def _convolution(c: _Call) -> None:
    weight = c.shape(1, "weight")
    count = len(weight)
    x, y = _batched(c.x.shape, count), _batched(c.out.shape, count)
    strides, bias = _sizes(c.given(3, "stride", 1), count - 2), c.given(2, "bias") is not None
    c.to.convolution(x, weight, y, strides, bias, c.out)


def _matmul(c: _Call) -> None:
    x, y = c.x, c.given(1, "other", c.named.get("mat2"))
    x, y = (y, x) if c.function == "rmatmul" else (x, y)
    c.to.product(x.shape, y.shape, c.out)


def _multi_head(c: _Call) -> None:
    """Read projections as in `torch.nn.functional.multi_head_attention_forward`: (length, N, numbers)."""
    query, key, value, width, heads = c.args[:5]
    batch = query.shape[1] if query.dim() == 3 else 1
    source, target, size = query.shape[0], key.shape[0], width // heads
    if query is key is value:
        projected = [("in", source, width, 3 * width)]
    elif key is value and not c.named.get("use_separate_proj_weight"):
        projected = [("q", source, width, width), ("kv", target, width, 2 * width)]
    else:
        inner = [("k", target, key.shape[-1], width), ("v", target, value.shape[-1], width)]
        projected = [("q", source, width, width), *inner]
    for part, length, cin, cout in projected:
        c.to.dense((batch, length, cin), cout, part=f".{part}_proj")
    c.to.attention((batch, heads, source, size), (batch, heads, target, size))
    c.to.dense((batch, source, width), width, part=".out_proj")


def _lstm(c: _Call) -> None:
    if len(c.args) != 9 or c.x.dim() != 3:  # sequences of several lengths are packed otherwise
        return c.to.add(None)
    x, _, weights, biases, layers, _, _, both, batch_first = c.args
    directions, of_each = 2 if both else 1, 4 if biases else 2
    sizes = [weights[i * directions * of_each].shape[1] for i in range(layers)]
    hidden = weights[0].shape[0] // 4
    if weights[1].shape[1] != hidden:  # outputs are projected
        return c.to.add(None)
    batch, length = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    c.to.lstm(batch, length, sizes, hidden, directions)


def _softmax(c: _Call) -> None:
    dim = c.given(1, "dim")
    c.to.rows("softmax", c.out.shape, c.out.shape[-1 if dim is None else dim])


def _pooling(c: _Call) -> None:
    out = c.out[0] if isinstance(c.out, tuple) else c.out  # a maximum may come with its place
    x, y = _batched(c.x.shape, 4), _batched(out.shape, 4)
    kernel = _sizes(c.given(1, "kernel_size"), 2)
    strides = _sizes(c.given(2, "stride") or kernel, 2)
    if c.function.startswith("adaptive"):  # whose second argument is the size of the output
        sides = list(zip(x[2:], y[2:], strict=True))
        kernel = tuple(-(size // -places) for size, places in sides)
        strides = tuple(max(1, size // places) for size, places in sides)
    c.to.pooling(x, y, kernel, strides, "max" if "max" in c.function else "average")


def _arithmetic(op: str, c: _Call) -> None:
    pair = (c.x, c.given(1, "other", c.named.get("exponent")))
    both = all(hasattr(one, "numel") and one.numel() == c.out.numel() for one in pair)
    c.to.pointwise(op if both else f"{op}u", c.out.shape)


_ARITHMETIC = {
    "add": ("add", "radd", "iadd", "sub", "rsub", "isub", "subtract"),
    "mul": ("mul", "rmul", "imul", "multiply"),
    "div": ("div", "rdiv", "truediv", "rtruediv", "itruediv", "true_divide", "divide"),
    "pow": ("pow", "rpow"),
}
_ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "tanh")
_POOLING = ("max_pool2d", "avg_pool2d", "adaptive_max_pool2d", "adaptive_avg_pool2d")

_FUNCTIONS: dict[str, Callable[[_Call], None]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("matmul", "rmatmul", "bmm", "mm"), _matmul),
    **dict.fromkeys(_ACTIVATIONS, lambda c: c.to.pointwise(c.function, c.out.shape, c.x)),
    **{name: partial(_arithmetic, op) for op, names in _ARITHMETIC.items() for name in names},
    **dict.fromkeys((*_POOLING, "max_pool2d_with_indices", "adaptive_max_pool2d_with_indices"), _pooling),
    "addmm": lambda c: c.to.product(c.shape(1, "mat1"), c.shape(2, "mat2"), c.out),
    "linear": lambda c: c.to.dense(c.x.shape, c.shape(1, "weight")[0], c.out),
    "scaled_dot_product_attention": lambda c: c.to.attention(c.shape(0, "query"), c.shape(1, "key")),
    "multi_head_attention_forward": _multi_head,
    "lstm": _lstm,
    "batch_norm": lambda c: c.to.batchnorm(c.out.shape),
    "layer_norm": lambda c: c.to.rows("layernorm", c.out.shape, math.prod(c.given(1, "normalized_shape"))),
    "softmax": _softmax,
    "embedding": lambda c: c.to.embedding(c.out.shape[:-1], c.shape(1, "weight")),
}
"""Readers of functions, by name without leading and trailing ``_``."""

_UNKNOWN = (
    *("einsum", "tensordot", "baddbmm", "addbmm", "bilinear", "cdist", "gru", "rnn_tanh", "rnn_relu"),
    *("group_norm", "instance_norm", "rms_norm", "local_response_norm", "interpolate", "grid_sample"),
    *("embedding_bag", "cumsum", "sort", "topk", "max_pool1d", "max_pool3d", "avg_pool1d", "avg_pool3d"),
    *("log_softmax", "leaky_relu", "elu", "hardswish", "hardtanh", "softplus", "mish", "prelu"),
    *("exp", "log", "sqrt", "rsqrt", "erf", "sin", "cos"),
)
"""Functions that take time and have no kind."""
