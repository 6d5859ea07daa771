"""Single ops, forward and backward, exactly as models run them.

Every function takes float32 C-contiguous arrays and returns new ones; nothing is cast silently
(``ShapeError``). Each ``<op>_backward(dy, ...)`` takes the gradient of the output, then the arguments of
``<op>``, and returns a dict of gradients keyed by argument name.

With ``out``, results go to existing arrays, which saves allocating zeroed memory in every call. Forward: one
array of the shape of the result, which is returned. Backward: a dict of arrays under the keys of the result;
missing ones are allocated. Arrays must be writable and share no memory with the arguments or each other
(``ValueError``). With ``only``, a collection of keys, a backward function computes only these gradients,
which saves time and memory.

The functions here have other arguments than the ops that they run; all others have the op's (`faces`).
Arguments without an annotation have the op's types.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs._core import require
from tpugraphs.errors import ShapeError
from tpugraphs.kernels.faces import Array, Precision, named

__all__ = ["config_attention", "config_attention_backward", "matmul", "mlp", "mlp_backward"]

Activation = Literal["none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"]


def matmul(
    x: Array, w: Array, bias: Array | None = None, precision: Precision = "f32", out: Array | None = None
) -> Array:
    """Multiply by rows of weights: ``x @ w.T + bias``.

    Parameters
    ----------
    x : (M, K) float32
    w : (N, K) float32
    bias : (N,) float32, optional
    precision : {"f32", "bf16", "int8"}
        Precision of the operands; sums and everything else stay float32. ``"bf16"``: bfloat16, to nearest
        even. ``"int8"``: rows of `w` and, by slices of 1024 columns, rows of `x` are scaled by their largest
        absolute value to the integers -127..127, whose products are summed exactly; a row with a NaN or an
        infinity gives NaN.
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
    require(x, "x", ("M", "K"))
    require(w, "w", ("N", x.shape[1]))
    if bias is not None:
        require(bias, "bias", (len(w),))
    return _core.product(x, w, precision, bias, None, False, out)


def _per_column(slope: Array | None, columns: int) -> bool:
    """Whether PReLU has a slope for each of several columns."""
    if slope is not None:
        require(slope, "slope", (1,), (columns,))
    return slope is not None and len(slope) > 1


@named("linear", flat=True)
def linear(x, weight, bias: Array | None, act="none", out=None, row=None, slope=None):
    """Return ``act(x @ weight.T + bias)``; with `row`, every row of x is first prefixed by that row.

    Parameters
    ----------
    x : (..., F) float32
    weight : (O, F) float32, with `row` (O, G + F)
    bias : (O,) float32, or None for none
    act : {"none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh", "prelu"}
        GELU is the exact one (erf).
    out : (..., O) float32, optional
    row : (1, G) float32, optional
        Columns that all rows share: their product with the weight is computed once.
    slope : (1,) or (O,) float32
        Slope of PReLU below 0, for all columns or per column; required by PReLU only.

    Returns
    -------
    (..., O) float32
    """
    return {"out": len(weight), "per_column": _per_column(slope, len(weight)), "use_bias": bias is not None}


@named("embedding")
def embedding(
    x, index: NDArray[np.int8] | NDArray[np.uint8], weight, source="opcode", out=None, max_norm=0.0
):
    """Append looked-up rows of a table to ``x``.

    Parameters
    ----------
    x : (N, F) float32
    index : (N,) or (N, 1) uint8 opcodes, or (N, 6) int8 layout digits in -2..5
        Opcodes outside the table take row 0; a layout digit takes row ``digit + 2``.
    weight : (V, D) float32
        The table; V >= 8 for layouts.
    source : {"opcode", "layout"}
    out : (N, F + D) or (N, F + 6 D) float32, optional
    max_norm : float
        Rows longer than this are scaled down to it when read; 0: never. The table keeps its values
        (``torch.nn.Embedding`` changes it), and gradients go through the scaling.

    Returns
    -------
    (N, F + D) or (N, F + 6 D) float32
    """
    require(x, "x", ("N", "F"))
    require(weight, "weight", ("V", "D"))
    sizes = {"rows": weight.shape[0], "cols": weight.shape[1]}
    if source == "opcode":
        require(index, "index", (len(x),), (len(x), 1), dtype=np.uint8)
        return sizes | {"node_opcode": index.reshape(-1)}
    require(index, "index", (len(x), 6), dtype=np.int8)
    return sizes | {"layout_digits": index}


@named("config_linear")
def config_linear(
    h,
    digits,
    config_nodes,
    weight,
    bias: Array | None,
    table=None,
    column: int | None = None,
    out=None,
    *,
    digit_scale=None,
    scale=1.0,
    num_nodes: int | None = None,
):
    """Apply a linear layer to ``[h[:column], 18 digits, embedded or not, h[column:]]`` per node and config.

    The part that depends on the graph alone is computed once, the config part by table look-ups; the result
    equals the plain product over the concatenation.

    Parameters
    ----------
    h : (N, F) or (K, F) float32
        Rows of all nodes, or, with `num_nodes`, of the configurable nodes alone.
    digits : (C, K, 18) int8 in -1..5
        Its gradient is (C, K, 18, 8), with respect to the one-hot encoding of every digit, entry
        ``digit + 2`` (the relaxation that gradient-based search over configs uses).
    config_nodes : (K,) int64
        Nodes the digits belong to; all others look up row 0.
    weight : (O, F + 18 D) float32
    bias : (O,) float32, or None for none
    table : (8, D) float32, optional
        Row ``digit + 2``; row 0 is "not configurable". Without a table, digits are numbers, one column each:
        the digit times `scale`, and 0 at nodes that are not configurable.
    column : int, default F
    out : (N, C, O) or (K, C, O) float32, optional
    digit_scale : (18,) float32, optional
        Factors of digits as numbers, in place of `scale`.
    scale : float
    num_nodes : int, optional
        Number of nodes, if h has other rows.

    Returns
    -------
    (N, C, O) or (K, C, O) float32
    """
    require(h, "h", ("N", "F"))
    require(digits, "digits", ("C", "K", _core.SCHEMA["digits"]), dtype=np.int8)
    sizes: dict[str, Any] = {"out": len(weight), "column": h.shape[1] if column is None else column}
    sizes["use_bias"] = bias is not None
    if table is None:
        return sizes | {"values": "numbers", "learn_scale": digit_scale is not None}
    require(table, "table", (_core.SCHEMA["digit_states"], "D"))
    return sizes | {"cols": table.shape[1]}


@named("sage", w_l="weight_l", b_l="bias_l", w_r="weight_r")
def sage_conv(x, edge_index, w_l, b_l, w_r, direction="forward", out=None):
    """Apply GraphSAGE with mean aggregation (Hamilton et al. 2017), as PyG's ``SAGEConv`` by default.

    ``y_i = w_l mean(x_j for senders j of i) + b_l + w_r x_i``; a node without senders has mean 0, duplicate
    edges count twice. Edge row ``(u, v)``: with "forward" v receives from u (PyG's source to target), with
    "reverse" u receives from v, with "both" a node takes one mean over all its neighbours of either kind.

    Parameters
    ----------
    x : (N, F) or (N, C, F) float32
    edge_index : (E, 2) int64
        DataError for a node outside 0..N-1.
    w_l, w_r : (O, F) float32
    b_l : (O,) float32
    out : (N, O) or (N, C, O) float32, optional
    direction : {"forward", "reverse", "both"}
        Direction of messages, see above.

    Returns
    -------
    (N, O) or (N, C, O) float32
    """
    return {"out": len(w_l)}


@named("instance_norm")
def instance_norm(x, out=None):
    """Apply instance norm over the nodes, per config and channel.

    ``(x - mean) / sqrt(var + 1e-5)`` with the biased variance, no affine.

    Parameters
    ----------
    x : (N, C, F) or (N, F) float32
    out : array of the shape of x, optional
        Where the result goes.

    Returns
    -------
    array of the shape of x, float32
    """
    return {}


@named("mix", w1="gate1_weight", b1="gate1_bias", w2="gate2_weight", b2="gate2_bias")
def mix(
    z,
    residual=None,
    w1=None,
    b1=None,
    w2=None,
    b2=None,
    temperature=None,
    norm=False,
    act="none",
    dropout=0.0,
    key=0,
    step: int = 0,
    out=None,
    precision="f32",
    slope=None,
):
    """Apply everything between two matrix products of the first place's blocks, in one pass.

    In this order, each part optional: instance norm of ``z``; self-channel attention
    ``u = sigmoid(w2 relu(w1 z + b1) + b2) * z``; concatenation with the cross-config attention
    ``u * softmax_over_configs(u / temperature)``; ``+ residual``; activation; inverted dropout.

    Parameters
    ----------
    z : (N, C, D) or (N, D) float32
        Without configs every row is a separate group, in which the softmax is 1.
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
        Of the operands of the gate's products. For the last two, elementary functions are approximated to
        about 2e-4, as precise as such operands.
    slope : (1,) or (F,) float32
        See `linear`.
    key, step : int
        Key of the random numbers of dropout.

    Returns
    -------
    (N, C, F) or (N, F) float32
    """
    if sum(array is not None for array in (w1, b1, w2, b2)) not in (0, 4):
        raise ShapeError("mix: w1, b1, w2 and b2 go together")
    require(z, "z", ("N", "C", "D"), ("N", "D"))
    width = z.shape[-1] if temperature is None else 2 * z.shape[-1]
    if residual is not None:
        require(residual, "residual", (*z.shape[:-1], width))
    return {
        "gate": 0 if w1 is None else len(w1),
        "cross": temperature is not None,
        "per_column": _per_column(slope, width),
        "key": (key * 0x9E3779B97F4A7C15 + step) & (2**64 - 1),
        "training": dropout > 0,
    }


@named("mix", x="z", w1="gate1_weight", b1="gate1_bias", w2="gate2_weight", b2="gate2_bias")
def channel_attention(x, w1, b1, w2, b2, out=None):
    """Gate every channel by all channels of its node and config: ``sigmoid(w2 relu(w1 x + b1) + b2) * x``.

    Parameters
    ----------
    x : (N, C, D) float32
    w1, b1 : (R, D), (R,) float32
    w2, b2 : (D, R), (D,) float32
    out : (N, C, D) float32, optional
        Where the result goes.

    Returns
    -------
    (N, C, D) float32
    """
    require(w1, "w1", ("R", "D"))
    return {"gate": len(w1)}


@named("mix", flat=True, x="z")
def gelu(x, out=None):
    """Apply the exact GELU: ``x (1 + erf(x / sqrt 2)) / 2`` (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    x : (..., F) float32
    out : (..., F) float32, optional
        Where the result goes.

    Returns
    -------
    (..., F) float32
    """
    return {"act": "gelu"}


@named("pool")
def pool(x, kind: str = "mean", out=None):
    """Pool over the nodes.

    Parameters
    ----------
    x : (N, C, F) or (N, F) float32
    kind : {"mean", "max", "sum"} or several joined by "+", in this order, side by side in the result
        The gradient of a maximum goes to the first node that attains it.
    out : (C, F * number of kinds) float32, optional
        Where the result goes.

    Returns
    -------
    (C, F * number of kinds) float32; C is 1 for (N, F)
    """
    return {}


@named("mix", x="z")
def _with_config_attention(x, temperature, out=None):
    """Concatenate `x` and its `config_attention`."""
    return {"cross": True}


NAMED = [linear, embedding, config_linear, sage_conv, instance_norm, mix, channel_attention, gelu, pool]


def config_attention(x: Array, temperature: Array, out: Array | None = None) -> Array:
    """Apply attention across the configs of a slate: ``x * softmax_over_configs(x / temperature)``.

    Models append this to `x` (see `mix`); here it is returned alone.

    Parameters
    ----------
    x : (N, C, D) float32
    temperature : (1,) float32
    out : (N, C, D) float32, optional
        Where the result goes.

    Returns
    -------
    (N, C, D) float32

    Raises
    ------
    ShapeError
        An array that is not C-contiguous, or of another dtype or shape than above.
    """
    require(x, "x", ("N", "C", "D"))
    require(temperature, "temperature", (1,))
    half = _with_config_attention.forward(x, temperature)[..., x.shape[2] :]
    if out is None:
        return np.ascontiguousarray(half)
    require(out, "out", x.shape)
    np.copyto(out, half)
    return out


def config_attention_backward(
    dy: Array,
    x: Array,
    temperature: Array,
    out: Mapping[str, Array] | None = None,
    *,
    only: Collection[str] | None = None,
) -> dict[str, Array]:
    """Return the gradients of `config_attention`.

    Parameters
    ----------
    dy : (N, C, D) float32
        Gradient of its result.
    x, temperature
        Its arguments.
    out : mapping of str to array, optional
        Where gradients go.
    only : collection of str, optional
        Names of the gradients to make; by default all.

    Returns
    -------
    dict of str to float32 array
        ``x`` and ``temperature``, each of the shape of the argument.
    """
    require(x, "x", ("N", "C", "D"))
    require(temperature, "temperature", (1,))
    require(dy, "dy", x.shape)
    both = np.concatenate([np.zeros_like(dy), dy], axis=2)  # no gradient from x itself
    return _with_config_attention.backward(both, x, temperature, out, only=only)


def _layers(
    weights: Sequence[Array], biases: Sequence[Array], act: Activation
) -> list[tuple[Array, Array, Activation]]:
    """Return weight, bias and activation of each layer."""
    if not 0 < len(weights) == len(biases):
        expected = f"one per array of weights ({len(weights)}), and at least one"
        raise ShapeError(f"biases: expected {expected}, got {len(biases)}")
    last: Activation = "none"
    return list(zip(weights, biases, [*[act] * (len(weights) - 1), last], strict=True))


def mlp(
    x: Array,
    weights: Sequence[Array],
    biases: Sequence[Array],
    act: Activation = "gelu",
    out: Array | None = None,
) -> Array:
    """Apply a feed-forward head: `linear` layers with `act` after each but the last.

    Parameters
    ----------
    x : (..., F) float32
    weights : sequence of (O_k, O_{k-1}) float32, O_0 = F
    biases : sequence of (O_k,) float32
    act : {"none", "relu", "gelu", "leaky", "elu", "silu", "sigmoid", "tanh"}
        After each layer but the last.
    out : (..., O_last) float32, optional
        Where the result goes.

    Returns
    -------
    (..., O_last) float32

    Raises
    ------
    ShapeError
        No layers, not as many biases as weights, or wrong shapes or dtypes.
    """
    *inner, last = _layers(weights, biases, act)
    for layer in inner:
        x = linear.forward(x, *layer)
    return linear.forward(x, *last, out)


def mlp_backward(
    dy: Array,
    x: Array,
    weights: Sequence[Array],
    biases: Sequence[Array],
    act: Activation = "gelu",
    *,
    only: Collection[str] | None = None,
) -> dict[str, Array | list[Array]]:
    """Return the gradients of `mlp`.

    Parameters
    ----------
    dy : (..., O_last) float32
        Gradient of its result.
    x, weights, biases, act
        Its arguments.
    only : collection of str, optional
        Names of the gradients to return; by default all.

    Returns
    -------
    dict
        ``x``, a float32 array, and ``weights`` and ``biases``, lists in the order of the layers.

    Raises
    ------
    ShapeError
        As for `mlp`.
    ValueError
        `only` names another gradient.
    """
    layers, inputs = _layers(weights, biases, act), [x]
    if unknown := sorted(set(only or ()) - {"x", "weights", "biases"}):
        raise ValueError(f"only: no gradient is called {unknown[0]!r}; expected x, weights, biases")
    for layer in layers[:-1]:
        inputs.append(linear.forward(inputs[-1], *layer))
    grads = list[dict[str, Array]]()  # of each layer
    for given, layer in zip(reversed(inputs), reversed(layers), strict=True):
        grads.insert(0, linear.backward(dy, given, *layer))
        dy = grads[0]["x"]
    made: dict[str, Array | list[Array]] = {"x": dy}
    made["weights"], made["biases"] = ([one[name] for one in grads] for name in ("weight", "bias"))
    return {key: gradient for key, gradient in made.items() if only is None or key in only}
