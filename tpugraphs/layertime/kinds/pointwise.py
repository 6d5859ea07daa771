"""Layers that pass over memory: elementwise functions, norms, pooling, embeddings.

``elementwise``, ``softmax`` and ``layernorm`` are named as in NeuSight's tables: B rows of H numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tpugraphs.layertime.kinds.base import (
    BATCH,
    BYTES,
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
    passes_of,
    shaped,
    updated,
    words,
)
from tpugraphs.layertime.kinds.convolutions import KERNEL, PADDING, SIDE, STRIDES, ends, output_size, padded

__all__ = ["KINDS"]

_TWO_ARRAYS = ("add", "mul", "div", "pow")
_ONE_ARRAY = ("addu", "mulu", "divu", "powu", "relu", "tanh", "gelu", "sigmoid", "silu")
_EPSILON = 1e-5  # of norms
_SLIDING = ("matsize", "kernelsize", "strides")


def _passing(c: Columns, operations: Floats, read: Floats, written: Floats, weights: Floats) -> Work:
    """Return the work of passes over `read` and `written` numbers; the backward pass is one more."""
    passes = passes_of(c, 2)
    return Work(
        operations * passes,
        BYTES * read,
        BYTES * weights,
        BYTES * written,
        passes,
        updated(c, BYTES * weights),
    )


def _elementwise(c: Columns) -> Work:
    rows, cols = numbers(c, "B", "H")
    inputs = np.where(np.isin(words(c, "op"), _TWO_ARRAYS), 2.0, 1.0)
    return _passing(c, rows * cols, inputs * rows * cols, rows * cols, np.zeros_like(rows))


def _elementwise_inputs(layer: Layer) -> tuple[Input, ...]:
    one = Input((layer["B"], layer["H"]), positive="pow" in layer["op"])
    return (one, one) if layer["op"] in _TWO_ARRAYS else (one,)


def _function(op: str, known: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function of an op; ``addu`` is ``add`` with a number in place of the second array."""
    return known[op] if op in known else lambda x: known[op[:-1]](x, 1.5)


def _elementwise_torch(torch: Any, layer: Layer) -> Any:
    known = {name: getattr(torch, name) for name in (*_TWO_ARRAYS, "relu", "tanh", "sigmoid")}
    known |= {name: getattr(torch.nn.functional, name) for name in ("gelu", "silu")}
    return _function(layer["op"], known)


def _elementwise_jax(jax: Any, layer: Layer) -> InJax:
    jnp, nn = jax.numpy, jax.nn
    known = {"add": jnp.add, "mul": jnp.multiply, "div": jnp.divide, "pow": jnp.power}
    known |= {"relu": nn.relu, "tanh": jnp.tanh, "sigmoid": nn.sigmoid, "silu": nn.silu}
    function = _function(layer["op"], {**known, "gelu": lambda x: nn.gelu(x, approximate=False)})
    return lambda p, *arrays: function(*arrays), {}


def _softmax(c: Columns) -> Work:
    rows, cols = numbers(c, "B", "H")
    work = _passing(c, 5 * rows * cols, rows * cols, rows * cols, np.zeros_like(rows))
    return replace(work, row=cols)


def _layernorm(c: Columns) -> Work:
    rows, cols = numbers(c, "B", "H")
    return replace(_passing(c, 8 * rows * cols, rows * cols, rows * cols, 2 * cols), row=cols)


def _batchnorm(c: Columns) -> Work:
    batch, side, channels = numbers(c, "batch", "matsize", "channels")
    count = batch * side**2 * channels
    return _passing(c, 8 * count, count, count, 2 * channels)


def _norm_jax(jax: Any, channels: int, axes: tuple[int, ...], given: bool = False) -> InJax:
    """Return a norm over axes, by their mean and variance or by given ones."""

    def run(p: dict[str, Any], x: Any) -> Any:
        mean = p["mean"] if given else x.mean(axes, keepdims=True)
        variance = p["variance"] if given else x.var(axes, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + _EPSILON) * p["w"] + p["b"]

    weights = {name: Input((channels,)) for name in ("w", "b", *(["mean"] if given else []))}
    return run, weights | ({"variance": Input((channels,), positive=True)} if given else {})


def _pooling(c: Columns) -> Work:
    batch, side, kernel, channels = numbers(c, "batch", "matsize", "kernelsize", "channels")
    written = batch * output_size(c, *_SLIDING) ** 2 * channels
    return _passing(c, kernel**2 * written, batch * side**2 * channels, written, np.zeros_like(batch))


def _pooling_torch(torch: Any, layer: Layer) -> Any:
    sizes, largest = [layer[name] for name in _SLIDING], layer["op"] == "max"
    pool = torch.nn.MaxPool2d if largest else torch.nn.AvgPool2d
    fill = -np.inf if largest else 0.0
    return padded(torch, ends(layer, *sizes), 2, lambda padding: pool(*sizes[1:], padding), fill)


def _pooling_jax(jax: Any, layer: Layer) -> InJax:
    kernel, stride = layer["kernelsize"], layer["strides"]
    sizes = ((1, kernel, kernel, 1), (1, stride, stride, 1), layer["padding"])
    if layer["op"] == "max":
        return lambda p, x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, *sizes), {}
    return lambda p, x: jax.lax.reduce_window(x, 0.0, jax.lax.add, *sizes) / kernel**2, {}


def _embedding(c: Columns) -> Work:
    """Return the work of gathering rows; training writes a gradient of the whole table and updates it all."""
    batch, length, rows, cols = numbers(c, "batch", "length", "dim_input", "dim_output")
    taken = batch * length * cols
    none = np.zeros_like(batch)
    return replace(_passing(c, taken, taken, taken, none), update=updated(c, BYTES * rows * cols))


def _table(c: Columns) -> Floats:
    """Return the bytes of the table that rows are taken from."""
    rows, cols = numbers(c, "dim_input", "dim_output")
    return BYTES * rows * cols


_NUMBERS = (Size("B", 1 << 30, (1, 1 << 17)), Size("H", 1 << 30, (1, 1 << 16)))
_CHANNELS = Size("channels", 1 << 20, (1, 2048))

KINDS = (
    Kind(
        "elementwise",
        (*_NUMBERS, Choice("op", (*_TWO_ARRAYS, *_ONE_ARRAY)), OPTIMIZER),
        _elementwise,
        _elementwise_inputs,
        _elementwise_torch,
        _elementwise_jax,
    ),
    Kind(
        "softmax",
        (*_NUMBERS, OPTIMIZER),
        _softmax,
        shaped("B H"),
        torch=lambda torch, layer: torch.nn.Softmax(-1),
        jax=lambda jax, layer: (lambda p, x: jax.nn.softmax(x, -1), {}),
    ),
    Kind(
        "layernorm",
        (*_NUMBERS, OPTIMIZER),
        _layernorm,
        shaped("B H"),
        torch=lambda torch, layer: torch.nn.LayerNorm(layer["H"]),
        jax=lambda jax, layer: _norm_jax(jax, layer["H"], (-1,)),
    ),
    Kind(
        "batchnorm",
        (BATCH, replace(SIDE, drawn=(2, 512)), _CHANNELS, OPTIMIZER),
        _batchnorm,
        images("batch", "channels", "matsize"),
        torch=lambda torch, layer: torch.nn.BatchNorm2d(layer["channels"]),
        jax=lambda jax, layer: _norm_jax(
            jax, layer["channels"], (0, 1, 2), given=layer["optimizer"] == "None"
        ),
    ),
    Kind(
        "pooling",
        (
            BATCH,
            SIDE,
            KERNEL,
            _CHANNELS,
            STRIDES,
            PADDING,
            Choice("op", ("max", "average"), "max"),
            OPTIMIZER,
        ),
        _pooling,
        images("batch", "channels", "matsize"),
        _pooling_torch,
        _pooling_jax,
        most_flops=1e9,
    ),
    Kind(
        "embedding",
        (
            Size("batch", 1 << 20, (1, 256)),
            Size("length", 1 << 20, (1, 512)),
            Size("dim_input", 1 << 30, (2, 1 << 20)),
            Size("dim_output", 1 << 20, (1, 2048)),
            OPTIMIZER,
        ),
        _embedding,
        inputs=shaped("batch length", below="dim_input"),
        torch=lambda torch, layer: torch.nn.Embedding(layer["dim_input"], layer["dim_output"]),
        jax=lambda jax, layer: (
            lambda p, at: p["w"][at],
            {"w": Input((layer["dim_input"], layer["dim_output"]))},
        ),
        held=_table,
    ),
)
