"""Calls of single ops of the core: their arguments checked, their results named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.errors import ShapeError

Array = NDArray[np.float32]
Activation = Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"]
Direction = Literal["forward", "reverse", "both"]
Precision = Literal["f32", "bf16", "int8"]
Outs = Mapping[str, Array]

_DTYPES: dict[type, np.dtype[Any]] = {
    kind: np.dtype(kind) for kind in (np.float32, np.int64, np.int8, np.uint8)
}
_NO_EDGES = np.zeros((0, 2), np.int64)
_NO_NODES = np.zeros(0, np.int64)


def _fits(shape: tuple[int, ...], wanted: tuple[int | str, ...]) -> bool:
    if wanted[0] == "...":  # any number of dimensions in front
        wanted = wanted[1:]
        shape = shape[max(0, len(shape) - len(wanted)) :]
    if len(shape) != len(wanted):
        return False
    for want, size in zip(wanted, shape, strict=True):  # a loop: small products notice a generator
        if want != size and not isinstance(want, str):
            return False
    return True


def _require(array: object, name: str, *shapes: tuple[int | str, ...], dtype: type = np.float32) -> None:
    """Raise ShapeError unless `array` is C-contiguous, of `dtype` and of one of `shapes` (letters: any size).

    The core checks again, but under its own names of the arguments.
    """
    if type(array) is np.ndarray and array.dtype is _DTYPES[dtype] and array.flags.c_contiguous:
        for shape in shapes:
            if _fits(array.shape, shape):
                return
    found = type(array).__name__
    if isinstance(array, np.ndarray):
        contiguous = array.flags.c_contiguous
        if array.dtype == dtype and contiguous and any(_fits(array.shape, shape) for shape in shapes):
            return
        found = f"{array.dtype} {array.shape}{'' if contiguous else ', not C-contiguous'}"
    expected = " or ".join(str(shape).replace("'", "") for shape in shapes)
    raise ShapeError(f"{name}: expected {np.dtype(dtype)} array of shape {expected}, got {found}")


def _graph(
    nodes: int,
    edge_index: NDArray[np.int64] = _NO_EDGES,
    config_nodes: NDArray[np.int64] = _NO_NODES,
    digits: NDArray[np.int8] | None = None,
    opcode: NDArray[np.uint8] | None = None,
    layout: NDArray[np.int8] | None = None,
) -> _core.Graph:
    if opcode is None:
        opcode = np.zeros(nodes, np.uint8)
    return _core.Graph(np.zeros((nodes, 1), np.float32), opcode, layout, edge_index, config_nodes, digits)


_Call = tuple[
    str, dict[str, float | str], tuple[Array, ...], tuple[Array, ...], _core.Graph | int, int, int, bool
]


def _require_configs(call: _Call) -> None:
    if call[5] == 0:
        shapes = ", ".join(str(array.shape) for array in call[2])
        raise ShapeError(f"{call[0]}: expected at least one config (C >= 1), got C = 0 with input {shapes}")


def _forward(call: _Call, out: Array | None = None, precision: Precision = "f32") -> Array:
    _require_configs(call)
    return _core.op_forward(*call, None, out, precision)


def _backward(
    dy: Array,
    call: _Call,
    inputs: list[str],
    params: list[str],
    out: Outs | None = None,
    precision: Precision = "f32",
) -> dict[str, Array]:
    _require_configs(call)
    names = [*inputs, *params] + (["digits"] if call[0] == "config_linear" else [])
    if out is None:
        dx, dw, digits = _core.op_backward(*call, dy, None, precision)
    else:
        if unknown := sorted(set(out) - set(names)):
            raise ValueError(f"out: no gradient is called {unknown[0]!r}; expected {', '.join(names)}")
        for name, array in zip(names, (*call[2], *call[3]), strict=False):
            if name in out:
                _require(out[name], f"out[{name!r}]", array.shape)
        dx, dw, digits = _core.op_backward(*call, dy, tuple(out.get(name) for name in names), precision)
    gradients = dx + dw + ([] if digits is None else [digits])
    return dict(zip(names, gradients, strict=True))
