"""The digits of a node's config as numbers, a column each."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ()


def forward(
    digits: Array, config_nodes: Array, of: str = "nodes", form: str = "digits", scale: float = 1.0, shift: float = 0.0,
    num_nodes: int = 0, digit_rows: int = 8, nudge: Array | None = None,
) -> Array:  # fmt: skip
    """y(N,C,P) or y(K,C,P). nudge (C,K,P,V) is added to the one-hot vectors of the digits."""
    one_hot = (digits[..., None] + 2 == np.arange(digit_rows)).astype(np.float64)
    if nudge is not None:
        one_hot = one_hot + nudge
    weights = _weights(digits.shape[2], digit_rows, form, shift)
    own = _LEAST[form] + np.einsum("ckpv,pvq->kcq", one_hot, weights)
    if of == "config_nodes":
        return scale * own
    y = np.zeros((num_nodes, *own.shape[1:]))
    y[config_nodes] = own
    return scale * y


_LEAST = {"digits": 0.0, "positions": -1.0}


def _weights(places: int, digit_rows: int, form: str, shift: float) -> Array:
    """(P,V,Q): what each entry of a one-hot vector adds to each column; the first is "not configurable"."""
    w = np.zeros((places, digit_rows, places))
    for p in range(places):
        for digit in range(-1, digit_rows - 2):
            if form == "digits":
                w[p, digit + 2, p] = digit + shift
            elif 0 <= digit < 6:
                w[p, digit + 2, p - p % 6 + digit] = p % 6 + 1
    return w


def backward(
    dy: Array, digits: Array, config_nodes: Array, of: str = "nodes", form: str = "digits", scale: float = 1.0, shift: float = 0.0,
    num_nodes: int = 0, digit_rows: int = 8, nudge: Array | None = None,
) -> dict[str, Array]:  # fmt: skip
    """digits (C,K,P,V)"""
    own = dy if of == "config_nodes" else dy[config_nodes]
    weights = _weights(digits.shape[2], digit_rows, form, shift)
    return {"digits": scale * np.einsum("kcq,pvq->ckpv", own, weights)}


def _call(n: int, c: int, k: int, **attrs: Any) -> tuple[Any, dict[str, Any]]:
    def make(rng: np.random.Generator) -> dict[str, Any]:
        return {
            "digits": rng.integers(-1, 6, (c, k, 18)).astype(np.int8),
            "config_nodes": rng.permutation(n)[:k].astype(np.int64),
        }

    return make, {"num_nodes": n, **attrs}


def cases() -> list[tuple[Any, ...]]:
    """From no to only configurable nodes, and more configs than a tile has rows."""
    return [
        (f"{of}-{form}-{shift}-n{n}c{c}k{k}", *_call(n, c, k, of=of, form=form, scale=scale, shift=shift))
        for of, form, scale, shift in (
            ("nodes", "digits", 100.0, 0.0),
            ("nodes", "digits", 100 / 6, 1.0),
            ("config_nodes", "digits", 0.2, -2.5),
            ("config_nodes", "positions", 1.0, 0.0),
        )
        for n, c, k in ((1, 1, 1), (7, 5, 0), (7, 5, 7), (30, 17, 12), (4, 150, 2))
        if k > 0 or of == "nodes"
    ]


def large() -> list[Any]:
    """Several chunks."""
    return [_call(150, 24, 40), _call(300, 24, 200, of="config_nodes")]
