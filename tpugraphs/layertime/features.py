"""What layers do on a device, as numbers: roofline times, tiles and waves, alignment, sizes, words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.kinds import Choice, Size, Work
from tpugraphs.layertime.table import LayerTable

__all__ = ["features", "roofline_ms"]

Floats = NDArray[np.float64]

_TILES = ((128, 128), (128, 64), (64, 64), (64, 32))  # rows and columns that one unit computes at a time
_ALIGNED = (2, 4, 8, 32, 64)  # numbers that vector loads and tiles come in
_LEAST = 1e-9


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, _LEAST))


def roofline_ms(table: LayerTable) -> Floats:
    """Return the least time of every layer in ms (n,): of its operations or its bytes, the longer one.

    Williams, Waterman and Patterson: Roofline, an insightful visual performance model (2009).
    """
    work = table.kind.work(table.columns)
    return np.maximum(*_bounds(table, work))


def _bounds(table: LayerTable, work: Work) -> tuple[Floats, Floats]:
    """Milliseconds of the operations, and of the bytes."""
    return (
        work.flops / table.per_device("peak_gflops") * 1e-6,
        work.moved / table.per_device("bandwidth_gbps") * 1e-6,
    )


def features(table: LayerTable) -> dict[str, NDArray[np.float32]]:
    """Return named features, each (n,) float32, none of which tells the device as such."""
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


def _described(table: LayerTable, column: Size | Choice) -> Iterator[tuple[str, Floats]]:
    """Yield a column as its logarithm and divisibility, or as a flag per word."""
    values = table.columns[column.name]
    if isinstance(column, Choice):
        for word in column.values:
            yield f"{column.name}={word}", (values == word).astype(np.float64)
        return
    if column.high == 1:
        yield column.name, values.astype(np.float64)
        return
    yield f"log {column.name}", np.log(values + (column.low == 0))
    for least in _ALIGNED:
        yield f"{column.name} % {least}", (values % least == 0).astype(np.float64)


def _tiled(table: LayerTable, work: Work) -> Iterator[tuple[str, Floats]]:
    """Yield how well the product fills tiles, and how well its tiles fill the units of the device."""
    if work.rows is None or work.cols is None or work.depth is None or work.count is None:
        numbers = work.written / 4
        yield "log numbers per unit", _log(numbers / table.per_device("units"))
        return
    yield "log rows", _log(work.rows)
    yield "log cols", _log(work.cols)
    yield "log depth", _log(work.depth)
    for high, wide in _TILES:
        tiles = np.ceil(work.rows / high) * np.ceil(work.cols / wide)
        waves = tiles * work.count / table.per_device("units")
        yield f"log waves of {high} x {wide}", _log(waves)
        yield f"waves filled of {high} x {wide}", waves / np.ceil(waves)
        yield f"tiles filled of {high} x {wide}", work.rows * work.cols / (tiles * high * wide)
    yield "depth filled", work.depth / (np.ceil(work.depth / 8) * 8)
