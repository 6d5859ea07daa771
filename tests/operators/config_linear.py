"""Linear layer over a node's columns and the digits of its config, embedded or plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("h", "weight", "bias", "table", "digit_scale")


def _digit_rows(nodes: int, digits: Array, config_nodes: Array) -> Array:
    """(N,C,P) table rows: digit + 2 at configurable nodes, 0 elsewhere."""
    rows = np.zeros((nodes, digits.shape[0], digits.shape[2]), np.int64)
    rows[config_nodes] = np.swapaxes(digits, 0, 1).astype(np.int64) + 2
    return rows


def _input(h: Array, embedded: Array, column: int) -> Array:
    """(N,C,F+PD): [h[:column] | embedded digits (N,C,P,D) | h[column:]]."""
    nodes, configs = embedded.shape[:2]
    wide = np.broadcast_to(h[:, None], (nodes, configs, h.shape[1]))
    middle = embedded.reshape(nodes, configs, -1)
    return np.concatenate([wide[..., :column], middle, wide[..., column:]], axis=2)


def _numbers(shift: float) -> Array:
    """The table (V,1) of plain digits: 0 where nothing is configurable."""
    return np.array([0.0, *(digit + shift for digit in range(-1, 6))])[:, None]


def _values(table: Array | None, digit_scale: Array | None, places: int, scale: float, shift: float) -> Array:
    """(P,V,D): what a digit in each place stands for."""
    if table is not None:
        return np.broadcast_to(table, (places, *table.shape))
    factors = np.full(places, scale) if digit_scale is None else digit_scale
    return factors[:, None, None] * _numbers(shift)


def _owners(h: Array, config_nodes: Array, num_nodes: int | None) -> Array:
    """The rows of h that the digits belong to; all of them if they are those of the configurable nodes."""
    return config_nodes if num_nodes in (None, len(h)) else np.arange(len(h))


def forward(
    h: Array, digits: Array, config_nodes: Array, weight: Array, bias: Array | None = None,
    table: Array | None = None, digit_scale: Array | None = None, column: int = 0, out: int = 1, cols: int = 4,
    values: str = "embedded", scale: float = 1.0, shift: float = 0.0, learn_scale: bool = False,
    use_bias: bool = True, num_nodes: int | None = None, nudge: Array | None = None,
) -> Array:  # fmt: skip
    """y(N,C,O) = [h[:column] | table(V,D)[digits(C,K,P) + 2] | h[column:]] weight(O,F+PD)^T + bias(O).

    Nodes that are not configurable take table row 0 in all P places. nudge (C,K,P,V) is added to the one-hot
    vectors of the digits. h (K,F) of more nodes: the configurable ones alone. Digits as numbers are times `scale`,
    or times those of `digit_scale` (P).
    """
    config_nodes = _owners(h, config_nodes, num_nodes)
    known = _values(table, digit_scale, digits.shape[2], scale, shift)
    places = np.arange(digits.shape[2])
    embedded = known[places, _digit_rows(len(h), digits, config_nodes)]
    if nudge is not None:
        embedded[config_nodes] += np.einsum("ckpv,pvd->kcpd", nudge, known)
    return _input(h, embedded, column) @ weight.T + (0.0 if bias is None else bias)


def backward(
    dy: Array, h: Array, digits: Array, config_nodes: Array, weight: Array, bias: Array | None = None,
    table: Array | None = None, digit_scale: Array | None = None, column: int = 0, out: int = 1, cols: int = 4,
    values: str = "embedded", scale: float = 1.0, shift: float = 0.0, learn_scale: bool = False,
    use_bias: bool = True, num_nodes: int | None = None, nudge: Array | None = None,
) -> dict[str, Array]:  # fmt: skip
    """Gradients of h, of the parameters given, and of digits (C,K,P,V).

    With dx = dy weight split as the input is: dh sums its parts over configs, dtable scatters the middle,
    digits[c,k,j,r] = dx of place j at configurable node k, config c, times table[r]: the derivative with
    respect to entry r of that digit's one-hot vector.
    """
    config_nodes = _owners(h, config_nodes, num_nodes)
    known = _values(table, digit_scale, digits.shape[2], scale, shift)
    rows = _digit_rows(len(h), digits, config_nodes)
    x = _input(h, known[np.arange(rows.shape[2]), rows], column)
    dx, wide = dy @ weight, rows.shape[2] * known.shape[2]
    middle = dx[..., column : column + wide].reshape(*rows.shape, -1)
    flat = dy.reshape(-1, dy.shape[-1])
    out: dict[str, Array] = {
        "h": np.concatenate([dx[..., :column], dx[..., column + wide :]], axis=2).sum(1),
        "weight": flat.T @ x.reshape(len(flat), -1),
        "digits": np.einsum("kcjd,jrd->ckjr", middle[config_nodes], known),
    }
    if bias is not None:
        out["bias"] = flat.sum(0)
    if table is not None:
        out["table"] = np.zeros_like(table)
        np.add.at(out["table"], rows, middle)
    if digit_scale is not None:
        out["digit_scale"] = (_numbers(shift)[rows] * middle).sum((0, 1, 3))
    return out


def call(
    n: int, c: int, k: int, f: int, o: int, d: int = 4, column: int | None = None, alone: bool = False,
    **attrs: Any,
) -> tuple[Callable[..., dict[str, Array | None]], dict[str, Any]]:  # fmt: skip
    """Arguments and attributes of a call; the digits stand behind h unless `column` says otherwise.

    `alone`: h has the configurable nodes only.
    """
    plain = attrs.get("values") == "numbers"

    def make(rng: np.random.Generator) -> dict[str, Array | None]:
        wide = f + 18 * d
        return {
            "h": rng.normal(size=(k if alone else n, f)),
            "digits": rng.integers(-1, 6, (c, k, 18)).astype(np.int8),
            "config_nodes": rng.permutation(n)[:k].astype(np.int64),  # in no order
            "weight": rng.normal(size=(o, wide)) / np.sqrt(wide),
            "bias": rng.normal(size=o) if attrs.get("use_bias", True) else None,
            "table": None if plain else rng.normal(size=(8, d)),
            "digit_scale": rng.normal(size=18) if attrs.get("learn_scale") else None,
        }

    attrs |= {"num_nodes": n} if alone else {}
    return make, {"out": o, "cols": d, "column": f if column is None else column, **attrs}


def cases() -> list[tuple[Any, ...]]:
    """From no to only configurable nodes, which may have rows alone; digits before, between and behind the columns."""
    out = [
        (f"n{n}c{c}k{k}-{f}to{o}", *call(n, c, k, f, o))
        for n, c, k, f, o in (
            (1, 1, 0, 1, 1),  # nothing configurable
            (1, 1, 1, 3, 2),
            (5, 3, 5, 17, 3),  # every node configurable
            (9, 11, 4, 174, 32),
            (40, 17, 13, 24, 17),
            (3, 64, 2, 8, 128),
        )
    ]
    return [
        *out,
        ("column-0", *call(6, 5, 3, 11, 9, column=0)),
        ("column-inside", *call(6, 5, 3, 11, 9, 3, column=4)),
        ("embedded", *call(6, 5, 3, 11, 9, 1, values="embedded")),
        *(
            (
                f"numbers-{scale}-{shift}-n{n}{'-alone' * alone}",
                *call(n, c, k, 11, o, 1, 5, alone, values="numbers", scale=scale, shift=shift),
            )
            for n, c, k, o in ((6, 5, 3, 9), (20, 70, 13, 33))
            for scale, shift in ((1.0, 0.0), (0.2, 0.0), (100.0, 0.0), (100 / 6, 1.0))
            for alone in (False, True)
        ),
        *(
            (
                f"learnt-scale{'-alone' * alone}-n{n}",
                *call(
                    n, c, k, 11, o, 1, 4, alone, values="numbers", learn_scale=True, scale=7.0, shift=n % 4.0
                ),
            )
            for n, c, k, o in ((6, 5, 3, 9), (20, 70, 13, 33))
            for alone in (False, True)
        ),
        ("no-bias", *call(9, 11, 4, 24, 32, use_bias=False)),
        ("no-bias-alone", *call(9, 11, 4, 24, 32, 1, alone=True, use_bias=False, values="numbers")),
        *(
            (f"alone-n{n}c{c}k{k}-{f}to{o}", *call(n, c, k, f, o, alone=True))
            for n, c, k, f, o in (
                (5, 3, 1, 17, 3),
                (40, 17, 33, 24, 17),
                (3, 64, 2, 8, 128),
                (300, 2, 150, 8, 5),
            )
        ),
    ]


def large() -> list[Any]:
    """Several chunks."""
    numbers = call(150, 24, 140, 30, 64, 1, alone=True, values="numbers", learn_scale=True, use_bias=False)
    return [call(150, 24, 40, 30, 64), call(150, 24, 140, 30, 64, alone=True), numbers]
