"""Base of the methods that predict times of layers. Each is evaluated on held-out layers and devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import Schema
from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.files import File
from tpugraphs.layertime.intervals import HELD_OUT, ErrorQuantiles, error_quantiles, pooled
from tpugraphs.layertime.kinds import Kind
from tpugraphs.layertime.splits import unseen_layers
from tpugraphs.layertime.table import LayerTable
from tpugraphs.system.progress import Progress

__all__ = ["Floats", "LeftOut", "Method", "configs", "log_of"]

Floats = NDArray[np.float64]


class LeftOut(NamedTuple):
    """Layers of a left-out device, and logarithms of their predicted times.

    Attributes
    ----------
    layers : LayerTable
    log_ms : (n,) float64
    correction : (n,) float64 or 0
        Correction of `log_ms`. A share of it is added, chosen after all devices have been left out.
    """

    layers: LayerTable
    log_ms: Floats
    correction: Floats | float = 0.0

    def errors(self, share: float) -> Floats:
        """Return the quantiles of the errors (101,)."""
        return error_quantiles(self.layers, self.log_ms + share * self.correction)


class Method(ABC):
    """A way to predict.

    Attributes
    ----------
    devices : tuple of Device
        Training devices.
    errors : ErrorQuantiles
    networks : int
        Number of networks that `_learn` trains.
    share : float
        Share of the correction that is added on unseen devices.
    """

    devices: tuple[Device, ...]
    errors: ErrorQuantiles
    networks: int = 0
    share: float = 0.0

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, table: LayerTable, verbose: bool | None) -> None:
        """Learn from measured layers, with a progress bar if networks are trained."""
        learnt, unseen = unseen_layers(table, HELD_OUT, self.seed)
        self.devices = tuple(learnt.devices[i] for i in np.unique(learnt.device))
        several = self.devices if len(self.devices) > 1 else ()
        shown = verbose if self.networks else False
        with Progress(self.networks + len(several), "fit", "member", shown) as bar:
            self._learn(learnt, bar)
            left_out = []
            for number, device in enumerate(several):
                others = learnt.take(learnt.per_device_name() != device.name)
                own = unseen.take(unseen.per_device_name() == device.name)
                left_out.append(self._leave_out(number, device.name, others, own))
                bar.update(1)
        self.share = self._choose_share(left_out)
        log_ms = log_of(self.parts(unseen))
        known = {name: error_quantiles(unseen.take(rows), log_ms[rows]) for name, rows in unseen.by_device()}
        self.errors = ErrorQuantiles(known, pooled([one.errors(self.share) for one in left_out]))

    @abstractmethod
    def _learn(self, layers: LayerTable, bar: Progress) -> None:
        """Learn from layers; update the bar after each network."""

    @abstractmethod
    def _leave_out(self, number: int, name: str, others: LayerTable, own: LayerTable) -> LeftOut:
        """Predict layers of a device from those of the others."""

    def _choose_share(self, left_out: Sequence[LeftOut]) -> float:
        """Choose the share of corrections."""
        return 0.0

    @abstractmethod
    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict fixed overhead (0 if not separate) and work-dependent time in ms: (n,) each."""

    def write(self, file: File) -> None:
        """Add the method to a file."""
        file.put_devices("devices", self.devices)
        self.errors.write(file)

    def read(self, file: File, kind: Kind) -> None:
        """Restore what `write` added, of a model of that kind of layers."""
        self.devices = file.get_devices("devices")
        if not self.devices:
            raise file.wrong("devices", "at least one", "none")
        self.errors = ErrorQuantiles.read(file)


def log_of(parts: tuple[Floats, Floats]) -> Floats:
    """Return the logarithm of predicted times (n,)."""
    found: Floats = np.log(parts[0] + parts[1])
    return found


def configs(names: Sequence[str], columns: Floats, runtime: Floats | None = None) -> Graph:
    """Return layers, rows of named columns (n, F), as the configs of a graph."""
    schema = Schema(config=tuple(Column(name) for name in names))
    return Graph(config_feat=columns.astype(np.float32), runtime=runtime, schema=schema)
