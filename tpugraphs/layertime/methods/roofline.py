"""A linear roofline: every term of the work at the device's peak rates, by a factor."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tpugraphs.layertime.costs import Costs
from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.intervals import HELD, ErrorQuantiles, error_quantiles, pooled
from tpugraphs.layertime.kinds import Kind
from tpugraphs.layertime.methods.base import File, Floats, joined, log_of, quantiles_by_device
from tpugraphs.layertime.splits import unseen_layers
from tpugraphs.layertime.table import LayerTable

__all__ = ["Roofline"]


class Roofline:
    """The costs of every device alone, see `Costs`."""

    errors: ErrorQuantiles
    costs: Costs

    def __init__(self, seed: int) -> None:
        self.seed = seed

    @property
    def devices(self) -> tuple[Device, ...]:
        """Devices that were learnt from."""
        return self.costs.devices

    def fit(self, table: LayerTable, verbose: bool | None) -> None:
        """Learn from measured layers; soon over, without a bar."""
        learnt, held = unseen_layers(table, HELD, self.seed)
        self.costs = Costs.fit(learnt)
        known = quantiles_by_device(held, log_of(self.parts(held)))
        other = [
            error_quantiles(part, log_of(self.costs.parts(part, without=name)))
            for name, part in ((name, held.take(rows)) for name, rows in held.by_device())
            if len(known) > 1
        ]
        self.errors = ErrorQuantiles(known, pooled(other))

    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict milliseconds (n,) that pass without work, and of the work."""
        return self.costs.parts(table)

    def to_file(self) -> File:
        """Return metadata and tensors."""
        return joined(self.costs.to_file(), self.errors.to_file())

    def from_file(
        self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]], kind: Kind
    ) -> None:
        """Take them from a file."""
        self.costs = Costs.from_file(path, metadata, tensors, kind)
        self.errors = ErrorQuantiles.from_file(path, metadata, tensors)
