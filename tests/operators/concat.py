"""Inputs next to each other, those without configs or nodes repeated."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators import add
from operators.add import Array, aligned, draw, summed

GRADIENTS = add.GRADIENTS


def forward(*, x: Array, y: Array, z: Array | None = None, u: Array | None = None) -> Array:
    """[x | y [| z [| u]]]"""
    views = aligned([a for a in (x, y, z, u) if a is not None])
    rows = np.broadcast_shapes(*(v.shape[:-1] for v in views))
    return np.concatenate([np.broadcast_to(v, (*rows, v.shape[-1])) for v in views], -1)


def backward(dy: Array, **given: Array) -> dict[str, Array]:
    """Each input's columns of the gradient."""
    views, out, at = aligned(list(given.values())), {}, 0
    for (name, a), view in zip(given.items(), views, strict=True):
        out[name] = summed(dy[..., at : at + a.shape[-1]], view).reshape(a.shape)
        at += a.shape[-1]
    return out


def _other_widths(shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: (*shape[:-1], shape[-1] + 3 * i) for i, (name, shape) in enumerate(shapes.items())}


def cases() -> list[Any]:
    """Every kind of repeated input, each with another number of columns."""
    return [(name, draw(**_other_widths(shapes))) for name, shapes in add.REPEATED.items()]


def large() -> list[Any]:
    """Several chunks."""
    return [
        (draw(x=(3000, 48), y=(3000, 17), z=(1, 5)), {}),
        (draw(x=(300, 48), y=(300, 24, 16), z=(24, 33), u=(1, 1)), {}),
    ]
