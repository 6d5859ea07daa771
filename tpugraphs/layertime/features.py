"""Features of layers on a device: roofline times, tiles and waves, alignment, sizes, words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.files import File
from tpugraphs.layertime.kinds import Column, Floats, Kind, Work
from tpugraphs.layertime.table import LayerTable

_TILES = ((128, 128), (128, 64), (64, 64), (64, 32))  # rows and columns that one unit computes at a time
_ALIGNED = (2, 4, 8, 32, 64)  # divisors that vector loads and tiles favour
_FILLED = (8, 32, 64, 128)  # rows, columns or depth of a tile of a product
_CHUNKS = (128, 512, 1024, 2048, 4096)  # numbers of a row that the threads of a block take at a time
_LEAST = 1e-9
_NEAR = 1e-6
_FAR = 1e6  # bound of every column: they are logarithms and shares


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, _LEAST))


def roofline_ms(table: LayerTable) -> Floats:
    """Return a lower bound of every layer's time: of its operations or its bytes, whichever is longer.

    Williams, Waterman and Patterson: Roofline, an insightful visual performance model (2009).

    Parameters
    ----------
    table : LayerTable
        Layers of one kind.

    Returns
    -------
    (n,) float64
        Milliseconds.
    """
    work = table.kind.work(table.columns)
    return np.maximum(*_bounds(table, work))


def _bounds(table: LayerTable, work: Work) -> tuple[Floats, Floats]:
    """Return the milliseconds of the operations, and of the bytes."""
    peak, bandwidth = table.per_device("peak_gflops"), table.per_device("bandwidth_gbps")
    return work.flops / peak * 1e-6, work.moved / bandwidth * 1e-6


def features(table: LayerTable) -> dict[str, NDArray[np.float32]]:
    """Return named features, each (n,) float32. The identity of the device is not among them.

    Parameters
    ----------
    table : LayerTable
        Layers of one kind.

    Returns
    -------
    dict of str to (n,) float32
        Values by name of the feature.
    """
    work = table.kind.work(table.columns)
    found: dict[str, Floats] = {}
    for column in table.kind.columns:
        found |= dict(_described(table, column))
    computing, moving = _bounds(table, work)
    bandwidth = table.per_device("bandwidth_gbps") * 1e6
    found |= {
        "log flops": _log(work.flops),
        "log compute ms": _log(computing),
        "log memory ms": _log(moving),
        "log flops per byte": _log(work.flops) - _log(work.moved),
        "log read ms": _log(work.read / bandwidth),
        "log weights ms": _log(work.weights / bandwidth),
        "log written ms": _log(work.written / bandwidth),
        "log update ms": np.log(work.update / bandwidth + 1e-4),
        "log cache filled": _log(work.moved) - np.log(table.per_device("cache_mb") * 1e6),
    }
    found |= dict(_tiled(table, work))
    return {name: np.asarray(values, np.float32) for name, values in found.items()}


class Space(NamedTuple):
    """Ranges and scales of the features of the training layers.

    Attributes
    ----------
    low, high, center, spread : (F,) float64
        Of every column.
    """

    low: Floats
    high: Floats
    center: Floats
    spread: Floats

    @classmethod
    def of(cls, columns: Floats) -> Space:
        """Return the space of training layers, given their columns (n, F)."""
        spread = np.maximum(columns.std(0), _LEAST)
        return cls(columns.min(0), columns.max(0), columns.mean(0), spread)

    def place(self, columns: Floats, clipped: bool = False) -> Floats:
        """Return standardised columns of layers (n, V), of the V columns that vary.

        `clipped`: with values clipped to the range of their column.
        """
        varies = self.varying
        placed: Floats = np.take(columns, varies, 1)
        if clipped:
            np.clip(placed, self.low[varies], self.high[varies], out=placed)
        placed -= self.center[varies]
        placed /= self.spread[varies]
        return placed

    def reaching(self, places: Floats) -> Space:
        """Return the space, widened to hold these places (n, V)."""
        varies = self.varying
        low, high = self.low.copy(), self.high.copy()
        columns = places * self.spread[varies] + self.center[varies]
        low[varies] = np.minimum(low[varies], columns.min(0))
        high[varies] = np.maximum(high[varies], columns.max(0))
        return Space(low, high, self.center, self.spread)

    def excess(self, columns: Floats, kind: Kind) -> Floats:
        """Return how far layers are outside the training range: (n,).

        Sizes and operations count by their logarithm, an unseen word as 1; the largest counts, and 0 is
        within the range. Operations may be outside although all sizes are within. The columns (n, F) begin
        with those of `matrix`, and these with sizes, words and operations.
        """
        count = sum(_count(column) for column in kind.columns) + 1
        found, low, high = columns[:, :count], self.low[:count], self.high[:count]
        beyond: Floats = np.maximum(found - high, low - found).max(1)
        return np.where(beyond > _NEAR, beyond, 0.0)

    @property
    def varying(self) -> NDArray[np.intp]:
        """Numbers of the columns that vary (V,)."""
        return np.flatnonzero(self.high - self.low > _NEAR)

    @classmethod
    def read(cls, file: File, name: str, count: int) -> Space:
        """Return the space in the tensor of that name, a row (count,) for each field."""
        found = cls(*file.get(name, 4, count))
        file.check((found.spread > 0).all(), name, "spreads above 0", found.spread.min())
        low, center, high = found.low - _NEAR, found.center, found.high + _NEAR  # means are rounded
        outside = ~((-_FAR <= low) & (low <= center) & (center <= high) & (high <= _FAR))
        i = int(np.argmax(outside))
        values = f"{found.low[i]:g}, {center[i]:g}, {found.high[i]:g} in column {i}"
        file.check(not outside.any(), name, f"low <= center <= high within {_FAR:g}", values)
        return found


def matrix(table: LayerTable) -> Floats:
    """Return the features of layers as columns (n, F)."""
    return np.stack(list(features(table).values()), 1).astype(np.float64)


def _count(column: Column) -> int:
    """Return how many features `_described` makes of a column."""
    return len(column.values) or (1 if column.high == 1 else 1 + len(_ALIGNED))


def _described(table: LayerTable, column: Column) -> Iterator[tuple[str, Floats]]:
    """Yield a column as its logarithm and divisibility, or as a flag per word."""
    values = table.columns[column.name]
    if column.values:
        for word in column.values:
            yield f"{column.name}={word}", (values == word).astype(np.float64)
    elif column.high == 1:
        yield column.name, values.astype(np.float64)
    else:
        yield f"log {column.name}", np.log(values + (column.low == 0))
        for least in _ALIGNED:
            yield f"{column.name} % {least}", (values % least == 0).astype(np.float64)


def _tiled(table: LayerTable, work: Work) -> Iterator[tuple[str, Floats]]:
    """Yield how well the product fills tiles, and how well its tiles fill the units of the device."""
    if work.product is None:
        numbers = work.written / 4
        yield "log numbers per unit", _log(numbers / table.per_device("units"))
        if work.row is not None:
            for chunk in _CHUNKS:
                yield f"row filled of {chunk}", work.row / (np.ceil(work.row / chunk) * chunk)
        return
    rows, cols, depth, count = work.product
    sides = {"rows": rows, "cols": cols, "depth": depth}
    for name, values in sides.items():
        yield f"log {name}", _log(values)
    for high, wide in _TILES:
        tiles = np.ceil(rows / high) * np.ceil(cols / wide)
        waves = tiles * count / table.per_device("units")
        yield f"log waves of {high} x {wide}", _log(waves)
        yield f"waves filled of {high} x {wide}", waves / np.ceil(waves)
        yield f"tiles filled of {high} x {wide}", rows * cols / (tiles * high * wide)
    for name, values in sides.items():
        for chunk in _FILLED:
            yield f"{name} filled of {chunk}", values / (np.ceil(values / chunk) * chunk)
