"""Random layers to measure.

Sizes are log-uniform between the two numbers of their column (`Size.drawn`), words uniform over those of the
kind. Sizes from 16 are rounded down to multiples of 8 in half of the layers, as widths of real networks are.
A layer is drawn again if it has no outputs, more operations than `Kind.most_flops`, or more than `MOST_BYTES`
to hold or to move. By default half of the layers are forward passes alone, and the others are trained by
one of the optimizers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.kinds import KINDS, OPTIMIZERS, Choice, Kind
from tpugraphs.layertime.kinds.base import Columns, Floats

__all__ = ["MOST_BYTES", "draw", "held_bytes"]

MOST_BYTES = 5e8
_TOGETHER = 256  # drawn at once; a longer table begins with the layers of a shorter one
_ALIGNED_FROM, _ALIGNED_TO = 16, 8


def held_bytes(kind: Kind, columns: Columns) -> Floats:
    """Return the bytes that layers hold while they run, about: (n,)."""
    work = kind.work(columns)
    once = work.read + work.weights + work.written + (kind.held(columns) if kind.held else 0)
    return once * np.where(work.passes > 1, 2, 1) + work.update


def draw(kind: str, count: int, seed: int, training: bool | None = None) -> dict[str, NDArray[np.generic]]:
    """Draw layers of a kind.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    count : int
        The first layers do not depend on it.
    seed : int
    training : bool, optional
        All in training (True), all forward (False), or half and half.

    Returns
    -------
    dict of str to (count,) array
        The columns of the kind.
    """
    rng, known = np.random.default_rng(seed), KINDS[kind]
    parts: list[dict[str, NDArray[np.generic]]] = []
    found = 0
    while found < count:
        columns = _drawn(known, rng, training)
        work = known.work(columns)
        fits = (work.written > 0) & (work.flops <= known.most_flops) & (work.moved <= MOST_BYTES)
        fits &= held_bytes(known, columns) <= MOST_BYTES
        parts.append({name: values[fits] for name, values in columns.items()})
        found += int(fits.sum())
    return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}


def _drawn(kind: Kind, rng: np.random.Generator, training: bool | None) -> dict[str, NDArray[np.generic]]:
    """Draw some layers, whether they fit or not."""
    columns: dict[str, NDArray[np.generic]] = {}
    aligned = rng.random(_TOGETHER) < 0.5
    for column in kind.columns:
        if column.name == "optimizer":
            trained = rng.random(_TOGETHER) < 0.5 if training is None else np.full(_TOGETHER, training)
            columns["optimizer"] = np.where(trained, rng.choice(OPTIMIZERS[1:], _TOGETHER), OPTIMIZERS[0])
        elif isinstance(column, Choice):
            columns[column.name] = rng.choice(column.values, _TOGETHER)
        else:
            columns[column.name] = _sizes(*column.drawn, aligned, rng)
    return columns


def _sizes(low: int, high: int, aligned: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    if low == 0:
        return rng.integers(low, high + 1, aligned.size)
    sizes = np.exp(rng.uniform(np.log(low), np.log(high + 1), aligned.size)).astype(np.int64)
    sizes = np.clip(sizes, low, high)
    return np.where(aligned & (sizes >= _ALIGNED_FROM), sizes // _ALIGNED_TO * _ALIGNED_TO, sizes)
