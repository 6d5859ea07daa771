"""Layers that are matrix products.

``dense`` is named as in the tables of the ml-performance-prediction project, ``linear`` and ``bmm`` as in
NeuSight's: products (M, N) x (N, K). The measured times show that N is the dimension summed over: on one GPU
products with M or K of 64 run at half the rate of those with 128, products with N of 64 at nine tenths.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tpugraphs.layertime.kinds.base import (
    ACTIVATION,
    BATCH,
    BYTES,
    OPTIMIZER,
    Columns,
    Floats,
    InJax,
    Input,
    Kind,
    Layer,
    Size,
    Work,
    numbers,
    product,
    shaped,
)

__all__ = ["KINDS"]


def _matrix_product(p: dict[str, Any], x: Any) -> Any:
    return x @ p["w"] + p["b"]


def _affine(cin: int, cout: int) -> InJax:
    """Return a product with a matrix of weights, and its bias."""
    return _matrix_product, {"w": Input((cin, cout)), "b": Input((cout,))}


def _dense(c: Columns) -> Work:
    batch, cin, cout = numbers(c, "batch", "dim_input", "dim_output")
    return product(c, batch, cout, cin, np.ones_like(batch), batch * cin, cin * cout)


def _linear(c: Columns) -> Work:
    count, rows, depth, cols = numbers(c, "B", "M", "N", "K")
    return product(c, count * rows, cols, depth, np.ones_like(rows), count * rows * depth, depth * cols)


def _bmm(c: Columns) -> Work:
    count, rows, depth, cols = numbers(c, "B", "M", "N", "K")
    work = product(c, rows, cols, depth, count, count * rows * depth, count * depth * cols)
    return replace(work, update=np.zeros_like(rows))


def _attention(c: Columns) -> Work:
    """Return the work of products of queries and keys, and of their softmax and values."""
    batch, heads, queries, keys, width = numbers(c, "batch", "heads", "queries", "keys", "head_size")
    count = batch * heads
    read = count * width * (queries + 2 * keys)
    return product(c, queries, width, 2 * keys, count, read, np.zeros_like(batch))


def _scores(c: Columns) -> Floats:
    """Return the bytes of every query's weights of all keys."""
    batch, heads, queries, keys = numbers(c, "batch", "heads", "queries", "keys")
    return BYTES * batch * heads * queries * keys


def _lstm(c: Columns) -> Work:
    """Return the work of an LSTM: all steps read the weights of the four gates."""
    batch, length, cin, hidden = numbers(c, "batch", "length", "dim_input", "dim_hidden")
    depth = cin + hidden
    return product(c, batch, 4 * hidden, depth, length, batch * length * cin, 4 * hidden * depth)


def _lstm_torch(torch: Any, layer: Layer) -> Any:
    class Outputs(torch.nn.LSTM):  # type: ignore[misc]  # of all steps, without the last state
        def forward(self, x: Any) -> Any:
            return super().forward(x)[0]

    return Outputs(layer["dim_input"], layer["dim_hidden"], batch_first=True)


def _lstm_jax(jax: Any, layer: Layer) -> InJax:
    cin, hidden = layer["dim_input"], layer["dim_hidden"]
    sigmoid, tanh = jax.nn.sigmoid, jax.numpy.tanh

    def run(p: dict[str, Any], x: Any) -> Any:
        before = jax.numpy.swapaxes(_matrix_product(p, x), 0, 1)  # of all steps, the products with inputs

        def one(state: tuple[Any, Any], gates: Any) -> tuple[tuple[Any, Any], Any]:
            h, c = state
            i, f, g, o = jax.numpy.split(gates + h @ p["u"], 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(c)
            return (h, c), h

        zeros = jax.numpy.zeros((layer["batch"], hidden), x.dtype)
        return jax.numpy.swapaxes(jax.lax.scan(one, (zeros, zeros), before)[1], 0, 1)

    return run, {**_affine(cin, 4 * hidden)[1], "u": Input((hidden, 4 * hidden))}


_WIDE, _LONG = 1 << 30, 1 << 20


def _matrices(most: int, count: int, rows: int) -> tuple[Size, ...]:
    drawn = {"M": rows, "N": most, "K": most}
    sizes = (Size(name, _WIDE, (1, high)) for name, high in drawn.items())
    return (Size("B", _WIDE, (1, count), default=1), *sizes)


KINDS = (
    Kind(
        "dense",
        (
            Size("batch", _LONG, (1, 4096)),
            Size("dim_input", _WIDE, (1, 8192)),
            Size("dim_output", _WIDE, (1, 8192)),
            ACTIVATION,
            OPTIMIZER,
        ),
        _dense,
        inputs=shaped("batch dim_input"),
        torch=lambda torch, layer: torch.nn.Linear(layer["dim_input"], layer["dim_output"]),
        jax=lambda jax, layer: _affine(layer["dim_input"], layer["dim_output"]),
    ),
    Kind(
        "linear",
        (*_matrices(8192, 64, 4096), OPTIMIZER),
        _linear,
        inputs=shaped("B M N"),
        torch=lambda torch, layer: torch.nn.Linear(layer["N"], layer["K"]),
        jax=lambda jax, layer: _affine(layer["N"], layer["K"]),
        grows="M",  # measured tables hold one product of many rows
    ),
    Kind(
        "bmm",
        (*_matrices(2048, 256, 2048), OPTIMIZER),
        _bmm,
        inputs=shaped("B M N", "B N K"),
        torch=lambda torch, layer: torch.bmm,
        jax=lambda jax, layer: (lambda p, a, b: jax.numpy.matmul(a, b), {}),
    ),
    Kind(
        "attention",
        (
            BATCH,
            Size("heads", 1 << 16, (1, 32)),
            Size("queries", _LONG, (1, 2048)),
            Size("keys", _LONG, (1, 2048)),
            Size("head_size", 1 << 16, (8, 256)),
            OPTIMIZER,
        ),
        _attention,
        inputs=shaped(
            "batch heads queries head_size",
            "batch heads keys head_size",
            "batch heads keys head_size",
            in_jax=(0, 2, 1, 3),
        ),
        torch=lambda torch, layer: torch.nn.functional.scaled_dot_product_attention,
        jax=lambda jax, layer: (lambda p, q, k, v: jax.nn.dot_product_attention(q, k, v), {}),
        held=_scores,
    ),
    Kind(
        "lstm",
        (
            BATCH,
            Size("length", _LONG, (1, 256)),
            Size("dim_input", _LONG, (1, 2048)),
            Size("dim_hidden", _LONG, (1, 2048)),
            OPTIMIZER,
        ),
        _lstm,
        inputs=shaped("batch length dim_input"),
        torch=_lstm_torch,
        jax=_lstm_jax,
        most_flops=5e9,
    ),
)
