"""Single ops, forward and backward, exactly as models run them.

Every function takes float32 C-contiguous arrays and returns new ones; nothing is cast silently
(``ShapeError``). Each ``<op>_backward(dy, ...)`` takes the gradient of the output, then the arguments of
``<op>``, and returns a dict of gradients keyed by argument name.

With ``out`` results go to existing arrays, which saves the operating system the work of finding zeroed
memory for them in every call. Forward: one array of the shape of the result, which is returned. Backward: a
dict of them under the keys of the result; what it does not name is allocated. They must be writable and share
no memory with the arguments nor with each other (``ValueError``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.errors import ShapeError
from tpugraphs.kernels.calls import (
    Activation,
    Array,
    Direction,
    Outs,
    Precision,
    _backward,
    _Call,
    _forward,
    _graph,
    _require,
)  # fmt: skip


def matmul(
    x: Array,
    w: Array,
    bias: Array | None = None,
    precision: Precision = "f32",
    out: Array | None = None,
) -> Array:
    """Matrix product with rows of weights, ``x @ w.T + bias``.

    Parameters
    ----------
    x : (M, K) float32
    w : (N, K) float32
    bias : (N,) float32, optional
    precision : {"f32", "bf16", "int8"}
        What the operands are rounded to; sums and everything else stay float32.
        ``"bf16"``: bfloat16, to nearest even. ``"int8"``: rows of `w` and, by slices of 1024 columns, rows of
        `x` are scaled by their largest absolute value to the integers -127..127, whose products are summed
        exactly; a row with a NaN or an infinity gives NaN.
    out : (M, N) float32, optional
        Where the result goes; shares no memory with the arguments.

    Returns
    -------
    (M, N) float32

    Raises
    ------
    ShapeError
        If an array is not float32, C-contiguous and of the shape above.
    ValueError
        For another precision, unless N is in 1..65536 and K at most 65536, and for an `out` that is read-only
        or overlaps an argument.
    """
    _require(x, "x", ("M", "K"))
    _require(w, "w", ("N", x.shape[1]))
    if bias is not None:
        _require(bias, "bias", (len(w),))
    return _core.product(x, w, precision, bias, None, False, out)


def _slope_of(slope: Array | None, cols: int) -> tuple[Array, ...]:
    """Check the slope of PReLU: a parameter, if it is given."""
    if slope is None:
        return ()
    _require(slope, "slope", (1,), (cols,))
    return (slope,)


def _per_column(slopes: tuple[Array, ...]) -> int:
    return int(any(len(slope) > 1 for slope in slopes))


def _linear_call(
    x: Array, weight: Array, bias: Array, act: Activation, row: Array | None, slope: Array | None
) -> _Call:
    _require(x, "x", ("...", "F"))
    if row is not None:
        _require(row, "row", (1, "G"))
    joined = 0 if row is None else row.shape[1]
    _require(weight, "weight", ("O", joined + x.shape[-1]))
    _require(bias, "bias", (len(weight),))
    rows = x.reshape(-1, x.shape[-1])
    inputs = (rows,) if row is None else (rows, row)
    slopes = _slope_of(slope, len(weight))
    attrs: dict[str, float | str] = {
        "out": len(weight),
        "act": act,
        "per_column": _per_column(slopes),
    }
    return "linear", attrs, inputs, (weight, bias, *slopes), len(rows), 1, 0, False


def linear(
    x: Array,
    weight: Array,
    bias: Array,
    act: Activation = "none",
    out: Array | None = None,
    row: Array | None = None,
    slope: Array | None = None,
) -> Array:
    """``act(x @ weight.T + bias)``, or with `row` the same of every row of x with that row before it.

    Parameters
    ----------
    x : (..., F) float32
    weight : (O, F) float32, with `row` (O, G + F)
    bias : (O,) float32
    act : {"none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"}
        GELU is the exact one (erf).
    out : (..., O) float32, optional
    row : (1, G) float32, optional
        What all rows have in common: its product with the weight is made once.
    slope : (1,) or (O,) float32
        Of PReLU below 0, for which it is required, and for all columns or each. Others take none.

    Returns
    -------
    (..., O) float32
    """
    call = _linear_call(x, weight, bias, act, row, slope)
    if out is None:
        return _forward(call).reshape(*x.shape[:-1], len(weight))
    _require(out, "out", (*x.shape[:-1], len(weight)))
    _forward(call, out.reshape(-1, len(weight)))
    return out


def linear_backward(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array,
    act: Activation = "none",
    out: Outs | None = None,
    row: Array | None = None,
    slope: Array | None = None,
) -> dict[str, Array]:
    """Gradients of `linear`: keys ``x``, ``weight``, ``bias``, and ``row``, ``slope`` if given."""
    call = _linear_call(x, weight, bias, act, row, slope)
    _require(dy, "dy", (*x.shape[:-1], len(weight)))
    given = {} if out is None else dict(out)
    if "x" in given:
        _require(given["x"], "out['x']", x.shape)
        given["x"] = given["x"].reshape(-1, x.shape[-1])
    params = ["weight", "bias", "slope"][: len(call[3])]
    grads = _backward(dy.reshape(-1, len(weight)), call, ["x", "row"][: len(call[2])], params, given)
    grads["x"] = out["x"] if out is not None and "x" in out else grads["x"].reshape(x.shape)
    return grads


def _embedding_call(
    x: Array, index: NDArray[np.int8] | NDArray[np.uint8], weight: Array, source: str
) -> _Call:
    _require(x, "x", ("N", "F"))
    _require(weight, "weight", ("V", "D"))
    attrs: dict[str, float | str] = {"source": source, "rows": weight.shape[0], "cols": weight.shape[1]}
    if source == "opcode":
        _require(index, "index", (len(x),), (len(x), 1), dtype=np.uint8)
        graph = _graph(len(x), opcode=index.reshape(-1))  # type: ignore[arg-type]
    else:
        _require(index, "index", (len(x), 6), dtype=np.int8)
        graph = _graph(len(x), layout=index)  # type: ignore[arg-type]
    return "embedding", attrs, (x,), (weight,), graph, 1, 0, False


def embedding(
    x: Array,
    index: NDArray[np.int8] | NDArray[np.uint8],
    weight: Array,
    source: Literal["opcode", "layout"] = "opcode",
    out: Array | None = None,
) -> Array:
    """``x`` with the looked-up rows of a table appended.

    Parameters
    ----------
    x : (N, F) float32
    index : (N,) or (N, 1) uint8 opcodes, or (N, 6) int8 layout digits in -2..5
        Opcodes outside the table take row 0; a layout digit takes row ``digit + 2``.
    weight : (V, D) float32
        The table; V >= 8 for layouts.
    source : {"opcode", "layout"}
    out : (N, F + D) or (N, F + 6 D) float32, optional

    Returns
    -------
    (N, F + D) or (N, F + 6 D) float32
    """
    return _forward(_embedding_call(x, index, weight, source), out)


def embedding_backward(
    dy: Array,
    x: Array,
    index: NDArray[np.int8] | NDArray[np.uint8],
    weight: Array,
    source: Literal["opcode", "layout"] = "opcode",
    out: Outs | None = None,
) -> dict[str, Array]:
    """Gradients of `embedding`: keys ``x``, ``weight``."""
    return _backward(dy, _embedding_call(x, index, weight, source), ["x"], ["weight"], out)


def _config_linear_call(
    h: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    weight: Array,
    bias: Array,
    table: Array,
    column: int | None,
) -> _Call:
    _require(h, "h", ("N", "F"))
    _require(table, "table", (_core.SCHEMA["digit_states"], "D"))
    _require(weight, "weight", ("O", h.shape[1] + _core.SCHEMA["digits"] * table.shape[1]))
    _require(bias, "bias", (len(weight),))
    _require(config_nodes, "config_nodes", ("K",), dtype=np.int64)
    _require(digits, "digits", ("C", len(config_nodes), _core.SCHEMA["digits"]), dtype=np.int8)
    graph = _graph(len(h), config_nodes=config_nodes, digits=digits)
    attrs: dict[str, float | str] = {
        "out": weight.shape[0],
        "column": h.shape[1] if column is None else column,
        "cols": table.shape[1],
    }
    return "config_linear", attrs, (h,), (weight, bias, table), graph, len(digits), 0, False


def config_linear(
    h: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    weight: Array,
    bias: Array,
    table: Array,
    column: int | None = None,
    out: Array | None = None,
) -> Array:
    """Linear layer over ``[h[:column], 18 embedded digits, h[column:]]`` of every node and config.

    The part that depends on the graph alone is computed once, the config part by table look-ups; the result
    equals the plain product over the concatenation.

    Parameters
    ----------
    h : (N, F) float32
    digits : (C, K, 18) int8 in -1..5
    config_nodes : (K,) int64
        Nodes the digits belong to; all others look up row 0.
    weight : (O, F + 18 D) float32
    bias : (O,) float32
    table : (8, D) float32
        Row ``digit + 2``; row 0 is "not configurable".
    column : int, default F
    out : (N, C, O) float32, optional

    Returns
    -------
    (N, C, O) float32
    """
    return _forward(_config_linear_call(h, digits, config_nodes, weight, bias, table, column), out)


def config_linear_backward(
    dy: Array,
    h: Array,
    digits: NDArray[np.int8],
    config_nodes: NDArray[np.int64],
    weight: Array,
    bias: Array,
    table: Array,
    column: int | None = None,
    out: Outs | None = None,
) -> dict[str, Array]:
    """Gradients of `config_linear`: keys ``h``, ``weight``, ``bias``, ``table``, ``digits``.

    ``digits`` is (C, K, 18, 8): the derivative with respect to the one-hot encoding of every digit, entry
    ``digit + 2`` (the relaxation that gradient-based search over configs uses).
    """
    call = _config_linear_call(h, digits, config_nodes, weight, bias, table, column)
    return _backward(dy, call, ["h"], ["weight", "bias", "table"], out)


def _sage_call(
    x: Array, edge_index: NDArray[np.int64], w_l: Array, b_l: Array, w_r: Array, direction: Direction
) -> _Call:
    _require(x, "x", ("N", "F"), ("N", "C", "F"))
    _require(edge_index, "edge_index", ("E", 2), dtype=np.int64)
    _require(w_l, "w_l", ("O", x.shape[-1]))
    _require(b_l, "b_l", (len(w_l),))
    _require(w_r, "w_r", w_l.shape)
    graph = _graph(len(x), edge_index)
    attrs: dict[str, float | str] = {"out": w_l.shape[0], "direction": direction}
    return "sage", attrs, (x,), (w_l, b_l, w_r), graph, x.shape[1] if x.ndim == 3 else 1, 0, False


def sage_conv(
    x: Array,
    edge_index: NDArray[np.int64],
    w_l: Array,
    b_l: Array,
    w_r: Array,
    direction: Direction = "forward",
    out: Array | None = None,
) -> Array:
    """GraphSAGE convolution with mean aggregation (Hamilton et al. 2017), PyG's ``SAGEConv`` defaults.

    ``y_i = w_l mean(x_j for senders j of i) + b_l + w_r x_i``; a node without senders has mean 0, duplicate
    edges count twice. Edge row ``(u, v)``: with "forward" v receives from u (PyG's source to target), with
    "reverse" u receives from v, with "both" a node takes one mean over all its neighbours of either kind.

    Parameters
    ----------
    x : (N, F) or (N, C, F) float32
    edge_index : (E, 2) int64
    w_l, w_r : (O, F) float32
    b_l : (O,) float32
    out : (N, O) or (N, C, O) float32, optional

    Returns
    -------
    (N, O) or (N, C, O) float32

    Raises
    ------
    ShapeError
        An array of the wrong dtype, shape or memory order.
    DataError
        An edge that names a node outside 0..N-1.
    """
    return _forward(_sage_call(x, edge_index, w_l, b_l, w_r, direction), out)


def sage_conv_backward(
    dy: Array,
    x: Array,
    edge_index: NDArray[np.int64],
    w_l: Array,
    b_l: Array,
    w_r: Array,
    direction: Direction = "forward",
    out: Outs | None = None,
) -> dict[str, Array]:
    """Gradients of `sage_conv`: keys ``x``, ``w_l``, ``b_l``, ``w_r``."""
    return _backward(
        dy, _sage_call(x, edge_index, w_l, b_l, w_r, direction), ["x"], ["w_l", "b_l", "w_r"], out
    )


def mlp(
    x: Array,
    weights: Sequence[Array],
    biases: Sequence[Array],
    act: Activation = "gelu",
    out: Array | None = None,
) -> Array:
    """Feed-forward head: `linear` layers with `act` after each but the last.

    Parameters
    ----------
    x : (..., F) float32
    weights : sequence of (O_k, O_{k-1}) float32, O_0 = F
    biases : sequence of (O_k,) float32

    Returns
    -------
    (..., O_last) float32
    """
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        last = i + 1 == len(weights)
        x = linear(x, weight, bias, "none" if last else act, out if last else None)
    return x


def mlp_backward(
    dy: Array, x: Array, weights: Sequence[Array], biases: Sequence[Array], act: Activation = "gelu"
) -> dict[str, Array | list[Array]]:
    """Gradients of `mlp`: keys ``x``, ``weights`` and ``biases`` (lists in the order of the layers)."""
    inputs = [x]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        inputs.append(linear(inputs[-1], weight, bias, act))
    d_weights: list[Array] = []
    d_biases: list[Array] = []
    for i in reversed(range(len(weights))):
        grads = linear_backward(dy, inputs[i], weights[i], biases[i], act if i + 1 < len(weights) else "none")
        d_weights.insert(0, grads["weight"])
        d_biases.insert(0, grads["bias"])
        dy = grads["x"]
    return {"x": dy, "weights": d_weights, "biases": d_biases}


def _configs(x: Array) -> int:
    """C of (N, C, F); 1 of (N, F)."""
    return x.shape[1] if x.ndim == 3 else 1


def _norm_call(x: Array) -> _Call:
    _require(x, "x", ("N", "C", "F"), ("N", "F"))
    return "instance_norm", {}, (x,), (), len(x), _configs(x), 0, False


def instance_norm(x: Array, out: Array | None = None) -> Array:
    """Instance norm over the nodes, per config and channel.

    ``(x - mean) / sqrt(var + 1e-5)`` with the biased variance, no affine.

    Parameters
    ----------
    x : (N, C, F) or (N, F) float32

    Returns
    -------
    array of the shape of x, float32
    """
    return _forward(_norm_call(x), out)


def instance_norm_backward(dy: Array, x: Array, out: Outs | None = None) -> dict[str, Array]:
    """Gradient of `instance_norm`: key ``x``."""
    return _backward(dy, _norm_call(x), ["x"], [], out)


def _mix_call(
    z: Array,
    residual: Array | None,
    gate: tuple[Array | None, Array | None, Array | None, Array | None],
    temperature: Array | None,
    norm: bool,
    act: Activation,
    dropout: float,
    key: int,
    step: int,
    slope: Array | None,
) -> tuple[_Call, list[str], list[str]]:
    _require(z, "z", ("N", "C", "D"), ("N", "D"))
    width = z.shape[-1]
    given = [g for g in gate if g is not None]
    if len(given) not in (0, 4):
        raise ShapeError("mix: w1, b1, w2 and b2 go together")
    if given:
        _require(gate[0], "w1", ("R", width))
        hidden = len(given[0])
        for array, name, shape in zip(
            gate[1:], ("b1", "w2", "b2"), ((hidden,), (width, hidden), (width,)), strict=True
        ):
            _require(array, name, shape)
    if temperature is not None:
        _require(temperature, "temperature", (1,))
        width *= 2
    if residual is not None:
        _require(residual, "residual", (*z.shape[:-1], width))
    slopes = _slope_of(slope, width)
    attrs: dict[str, float | str] = {
        "norm": int(norm),
        "gate": 0 if gate[0] is None else gate[0].shape[0],
        "cross": int(temperature is not None),
        "act": act,
        "dropout": dropout,
        "per_column": _per_column(slopes),
    }
    inputs = (z,) if residual is None else (z, residual)
    found = dict(zip(("w1", "b1", "w2", "b2"), given, strict=False))
    found |= {} if temperature is None else {"temperature": temperature}
    found |= dict(zip(("slope",), slopes, strict=False))
    draw = (key * 0x9E3779B97F4A7C15 + step) & (2**64 - 1)
    call: _Call = ("mix", attrs, inputs, tuple(found.values()), len(z), _configs(z), draw, dropout > 0)
    return call, ["z", "residual"][: len(inputs)], list(found)


def mix(
    z: Array,
    residual: Array | None = None,
    w1: Array | None = None,
    b1: Array | None = None,
    w2: Array | None = None,
    b2: Array | None = None,
    temperature: Array | None = None,
    norm: bool = False,
    act: Activation = "none",
    dropout: float = 0.0,
    key: int = 0,
    step: int = 0,
    out: Array | None = None,
    precision: Precision = "f32",
    slope: Array | None = None,
) -> Array:
    """Everything that stands between two matrix products of the first place's blocks, in one pass.

    In this order, each part optional: instance norm of ``z``; self-channel attention
    ``u = sigmoid(w2 relu(w1 z + b1) + b2) * z``; concatenation with the cross-config attention
    ``u * softmax_over_configs(u / temperature)``; ``+ residual``; activation; inverted dropout.

    Parameters
    ----------
    z : (N, C, D) or (N, D) float32
        Without configs every row is a group of its own, in which the softmax is 1.
    residual : (N, C, F) or (N, F) float32, optional
        F = 2 D with `temperature`, else D.
    w1, b1, w2, b2 : (R, D), (R,), (D, R), (D,) float32, optional
    temperature : (1,) float32, optional
    norm : bool
    act : {"none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"}
    dropout : float in [0, 1)
        The mask is a function of `key`, `step`, node, config and channel alone.
    out : (N, C, F) or (N, F) float32, optional
    precision : {"f32", "bf16", "int8"}
        Of the operands of the gate's products. For the last two the elementary functions are approximated
        as well as such operands warrant, to about 2e-4.
    slope : (1,) or (F,) float32
        See `linear`.

    Returns
    -------
    (N, C, F) or (N, F) float32
    """
    return _forward(
        _mix_call(z, residual, (w1, b1, w2, b2), temperature, norm, act, dropout, key, step, slope)[0],
        out,
        precision,
    )


def mix_backward(
    dy: Array,
    z: Array,
    residual: Array | None = None,
    w1: Array | None = None,
    b1: Array | None = None,
    w2: Array | None = None,
    b2: Array | None = None,
    temperature: Array | None = None,
    norm: bool = False,
    act: Activation = "none",
    dropout: float = 0.0,
    key: int = 0,
    step: int = 0,
    out: Outs | None = None,
    precision: Precision = "f32",
    slope: Array | None = None,
) -> dict[str, Array]:
    """Gradients of `mix` for every array argument that was given."""
    gate = (w1, b1, w2, b2)
    call, inputs, names = _mix_call(z, residual, gate, temperature, norm, act, dropout, key, step, slope)
    return _backward(dy, call, inputs, names, out, precision)


def _pool_call(x: Array, kind: str) -> _Call:
    _require(x, "x", ("N", "C", "F"), ("N", "F"))
    return "pool", {"kind": kind}, (x,), (), len(x), _configs(x), 0, False


def pool(x: Array, kind: str = "mean", out: Array | None = None) -> Array:
    """Pool over the nodes.

    Parameters
    ----------
    x : (N, C, F) or (N, F) float32
    kind : {"mean", "max", "sum"} or several joined by "+", in this order, side by side in the result

    Returns
    -------
    (C, F * number of kinds) float32; C is 1 for (N, F)
    """
    return _forward(_pool_call(x, kind), out)


def pool_backward(dy: Array, x: Array, kind: str = "mean", out: Outs | None = None) -> dict[str, Array]:
    """Gradient of `pool`: key ``x``; a maximum's share goes to the first node that attains it."""
    return _backward(dy, _pool_call(x, kind), ["x"], [], out)
