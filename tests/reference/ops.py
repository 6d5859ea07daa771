"""Float64 NumPy references of every op: forward and analytic backward, written for reading, not for speed.

Letters: N nodes, E edges, K configurable nodes, C configs, F/O features in/out, V rows and D columns of a
table, R hidden width of a gate. Signatures are those of ``tpugraphs.kernels``; the only difference is
dropout: it takes an explicit ``mask`` of multipliers (0 or 1/(1 - p)). ``dy`` is the gradient of a scalar for
the result of the op; every ``*_backward`` returns a dict keyed by argument name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf

Array = np.ndarray[Any, Any]
EPS = 1e-5  # of instance norm


def _phi(x: Array) -> Array:
    return 0.5 * (1.0 + erf(x / np.sqrt(2.0)))


# Activation -> the function, and its derivative at the pre-activation x (0 at a kink).
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "none": (lambda x: x, np.ones_like),
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: (x > 0).astype(np.float64)),
    "gelu": (lambda x: x * _phi(x), lambda x: _phi(x) + x * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)),
    "leaky": (lambda x: np.where(x < 0, 0.01 * x, x), lambda x: np.where(x > 0, 1.0, 0.01)),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), lambda x: np.exp(np.minimum(x, 0.0))),
    "silu": (lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))),
    "sigmoid": (lambda x: sigmoid(x), lambda x: sigmoid(x) * (1.0 - sigmoid(x))),
    "tanh": (np.tanh, lambda x: 1.0 - np.tanh(x) ** 2),
}


def activate(x: Array, act: str) -> Array:
    """One of ACTIVATIONS."""
    return ACTIVATIONS[act][0](x)


def activate_slope(x: Array, act: str) -> Array:
    """Derivative of `activate` at the pre-activation x."""
    return ACTIVATIONS[act][1](x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


# ---- linear ---------------------------------------------------------------------------------------------


def _joined(x: Array, row: Array | None) -> Array:
    """Every row of x(...,F) with row(1,G) before it."""
    if row is None:
        return x
    return np.concatenate([np.broadcast_to(row[0], (*x.shape[:-1], row.shape[1])), x], axis=-1)


def linear(x: Array, weight: Array, bias: Array, act: str = "none", row: Array | None = None) -> Array:
    """y(...,O) = act(x(...,F) weight(O,F)^T + bias(O)); with row(1,G): of [row | x], weight(O,G+F)."""
    return activate(_joined(x, row) @ weight.T + bias, act)


def linear_backward(
    dy: Array, x: Array, weight: Array, bias: Array, act: str = "none", row: Array | None = None
) -> dict[str, Array]:
    """With g = dy act'(z): d[row | x] = g W, of which row sums its part over rows, dW = g^T [row | x], db = sum g."""
    wide = _joined(x, row)
    g = dy * activate_slope(wide @ weight.T + bias, act)
    grads = {"weight": _rows(g).T @ _rows(wide), "bias": _rows(g).sum(0)}
    dx, split = g @ weight, wide.shape[-1] - x.shape[-1]
    if row is not None:
        grads["row"] = _rows(dx[..., :split]).sum(0, keepdims=True)
    return {"x": dx[..., split:], **grads}


# ---- embedding ------------------------------------------------------------------------------------------


def embedding_rows(index: Array, rows: int, source: str) -> Array:
    """Table row of every index (N,n): opcode: itself, 0 outside the table; layout: digit + 2."""
    index = index.astype(np.int64)
    return index + 2 if source == "layout" else np.where(index < rows, index, 0)


def embedding(x: Array, index: Array, weight: Array, source: str = "opcode") -> Array:
    """y(N, F + n D) = [x(N,F) | weight(V,D)[row of index(N,n)]]."""
    looked_up = weight[embedding_rows(index, len(weight), source)]
    return np.concatenate([x, looked_up.reshape(len(x), -1)], axis=1)


def embedding_backward(
    dy: Array, x: Array, index: Array, weight: Array, source: str = "opcode"
) -> dict[str, Array]:
    """dx = dy[:, :F]; dweight[row] = sum of the dy columns of every look-up of that row."""
    dweight = np.zeros_like(weight)
    rows = embedding_rows(index, len(weight), source)
    np.add.at(dweight, rows, dy[:, x.shape[1] :].reshape(*rows.shape, -1))
    return {"x": dy[:, : x.shape[1]].copy(), "weight": dweight}


# ---- config_linear --------------------------------------------------------------------------------------


def _digit_rows(nodes: int, digits: Array, config_nodes: Array) -> Array:
    """(N,C,P) table rows: digit + 2 at configurable nodes, 0 elsewhere."""
    rows = np.zeros((nodes, digits.shape[0], digits.shape[2]), np.int64)
    rows[config_nodes] = np.swapaxes(digits, 0, 1).astype(np.int64) + 2
    return rows


def _config_input(h: Array, embedded: Array, column: int) -> Array:
    """(N,C,F+PD): [h[:column] | embedded digits (N,C,P,D) | h[column:]]."""
    nodes, configs = embedded.shape[:2]
    wide = np.broadcast_to(h[:, None], (nodes, configs, h.shape[1]))
    middle = embedded.reshape(nodes, configs, -1)
    return np.concatenate([wide[..., :column], middle, wide[..., column:]], axis=2)


def config_linear(
    h: Array,
    digits: Array,
    config_nodes: Array,
    weight: Array,
    bias: Array,
    table: Array,
    column: int | None = None,
    nudge: Array | None = None,
) -> Array:
    """y(N,C,O) = [h[:column] | table(V,D)[digits(C,K,P) + 2] | h[column:]] weight(O,F+PD)^T + bias(O).

    Nodes that are not configurable take table row 0 in all P places. nudge (C,K,P,V) is added to the one-hot
    vectors of the digits.
    """
    column = h.shape[1] if column is None else column
    rows = _digit_rows(len(h), digits, config_nodes)
    embedded = table[rows]
    if nudge is not None:
        embedded[config_nodes] += np.einsum("ckpv,vd->kcpd", nudge, table)
    return _config_input(h, embedded, column) @ weight.T + bias


def config_linear_backward(
    dy: Array,
    h: Array,
    digits: Array,
    config_nodes: Array,
    weight: Array,
    bias: Array,
    table: Array,
    column: int | None = None,
) -> dict[str, Array]:
    """Gradients of h, weight, bias, table, and digits (C,K,P,V).

    With dx = dy weight split as the input is: dh sums its parts over configs, dtable scatters the middle,
    digits[c,k,j,r] = dx of place j at configurable node k, config c, times table[r]: the derivative with
    respect to entry r of that digit's one-hot vector.
    """
    column = h.shape[1] if column is None else column
    width = table.shape[1]
    rows = _digit_rows(len(h), digits, config_nodes)
    x = _config_input(h, table[rows], column)
    dx, wide = dy @ weight, rows.shape[2] * width
    middle = dx[..., column : column + wide].reshape(*rows.shape, width)
    dtable = np.zeros_like(table)
    np.add.at(dtable, rows, middle)
    per_digit = np.einsum("kcjd,rd->ckjr", middle[config_nodes], table)
    return {
        "h": np.concatenate([dx[..., :column], dx[..., column + wide :]], axis=2).sum(1),
        "weight": _rows(dy).T @ _rows(x),
        "bias": _rows(dy).sum(0),
        "table": dtable,
        "digits": per_digit,
    }


# ---- sage -----------------------------------------------------------------------------------------------


def messages(edge_index: Array, direction: str) -> tuple[Array, Array]:
    """Senders and receivers of row (u,v). forward: v receives from u; reverse: u from v.

    both: the union of the two as a multiset (a self loop counts twice).
    """
    u, v = edge_index[:, 0], edge_index[:, 1]
    if direction == "forward":
        return u, v
    if direction == "reverse":
        return v, u
    return np.concatenate([u, v]), np.concatenate([v, u])


def neighbour_mean(x: Array, edge_index: Array, direction: str) -> Array:
    """m_i = mean over messages j -> i of x_j; 0 without any. x (N,...)."""
    sender, receiver = messages(edge_index, direction)
    total = np.zeros(x.shape, np.float64)
    np.add.at(total, receiver, x[sender])
    degree = np.maximum(np.bincount(receiver, minlength=len(x)), 1)
    return total / degree.reshape(-1, *[1] * (x.ndim - 1))


def neighbour_mean_backward(dm: Array, edge_index: Array, direction: str) -> Array:
    """dx_j = sum over messages j -> i of dm_i / degree_i."""
    sender, receiver = messages(edge_index, direction)
    degree = np.maximum(np.bincount(receiver, minlength=len(dm)), 1)
    scaled = dm / degree.reshape(-1, *[1] * (dm.ndim - 1))
    dx = np.zeros(dm.shape, np.float64)
    np.add.at(dx, sender, scaled[receiver])
    return dx


def sage_conv(
    x: Array, edge_index: Array, w_l: Array, b_l: Array, w_r: Array, direction: str = "forward"
) -> Array:
    """y_i = w_l(O,F) mean_{j -> i} x_j + b_l(O) + w_r(O,F) x_i; x (N,F) or (N,C,F)."""
    return neighbour_mean(x, edge_index, direction) @ w_l.T + b_l + x @ w_r.T


def sage_conv_backward(
    dy: Array, x: Array, edge_index: Array, w_l: Array, b_l: Array, w_r: Array, direction: str = "forward"
) -> dict[str, Array]:
    """dw_l = dy^T m, db_l = sum dy, dw_r = dy^T x, dx = dy w_r + transposed mean of dy w_l."""
    mean = neighbour_mean(x, edge_index, direction)
    return {
        "x": dy @ w_r + neighbour_mean_backward(dy @ w_l, edge_index, direction),
        "w_l": _rows(dy).T @ _rows(mean),
        "b_l": _rows(dy).sum(0),
        "w_r": _rows(dy).T @ _rows(x),
    }


# ---- instance norm --------------------------------------------------------------------------------------


def instance_norm(x: Array) -> Array:
    """y = (x - mean_N x) / sqrt(var_N x + 1e-5) per config and channel; biased variance; x (N,C,F)."""
    return (x - x.mean(0)) / np.sqrt(x.var(0) + EPS)


def instance_norm_backward(dy: Array, x: Array) -> dict[str, Array]:
    """dx = (dy - mean_N dy - y mean_N(dy y)) / sqrt(var + 1e-5)."""
    y = instance_norm(x)
    return {"x": (dy - dy.mean(0) - y * (dy * y).mean(0)) / np.sqrt(x.var(0) + EPS)}


# ---- the parts of mix -----------------------------------------------------------------------------------


def gate(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    """u = sigmoid(w2(D,R) relu(w1(R,D) x + b1) + b2) x, row by row (no pooling over nodes)."""
    return sigmoid(linear(linear(x, w1, b1, "relu"), w2, b2)) * x


def gate_backward(du: Array, x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> dict[str, Array]:
    """With a the sigmoid: dx = du a + the two linear layers' backward of du x a (1 - a)."""
    hidden = linear(x, w1, b1, "relu")
    a = sigmoid(linear(hidden, w2, b2))
    outer = linear_backward(du * x * a * (1.0 - a), hidden, w2, b2)
    inner = linear_backward(outer["x"], x, w1, b1, "relu")
    return {
        "x": du * a + inner["x"],
        "w1": inner["weight"],
        "b1": inner["bias"],
        "w2": outer["weight"],
        "b2": outer["bias"],
    }


def cross_softmax(u: Array, temperature: Array) -> Array:
    """softmax over configs (axis 1 of (N,C,D)) of u / temperature(1,); without configs, (N,D), 1."""
    if u.ndim == 2:
        return np.ones_like(u)
    e = np.exp(
        (u - (u.max(1, keepdims=True) if temperature[0] > 0 else u.min(1, keepdims=True))) / temperature
    )
    return e / e.sum(1, keepdims=True)


def cross_attention(u: Array, temperature: Array) -> Array:
    """u(N,C,D) * softmax_C(u / temperature)."""
    return u * cross_softmax(u, temperature)


def cross_attention_backward(g: Array, u: Array, temperature: Array) -> dict[str, Array]:
    """With s the softmax, tau the temperature, m = g u and sums over configs.

    du = g s + s / tau (m - sum m s); dtau = -1 / tau^2 sum m s (u - sum u s).
    """
    s = cross_softmax(u, temperature)
    if u.ndim == 2:
        return {"u": g, "temperature": np.zeros(1)}
    m = g * u
    du = g * s + s / temperature * (m - (m * s).sum(1, keepdims=True))
    dtau = -(m * s * (u - (u * s).sum(1, keepdims=True))).sum() / temperature**2
    return {"u": du, "temperature": dtau.reshape(1)}


def residual(x: Array, r: Array) -> Array:
    """x + r."""
    return x + r


def dropout(x: Array, mask: Array | None) -> Array:
    """x * mask, the mask holding 0 or 1/(1 - p)."""
    return x if mask is None else x * mask


def mix(
    z: Array,
    residual: Array | None = None,
    w1: Array | None = None,
    b1: Array | None = None,
    w2: Array | None = None,
    b2: Array | None = None,
    temperature: Array | None = None,
    norm: bool = False,
    act: str = "none",
    mask: Array | None = None,
) -> Array:
    """z(N,C,D) -> [instance norm] -> [gate] -> [u | cross_attention(u)] -> [+ residual] -> act -> dropout.

    The result is (N,C,2D) with a temperature, else (N,C,D). A part whose arguments are None is left out.
    """
    return dropout(activate(_mix_parts(z, residual, w1, b1, w2, b2, temperature, norm)[2], act), mask)


def _mix_parts(
    z: Array,
    residual: Array | None,
    w1: Array | None,
    b1: Array | None,
    w2: Array | None,
    b2: Array | None,
    temperature: Array | None,
    norm: bool,
) -> tuple[Array, Array, Array]:
    """(normed input, gated, pre-activation)."""
    x = instance_norm(z) if norm else z
    u = x
    if w1 is not None:
        assert b1 is not None and w2 is not None and b2 is not None
        u = gate(x, w1, b1, w2, b2)
    p = u if temperature is None else np.concatenate([u, cross_attention(u, temperature)], axis=-1)
    return x, u, p if residual is None else p + residual


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
    act: str = "none",
    mask: Array | None = None,
) -> dict[str, Array]:
    """The backward of every part in turn; keys only for the arguments that were given."""
    x, u, p = _mix_parts(z, residual, w1, b1, w2, b2, temperature, norm)
    g = dropout(dy, mask) * activate_slope(p, act)
    grads: dict[str, Array] = {}
    if residual is not None:
        grads["residual"] = g
    if temperature is not None:
        width = z.shape[-1]
        cross = cross_attention_backward(g[..., width:], u, temperature)
        grads["temperature"] = cross["temperature"]
        g = g[..., :width] + cross["u"]
    if w1 is not None:
        assert b1 is not None and w2 is not None and b2 is not None
        gated = gate_backward(g, x, w1, b1, w2, b2)
        g = gated.pop("x")
        grads |= gated
    grads["z"] = instance_norm_backward(g, z)["x"] if norm else g
    return grads


# ---- pool -----------------------------------------------------------------------------------------------


def pool(x: Array, kind: str = "mean") -> Array:
    """(N,C,F) -> (C, F * kinds): mean, max or sum over the nodes; kinds joined by "+" are concatenated.

    (N,F) is one config.
    """
    if x.ndim == 2:
        x = x[:, None]
    how = {"mean": x.mean(0), "max": x.max(0), "sum": x.sum(0)}
    return np.concatenate([how[k] for k in kind.split("+")], axis=1)


def pool_backward(dy: Array, x: Array, kind: str = "mean") -> dict[str, Array]:
    """mean: dy / N to all nodes; sum: dy to all; max: dy to the first node that has the maximum."""
    if x.ndim == 2:
        return {"x": pool_backward(dy, x[:, None], kind)["x"][:, 0]}
    dx = np.zeros(x.shape, np.float64)
    for k, g in zip(kind.split("+"), np.split(dy, len(kind.split("+")), axis=1), strict=True):
        if k == "max":
            np.put_along_axis(first := np.zeros_like(dx), x.argmax(0)[None], g[None], axis=0)
            dx += first
        else:
            dx += g / len(x) if k == "mean" else g
    return {"x": dx}


# ---- optimizer ------------------------------------------------------------------------------------------


def clip_scale(grads: Array, clip: float) -> float:
    """Factor of clipping by the global norm: min(1, clip / (|g|_2 + 1e-6)); 1 when clip is 0."""
    return min(1.0, clip / (float(np.sqrt(np.sum(grads**2))) + 1e-6)) if clip > 0 else 1.0


def adamw(
    w: Array,
    g: Array,
    m1: Array,
    m2: Array,
    step: int,
    lr: float,
    weight_decay: float = 0.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> tuple[Array, Array, Array]:
    """One update with decoupled weight decay (Loshchilov & Hutter 2019), step counted from 1.

    w *= 1 - lr wd; m1 = b1 m1 + (1-b1) g; m2 = b2 m2 + (1-b2) g^2;
    w -= lr / (1-b1^t) m1 / (sqrt(m2 / (1-b2^t)) + eps). Returns new (w, m1, m2).
    """
    m1 = beta1 * m1 + (1.0 - beta1) * g
    m2 = beta2 * m2 + (1.0 - beta2) * g * g
    denominator = np.sqrt(m2 / (1.0 - beta2**step)) + eps
    return w * (1.0 - lr * weight_decay) - lr / (1.0 - beta1**step) * m1 / denominator, m1, m2
