"""The network of ml-performance-prediction: times from sizes, words and three figures of a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tpugraphs.data.graph import Graph
from tpugraphs.layertime.files import File
from tpugraphs.layertime.kinds import Choice, Kind
from tpugraphs.layertime.methods.base import Floats, LeftOut, Method, configs
from tpugraphs.layertime.table import LayerTable
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.system.arguments import check_whole
from tpugraphs.system.progress import Progress
from tpugraphs.training.callbacks import pass_on_interrupt

__all__ = ["MLPredict", "inputs"]

_LAYERS = {True: 4, False: 2}  # of full width, as published: for several devices, for one


class MLPredict(Method):
    """One network for all devices, without a roofline, as published: the recipe ``mlpredict``.

    Its inputs are all sizes as plain numbers (a side as its number of elements: its square in two
    dimensions), a flag for every word but the first (``None``, ``VALID``), and bandwidth, cores and clock of
    the device: 20 for ``conv2d``, 15 for ``dense``. Cores follow from the peak, at two operations per core
    and clock. Devices with equal figures look the same. The network extrapolates beyond the training sizes,
    but never predicts less than the shortest training time.

    Errors on unseen devices come from further networks, each trained without one device in a quarter of the
    steps; they are not kept.

    Justus, Brennan, Bonner and McGough: Predicting the computational cost of deep learning models (2018).

    Parameters
    ----------
    seed : int
    preset : {"cpu", "full"}
        Preset of the recipe: a minute on one core, or the published training.
    steps : int, optional
        Training steps in place of the preset's.

    Raises
    ------
    ConfigError
        No such preset, or a wrong number of steps.
    """

    networks = 1

    def __init__(self, seed: int, preset: str = "cpu", steps: int | None = None) -> None:
        super().__init__(seed)
        self._options: dict[str, Any] = {"preset": preset}
        if steps is not None:
            self._options["steps"] = check_whole("steps", steps, 1)
        self._network, self._least_ms = Ranker("mlpredict", **self._options), math.nan

    def _learn(self, layers: LayerTable, bar: Progress) -> None:
        assert layers.ms is not None
        self._least_ms = float(layers.ms.min())
        self._network = self._trained(layers, 0)
        bar.update(1)

    def _leave_out(self, number: int, name: str, others: LayerTable, own: LayerTable) -> LeftOut:
        return LeftOut(own, np.log(self._ms(self._trained(others, 1 + number), own)))

    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict an overhead of 0, which the network does not separate, and the time in ms: (n,) each."""
        return np.zeros(len(table)), self._ms(self._network, table)

    def _ms(self, network: Ranker, table: LayerTable) -> Floats:
        scores = network.predict(_graph(table), verbose=False)
        return np.maximum(scores.astype(np.float64), self._least_ms)

    def _trained(self, table: LayerTable, number: int) -> Ranker:
        """Return network `number`; 0 is the one of all devices."""
        layers = _LAYERS[np.unique(table.device).size > 1]
        network = Ranker("mlpredict", seed=1000 * self.seed + number, layers=layers, **self._options)
        steps = network.fields.steps if number == 0 else max(1, network.fields.steps // 4)
        pass_on_interrupt(network.fit([_graph(table, table.ms)], steps=steps, verbose=False))
        return network

    def write(self, file: File) -> None:
        """Add the method to a file."""
        super().write(file)
        file.metadata["least_ms"] = self._least_ms
        file.put_rankers([self._network])

    def read(self, file: File, kind: Kind) -> None:
        """Restore what `write` added, of a model of that kind of layers."""
        super().read(file, kind)
        self._least_ms = file.entry("least_ms", float)
        if not 0 < self._least_ms < math.inf:
            raise file.wrong("least_ms", "a number above 0", f"{self._least_ms}")
        (self._network,) = file.get_rankers(1)


def inputs(table: LayerTable) -> dict[str, Floats]:
    """Return the inputs of the network by name, (n,) each."""
    found: dict[str, Floats] = {}
    for column in table.kind.columns:
        values = table.columns[column.name]
        if isinstance(column, Choice):
            found |= {f"{column.name}={word}": 1.0 * (values == word) for word in column.values[1:]}
        else:
            found[column.name] = values.astype(np.float64) ** column.dimensions
    clock = table.per_device("clock_mhz")
    return found | {
        "bandwidth_gbps": table.per_device("bandwidth_gbps"),
        "cores": table.per_device("peak_gflops") / (2e-3 * clock),
        "clock_mhz": clock,
    }


def _graph(table: LayerTable, ms: Floats | None = None) -> Graph:
    columns = inputs(table)
    return configs(list(columns), np.stack(list(columns.values()), 1), ms)
