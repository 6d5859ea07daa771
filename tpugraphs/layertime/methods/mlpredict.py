"""The network of ml-performance-prediction: times from sizes, words and three figures of a device."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError
from tpugraphs.layertime.costs import devices_of
from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.intervals import HELD, ErrorQuantiles, error_quantiles, pooled
from tpugraphs.layertime.kinds import Choice, Kind
from tpugraphs.layertime.methods.base import File, Floats, joined, quantiles_by_device
from tpugraphs.layertime.splits import unseen_layers
from tpugraphs.layertime.table import LayerTable
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.system import tensorfile
from tpugraphs.system.progress import Progress
from tpugraphs.system.words import counted
from tpugraphs.training.callbacks import pass_on_interrupt

__all__ = ["MLPredict", "inputs"]

_SIDES = ("matsize", "kernelsize", "Input_Size", "Kernel_Size")
_DIMENSIONS = {"conv1d": 1, "conv3d": 3}  # of what has such sides; that of other kinds has two
_LAYERS = {True: 4, False: 2}  # of full width, as published: for several devices, for one


class MLPredict:
    """One network of all devices that knows no roofline, as published: the recipe ``mlpredict``.

    Its inputs are all sizes as plain numbers (of a side, the elements: its square in two dimensions), a flag
    for every word but the first (``None``, ``VALID``), and bandwidth, cores and clock of the device: 20 of
    ``conv2d``, 15 of ``dense``. Cores follow from the peak, two operations per core and clock. Nothing tells
    one device from another with like figures, and beyond the sizes that were learnt from it extrapolates. No
    time is predicted below the least that was learnt from.

    For the errors on devices never seen, further networks are trained without one device each, in a quarter
    of the steps; they are not kept.

    Justus, Brennan, Bonner and McGough: Predicting the computational cost of deep learning models (2018).

    Parameters
    ----------
    seed : int
    preset : {"cpu", "full"}
        Of the recipe: a minute on one core, or the published training.
    steps : int, optional
        Training steps in place of the preset's.

    Raises
    ------
    ConfigError
        No such preset, or a wrong number of steps.
    """

    errors: ErrorQuantiles
    devices: tuple[Device, ...]

    def __init__(self, seed: int, preset: str = "cpu", steps: int | None = None) -> None:
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
            raise ConfigError(f"steps: expected a whole number from 1 on, got {steps!r}")
        self.seed, self._fields = seed, dict[str, Any](preset=preset)
        if steps is not None:
            self._fields["steps"] = steps
        self._network, self._least_ms = Ranker("mlpredict", **self._fields), math.nan

    def fit(self, table: LayerTable, verbose: bool | None) -> None:
        """Learn from measured layers, with a bar of progress where that is `wanted`."""
        learnt, held = unseen_layers(table, HELD, self.seed)
        assert learnt.ms is not None
        self.devices = tuple(learnt.devices[i] for i in np.unique(learnt.device))
        self._least_ms = float(learnt.ms.min())
        count = len(self.devices) if len(self.devices) > 1 else 0
        with Progress(1 + count, "fit", "network", verbose) as bar:
            self._network = self._trained(learnt, 0)
            bar.update(1)
            known = quantiles_by_device(held, np.log(self._ms(self._network, held)))
            other = []
            for i, (name, rows) in enumerate(learnt.by_device() if count else ()):
                part = held.take(held.per_device_name() == name)
                without = self._trained(learnt.take(~rows), 1 + i)
                other.append(error_quantiles(part, np.log(self._ms(without, part))))
                bar.update(1)
        self.errors = ErrorQuantiles(known, pooled(other))

    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict milliseconds (n,) that pass without work, which cannot be told: 0, and of the work."""
        return np.zeros(len(table)), self._ms(self._network, table)

    def _ms(self, network: Ranker, table: LayerTable) -> Floats:
        scores = network.predict(_graph(table), verbose=False)
        return np.maximum(scores.astype(np.float64), self._least_ms)

    def _trained(self, table: LayerTable, number: int) -> Ranker:
        """Return network `number`: that of all devices is 0."""
        several = np.unique(table.device).size > 1
        network = Ranker("mlpredict", seed=1000 * self.seed + number, layers=_LAYERS[several], **self._fields)
        steps = network.fields.steps if number == 0 else max(1, network.fields.steps // 4)
        pass_on_interrupt(network.fit([_graph(table, table.ms)], steps=steps, verbose=False))
        return network

    def to_file(self) -> File:
        """Return metadata and tensors."""
        members, tensors = filekinds.write_members([self._network])
        own = {
            "devices": [astuple(device) for device in self.devices],
            "least_ms": self._least_ms,
            "members": members,
        }
        return joined(self.errors.to_file(), (own, tensors))

    def from_file(
        self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]], kind: Kind
    ) -> None:
        """Take them from a file."""
        self.errors = ErrorQuantiles.from_file(path, metadata, tensors)
        self.devices = devices_of(path, metadata)
        if not self.devices:
            raise tensorfile.fail(path, "devices", "at least one", "none")
        self._least_ms = tensorfile.entry(path, metadata, "least_ms", float)
        if not 0 < self._least_ms < math.inf:
            raise tensorfile.fail(path, "least_ms", "a number above 0", f"{self._least_ms}")
        networks = filekinds.read_members(path, metadata, tensors)
        if len(networks) != 1 or not isinstance(networks[0], Ranker):
            raise tensorfile.fail(path, "members", "one ranker", counted(len(networks), "member"))
        self._network = networks[0]


def inputs(table: LayerTable) -> dict[str, Floats]:
    """Return what the network sees of layers by name, (n,) each."""
    found: dict[str, Floats] = {}
    for column in table.kind.columns:
        values = table.columns[column.name]
        if isinstance(column, Choice):
            found |= {f"{column.name}={word}": 1.0 * (values == word) for word in column.values[1:]}
        else:
            sides = _DIMENSIONS.get(table.kind.name, 2) if column.name in _SIDES else 1
            found[column.name] = values.astype(np.float64) ** sides
    clock = table.per_device("clock_mhz")
    return found | {
        "bandwidth_gbps": table.per_device("bandwidth_gbps"),
        "cores": table.per_device("peak_gflops") / (2e-3 * clock),
        "clock_mhz": clock,
    }


def _graph(table: LayerTable, ms: Floats | None = None) -> Graph:
    """Return layers as the configs of a graph."""
    columns = inputs(table)
    return Graph(
        config_feat=np.stack(list(columns.values()), 1).astype(np.float32),
        runtime=ms,
        schema=Schema(config=tuple(Column(name) for name in columns)),
    )
