"""Linear layer over a node's columns and the digits of its config, embedded or plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("h", "weight", "bias", "table")


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


def _numbers(scale: float) -> Array:
    """The table (V,1) of plain digits: 0 where nothing is configurable, else the digit times `scale`."""
    return scale * np.array([0.0, *range(-1, 6)])[:, None]


def _owners(h: Array, config_nodes: Array, num_nodes: int | None) -> Array:
    """The rows of h that the digits belong to; all of them if they are those of the configurable nodes."""
    return config_nodes if num_nodes in (None, len(h)) else np.arange(len(h))


def forward(
    h: Array, digits: Array, config_nodes: Array, weight: Array, bias: Array, table: Array | None = None,
    column: int = 0, out: int = 1, cols: int = 4, values: str = "embedded", scale: float = 1.0,
    num_nodes: int | None = None, nudge: Array | None = None,
) -> Array:  # fmt: skip
    """y(N,C,O) = [h[:column] | table(V,D)[digits(C,K,P) + 2] | h[column:]] weight(O,F+PD)^T + bias(O).

    Nodes that are not configurable take table row 0 in all P places. nudge (C,K,P,V) is added to the one-hot
    vectors of the digits. h (K,F) of more nodes: the configurable ones alone.
    """
    config_nodes = _owners(h, config_nodes, num_nodes)
    table = _numbers(scale) if table is None else table
    embedded = table[_digit_rows(len(h), digits, config_nodes)]
    if nudge is not None:
        embedded[config_nodes] += np.einsum("ckpv,vd->kcpd", nudge, table)
    return _input(h, embedded, column) @ weight.T + bias


def backward(
    dy: Array, h: Array, digits: Array, config_nodes: Array, weight: Array, bias: Array,
    table: Array | None = None, column: int = 0, out: int = 1, cols: int = 4, values: str = "embedded",
    scale: float = 1.0, num_nodes: int | None = None, nudge: Array | None = None,
) -> dict[str, Array]:  # fmt: skip
    """Gradients of h, weight, bias, table, and digits (C,K,P,V).

    With dx = dy weight split as the input is: dh sums its parts over configs, dtable scatters the middle,
    digits[c,k,j,r] = dx of place j at configurable node k, config c, times table[r]: the derivative with
    respect to entry r of that digit's one-hot vector.
    """
    config_nodes = _owners(h, config_nodes, num_nodes)
    learnt, table = table is not None, _numbers(scale) if table is None else table
    rows = _digit_rows(len(h), digits, config_nodes)
    x = _input(h, table[rows], column)
    dx, wide = dy @ weight, rows.shape[2] * table.shape[1]
    middle = dx[..., column : column + wide].reshape(*rows.shape, -1)
    dtable = np.zeros_like(table)
    np.add.at(dtable, rows, middle)
    flat = dy.reshape(-1, dy.shape[-1])
    return {
        "h": np.concatenate([dx[..., :column], dx[..., column + wide :]], axis=2).sum(1),
        "weight": flat.T @ x.reshape(len(flat), -1),
        "bias": flat.sum(0),
        **({"table": dtable} if learnt else {}),
        "digits": np.einsum("kcjd,rd->ckjr", middle[config_nodes], table),
    }


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
            "bias": rng.normal(size=o),
            "table": None if plain else rng.normal(size=(8, d)),
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
                f"numbers-{scale}-n{n}{'-alone' * alone}",
                *call(n, c, k, 11, o, 1, 5, alone, values="numbers", scale=scale),
            )
            for n, c, k, o in ((6, 5, 3, 9), (20, 70, 13, 33))
            for scale in (1.0, 0.2, 100.0)
            for alone in (False, True)
        ),
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
    numbers = call(150, 24, 140, 30, 64, 1, alone=True, values="numbers")
    return [call(150, 24, 40, 30, 64), call(150, 24, 140, 30, 64, alone=True), numbers]
