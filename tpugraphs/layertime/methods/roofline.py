"""A linear roofline: every term of the work at the device's peak rates, times a factor."""

from __future__ import annotations

from tpugraphs.layertime.costs import Costs
from tpugraphs.layertime.files import File
from tpugraphs.layertime.kinds import Kind
from tpugraphs.layertime.methods.base import Floats, LeftOut, Method, log_of
from tpugraphs.layertime.table import LayerTable
from tpugraphs.system.progress import Progress

__all__ = ["Roofline"]


class Roofline(Method):
    """The fitted costs of every device, without networks; see `Costs`."""

    costs: Costs

    def _learn(self, layers: LayerTable, bar: Progress) -> None:
        self.costs = Costs.fit(layers)

    def _leave_out(self, number: int, name: str, others: LayerTable, own: LayerTable) -> LeftOut:
        return LeftOut(own, log_of(self.costs.parts(own, without=name)))

    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict fixed overhead and work-dependent time in ms: (n,) each."""
        return self.costs.parts(table)

    def write(self, file: File) -> None:
        """Add the method to a file."""
        super().write(file)
        self.costs.write(file)

    def read(self, file: File, kind: Kind) -> None:
        """Restore what `write` added, of a model of that kind of layers."""
        super().read(file, kind)
        self.costs = Costs.read(file, self.devices, kind)
