"""Functions of PyTorch that have a kind, read from their arguments and the shapes of their outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpugraphs.layertime.networks.builder import Builder

__all__ = ["FUNCTIONS", "UNKNOWN", "Call"]


@dataclass(frozen=True)
class Call:
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


Reader = Callable[[Call], None]


def _sizes(value: Any, count: int) -> tuple[int, ...]:
    """Return one size per dimension: functions take a number, one in a list, or all."""
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return sizes * count if len(sizes) == 1 else sizes


def _batched(shape: Sequence[int], dimensions: int) -> tuple[int, ...]:
    """Return a shape with a batch: functions of images also take a single one."""
    return tuple(shape) if len(shape) == dimensions else (1, *shape)


def _convolution(c: Call) -> None:
    weight = c.shape(1, "weight")
    count = len(weight)
    x, y = _batched(c.x.shape, count), _batched(c.out.shape, count)
    strides, bias = _sizes(c.given(3, "stride", 1), count - 2), c.given(2, "bias") is not None
    c.to.convolution(x, weight, y, strides, bias, c.out)


def _matmul(c: Call) -> None:
    x, y = c.x, c.given(1, "other", c.named.get("mat2"))
    x, y = (y, x) if c.function == "rmatmul" else (x, y)
    c.to.product(x.shape, y.shape, c.out)


def _multi_head(c: Call) -> None:
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


def _lstm(c: Call) -> None:
    if len(c.args) != 9 or c.x.dim() != 3:  # sequences of several lengths are packed otherwise
        c.to.add(None)
        return
    x, _, weights, biases, layers, _, _, both, batch_first = c.args
    directions, of_each = 2 if both else 1, 4 if biases else 2
    sizes = [weights[i * directions * of_each].shape[1] for i in range(layers)]
    hidden = weights[0].shape[0] // 4
    if weights[1].shape[1] != hidden:  # outputs are projected
        c.to.add(None)
        return
    batch, length = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    c.to.lstm(batch, length, sizes, hidden, directions)


def _softmax(c: Call) -> None:
    dim = c.given(1, "dim")
    c.to.rows("softmax", c.out.shape, c.out.shape[-1 if dim is None else dim])


def _images(c: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    out = c.out[0] if isinstance(c.out, tuple) else c.out  # a maximum may come with its place
    return _batched(c.x.shape, 4), _batched(out.shape, 4)


def _pooling(op: str) -> Reader:
    def read(c: Call) -> None:
        kernel = _sizes(c.given(1, "kernel_size"), 2)
        c.to.pooling(*_images(c), kernel, _sizes(c.given(2, "stride") or kernel, 2), op)

    return read


def _adaptive(op: str) -> Reader:
    def read(c: Call) -> None:
        x, y = _images(c)
        sides = list(zip(x[2:], y[2:], strict=True))
        kernel = [-(size // -places) for size, places in sides]
        c.to.pooling(x, y, kernel, [max(1, size // places) for size, places in sides], op)

    return read


def _activation(c: Call) -> None:
    c.to.pointwise(c.function.removesuffix("_"), c.out.shape, c.x)


def _arithmetic(op: str) -> Reader:
    def read(c: Call) -> None:
        pair = (c.x, c.given(1, "other", c.named.get("exponent")))
        both = all(hasattr(one, "numel") and one.numel() == c.out.numel() for one in pair)
        c.to.pointwise(op if both else f"{op}u", c.out.shape)

    return read


_ARITHMETIC = {
    "add": ("add", "radd", "iadd", "sub", "rsub", "isub", "subtract"),
    "mul": ("mul", "rmul", "imul", "multiply"),
    "div": ("div", "rdiv", "truediv", "rtruediv", "itruediv", "true_divide", "divide"),
    "pow": ("pow", "rpow"),
}

FUNCTIONS: dict[str, Reader] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("matmul", "rmatmul", "bmm", "mm"), _matmul),
    **dict.fromkeys(("relu", "gelu", "silu", "sigmoid", "tanh"), _activation),
    **{name: _arithmetic(op) for op, names in _ARITHMETIC.items() for name in names},
    "addmm": lambda c: c.to.product(c.shape(1, "mat1"), c.shape(2, "mat2"), c.out),
    "linear": lambda c: c.to.dense(c.x.shape, c.shape(1, "weight")[0], c.out),
    "scaled_dot_product_attention": lambda c: c.to.attention(c.shape(0, "query"), c.shape(1, "key")),
    "multi_head_attention_forward": _multi_head,
    "lstm": _lstm,
    "batch_norm": lambda c: c.to.batchnorm(c.out.shape),
    "layer_norm": lambda c: c.to.rows("layernorm", c.out.shape, math.prod(c.given(1, "normalized_shape"))),
    "softmax": _softmax,
    **dict.fromkeys(("max_pool2d", "max_pool2d_with_indices"), _pooling("max")),
    "avg_pool2d": _pooling("average"),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_max_pool2d_with_indices"), _adaptive("max")),
    "adaptive_avg_pool2d": _adaptive("average"),
    "embedding": lambda c: c.to.embedding(c.out.shape[:-1], c.shape(1, "weight")),
}
"""Readers of functions, by name without leading and trailing ``_``."""

UNKNOWN = (
    *("einsum", "tensordot", "baddbmm", "addbmm", "bilinear", "cdist", "gru", "rnn_tanh", "rnn_relu"),
    *("group_norm", "instance_norm", "rms_norm", "local_response_norm", "interpolate", "grid_sample"),
    *("embedding_bag", "cumsum", "sort", "topk", "max_pool1d", "max_pool3d", "avg_pool1d", "avg_pool3d"),
    *("log_softmax", "leaky_relu", "elu", "hardswish", "hardtanh", "softplus", "mish", "prelu"),
    *("exp", "log", "sqrt", "rsqrt", "erf", "sin", "cos"),
)
"""Functions that take time and have no kind."""
