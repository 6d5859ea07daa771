"""What every way to predict times of layers has."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.intervals import ErrorQuantiles, error_quantiles
from tpugraphs.layertime.kinds import Kind
from tpugraphs.layertime.table import LayerTable

__all__ = ["File", "Floats", "Method", "joined", "log_of", "quantiles_by_device"]

Floats = NDArray[np.float64]
File = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # metadata, tensors


class Method(Protocol):
    """What a model does inside."""

    errors: ErrorQuantiles

    @property
    def devices(self) -> tuple[Device, ...]:
        """Devices that were learnt from."""

    def fit(self, table: LayerTable, verbose: bool | None) -> None:
        """Learn from measured layers, with a bar of progress where that is `wanted`."""

    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict milliseconds (n,) that pass without work, 0 where that cannot be told, and of it."""

    def to_file(self) -> File:
        """Return metadata and tensors."""

    def from_file(
        self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]], kind: Kind
    ) -> None:
        """Take them from a file of a model of that kind of layers."""


def log_of(parts: tuple[Floats, Floats]) -> Floats:
    """Return the logarithm of predicted times (n,)."""
    found: Floats = np.log(parts[0] + parts[1])
    return found


def quantiles_by_device(table: LayerTable, log_ms: Floats) -> dict[str, Floats]:
    """Return the quantiles (101,) of log(measured / predicted) by device, from predicted logarithms (n,)."""
    return {name: error_quantiles(table.take(rows), log_ms[rows]) for name, rows in table.by_device()}


def joined(*parts: File) -> File:
    """Join metadata, and tensors, of several parts of a file."""
    return (
        {name: value for metadata, _ in parts for name, value in metadata.items()},
        {name: array for _, tensors in parts for name, array in tensors.items()},
    )
