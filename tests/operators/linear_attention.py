"""Linear attention over the nodes of a config."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GRADIENTS = ("q", "k", "v")


def _phi(x: Array) -> Array:
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def _heads(x: Array, heads: int) -> Array:  # (N, F) or (N, C, F) -> (N, C, heads, F / heads)
    return x.reshape(len(x), -1, heads, x.shape[-1] // heads)


def _parts(q: Array, k: Array, v: Array, heads: int) -> tuple[Array, ...]:
    """Features of q and k, v in heads, S and z."""
    fq, fk, v = _phi(_heads(q, heads)), _phi(_heads(k, heads)), _heads(v, heads)
    return fq, fk, v, np.einsum("nchd,nche->chde", fk, v), fk.sum(0)


def forward(q: Array, k: Array, v: Array, heads: int = 1, normalise: float = 1.0, eps: float = 1e-6) -> Array:
    """phi(q) S [/ (phi(q) z + eps)]"""
    fq, _, _, sums, totals = _parts(q, k, v, int(heads))
    y = np.einsum("nchd,chde->nche", fq, sums)
    if normalise:
        y /= np.einsum("nchd,chd->nch", fq, totals)[..., None] + eps
    return y.reshape(v.shape)


def backward(
    dy: Array, q: Array, k: Array, v: Array, heads: int = 1, normalise: float = 1.0, eps: float = 1e-6
) -> dict[str, Array]:
    """Through numerator and denominator."""
    fq, fk, values, sums, totals = _parts(q, k, v, int(heads))
    g = _heads(dy, int(heads))
    slope = np.zeros(g.shape[:-1])
    if normalise:
        below = np.einsum("nchd,chd->nch", fq, totals) + eps
        y = _heads(forward(q, k, v, heads, normalise, eps), int(heads))
        slope = -(g * y).sum(-1) / below
        g = g / below[..., None]
    dsums, dtotals = np.einsum("nchd,nche->chde", fq, g), np.einsum("nchd,nch->chd", fq, slope)
    dq = np.einsum("nche,chde->nchd", g, sums) + slope[..., None] * totals
    dk = np.einsum("nche,chde->nchd", values, dsums) + dtotals
    return {
        "q": (dq * np.minimum(fq, 1.0)).reshape(q.shape),
        "k": (dk * np.minimum(fk, 1.0)).reshape(k.shape),
        "v": np.einsum("nchd,chde->nche", fk, dsums).reshape(v.shape),
    }


def _draw(*rows: int, wide: int, values: int) -> Any:
    return lambda rng: {
        "q": rng.normal(size=(*rows, wide)) * 2,
        "k": rng.normal(size=(*rows, wide)) * 2,
        "v": rng.normal(size=(*rows, values)),
    }


def cases() -> list[Any]:
    """Heads of any width; with one node the answer is v whatever q and k are, and their gradients cancel."""
    out: list[Any] = []
    for name, normalise in (("normalised", 1), ("plain", 0)):
        attrs = {"normalise": normalise}
        out += [
            (f"{name}-one", _draw(1, 1, wide=1, values=1), attrs | {"floor": 1.0}),
            (f"{name}-nodes", _draw(70, wide=17, values=5), attrs),
            (f"{name}-configs", _draw(9, 5, wide=24, values=48), attrs | {"heads": 3}),
            (f"{name}-many-configs", _draw(5, 70, wide=4, values=6), attrs | {"heads": 2}),
            (f"{name}-64", _draw(40, 2, wide=64, values=64), attrs | {"heads": 4, "eps": 0.5}),
        ]
    return out


def large() -> list[Any]:
    """Several chunks: of all configs together, and of each."""
    return [
        (_draw(3000, wide=64, values=32), {"heads": 2}),
        (_draw(1500, 3, wide=32, values=48), {}),
        (_draw(300, 24, wide=32, values=32), {"heads": 4, "normalise": 0}),
    ]
