"""Functions of PyTorch that have a kind, by what their arguments and outputs look like."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpugraphs.layertime.networks.builder import Builder

__all__ = ["FUNCTIONS", "UNKNOWN", "Call"]


@dataclass(frozen=True)
class Call:
    """A function that has run."""

    builder: Builder
    name: str
    source: str
    function: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    out: Any

    def given(self, place: int, name: str, default: Any = None) -> Any:
        """Return an argument, by place or by name."""
        return self.args[place] if len(self.args) > place else self.named.get(name, default)

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


def _convolution(c: Call) -> None:
    weight = c.given(1, "weight")
    count = weight.dim()
    shapes = (_batched(c.x.shape, count), tuple(weight.shape), _batched(c.out.shape, count))
    strides, bias = _sizes(c.given(3, "stride", 1), count - 2), c.given(2, "bias") is not None
    c.builder.convolution(c.name, c.source, *shapes, strides, bias, c.out)


def _linear(c: Call) -> None:
    c.builder.dense(c.name, c.source, c.x.shape, c.given(1, "weight").shape[0], c.out)


def _matmul(c: Call) -> None:
    x, y = c.x, c.given(1, "other", c.named.get("mat2"))
    x, y = (y, x) if c.function == "rmatmul" else (x, y)
    c.builder.product(c.name, c.source, x.shape, y.shape, c.out)


def _addmm(c: Call) -> None:
    x, y = c.given(1, "mat1"), c.given(2, "mat2")
    c.builder.product(c.name, c.source, x.shape, y.shape, c.out)


def _attention(c: Call) -> None:
    query, key = c.given(0, "query"), c.given(1, "key")
    c.builder.attention(c.name, c.source, query.shape, key.shape)


def _multi_head(c: Call) -> None:
    """Projections as `torch.nn.functional.multi_head_attention_forward` packs them: (length, N, numbers)."""
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
        c.builder.dense(f"{c.name}.{part}_proj", c.source, (batch, length, cin), cout, None)
    shapes = [(batch, heads, length, size) for length in (source, target)]
    c.builder.attention(c.name, c.source, *shapes)
    c.builder.dense(f"{c.name}.out_proj", c.source, (batch, source, width), width, None)


def _lstm(c: Call) -> None:
    if len(c.args) != 9 or c.x.dim() != 3:  # sequences of several lengths are packed otherwise
        c.builder.unknown(c.name, c.source)
        return
    x, _, weights, biases, layers, _, _, both, batch_first = c.args
    directions, of_each = 2 if both else 1, 4 if biases else 2
    sizes = [weights[i * directions * of_each].shape[1] for i in range(layers)]
    hidden = weights[0].shape[0] // 4
    if weights[1].shape[1] != hidden:  # outputs are projected
        c.builder.unknown(c.name, c.source)
        return
    batch, length = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    c.builder.lstm(c.name, c.source, batch, length, sizes, hidden, directions)


def _batchnorm(c: Call) -> None:
    c.builder.batchnorm(c.name, c.source, c.out.shape)


def _layernorm(c: Call) -> None:
    c.builder.rows(c.name, c.source, "layernorm", c.out.shape, math.prod(c.given(1, "normalized_shape")))


def _softmax(c: Call) -> None:
    dim = c.given(1, "dim")
    c.builder.rows(c.name, c.source, "softmax", c.out.shape, c.out.shape[-1 if dim is None else dim])


def _images(c: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    out = c.out[0] if isinstance(c.out, tuple) else c.out  # a maximum may come with its place
    return _batched(c.x.shape, 4), _batched(out.shape, 4)


def _pooling(op: str) -> Callable[[Call], None]:
    def read(c: Call) -> None:
        kernel = _sizes(c.given(1, "kernel_size"), 2)
        strides = _sizes(c.given(2, "stride") or kernel, 2)
        c.builder.pooling(c.name, c.source, *_images(c), kernel, strides, op)

    return read


def _adaptive(op: str) -> Callable[[Call], None]:
    def read(c: Call) -> None:
        x, y = _images(c)
        sides = list(zip(x[2:], y[2:], strict=True))
        kernel = [-(size // -places) for size, places in sides]
        strides = [max(1, size // places) for size, places in sides]
        c.builder.pooling(c.name, c.source, x, y, kernel, strides, op)

    return read


def _embedding(c: Call) -> None:
    c.builder.embedding(c.name, c.source, c.out.shape[:-1], c.given(1, "weight").shape)


def _activation(c: Call) -> None:
    c.builder.pointwise(c.name, c.source, c.function.removesuffix("_"), c.out.shape, c.x)


def _arithmetic(op: str) -> Callable[[Call], None]:
    def read(c: Call) -> None:
        pair = (c.x, c.given(1, "other", c.named.get("exponent")))
        both = all(hasattr(one, "numel") and one.numel() == c.out.numel() for one in pair)
        c.builder.pointwise(c.name, c.source, op if both else f"{op}u", c.out.shape)

    return read


_ARITHMETIC = {
    **dict.fromkeys(("add", "radd", "iadd", "sub", "rsub", "isub", "subtract"), "add"),
    **dict.fromkeys(("mul", "rmul", "imul", "multiply"), "mul"),
    **dict.fromkeys(("div", "rdiv", "truediv", "rtruediv", "itruediv", "true_divide", "divide"), "div"),
    **dict.fromkeys(("pow", "rpow"), "pow"),
}

FUNCTIONS: dict[str, Callable[[Call], None]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("matmul", "rmatmul", "bmm", "mm"), _matmul),
    **dict.fromkeys(("relu", "gelu", "silu", "sigmoid", "tanh"), _activation),
    **{name: _arithmetic(op) for name, op in _ARITHMETIC.items()},
    "addmm": _addmm,
    "linear": _linear,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head,
    "lstm": _lstm,
    "batch_norm": _batchnorm,
    "layer_norm": _layernorm,
    "softmax": _softmax,
    "max_pool2d": _pooling("max"),
    "max_pool2d_with_indices": _pooling("max"),
    "avg_pool2d": _pooling("average"),
    "adaptive_max_pool2d": _adaptive("max"),
    "adaptive_max_pool2d_with_indices": _adaptive("max"),
    "adaptive_avg_pool2d": _adaptive("average"),
    "embedding": _embedding,
}
"""Readers of functions, by name without leading and closing ``_``."""

UNKNOWN = (
    *("einsum", "tensordot", "baddbmm", "addbmm", "bilinear", "cdist", "gru", "rnn_tanh", "rnn_relu"),
    *("group_norm", "instance_norm", "rms_norm", "local_response_norm", "interpolate", "grid_sample"),
    *("embedding_bag", "cumsum", "sort", "topk", "max_pool1d", "max_pool3d", "avg_pool1d", "avg_pool3d"),
    *("log_softmax", "leaky_relu", "elu", "hardswish", "hardtanh", "softplus", "mish", "prelu"),
    *("exp", "log", "sqrt", "rsqrt", "erf", "sin", "cos"),
)
"""Functions that take time and have no kind."""
