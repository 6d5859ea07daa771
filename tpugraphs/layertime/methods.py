"""Ways to predict times of layers: lines of the roofline, and networks of what these leave over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError
from tpugraphs.layertime.features import features, roofline_ms
from tpugraphs.layertime.intervals import ErrorQuantiles, divided, error_quantiles, pooled
from tpugraphs.layertime.table import LayerTable
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.system import tensorfile
from tpugraphs.training.callbacks import pass_on_interrupt

__all__ = ["METHODS", "Line", "Method", "fitted_line"]

Floats = NDArray[np.float64]
Line = tuple[float, float]  # ms = first + second * roofline


class Method(Protocol):
    """What a model does inside: logarithms of times from tables."""

    errors: ErrorQuantiles

    def fit(self, table: LayerTable) -> None:
        """Learn from measured layers."""

    def log_ms(self, table: LayerTable, line: Line | None = None) -> Floats:
        """Predict the natural logarithm of the times in ms (n,), with that line in place of the devices'."""

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors."""

    def from_file(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take them from a file."""


def fitted_line(bound: Floats, ms: Floats, rounds: int = 50) -> Line:
    """Fit ms = a + b bound with a, b > 0, by least absolute relative errors (reweighted least squares)."""
    rows, weights = np.stack([np.ones_like(bound), bound], 1), 1 / ms
    a = b = 0.0
    for _ in range(rounds):
        scale = weights / np.sqrt(np.maximum(np.abs(a + b * bound - ms) / ms, 1e-3))
        solved = np.linalg.lstsq(rows * scale[:, None], ms * scale, rcond=None)[0]
        a, b = float(max(solved[0], 1e-6)), float(max(solved[1], 1e-6))
    return a, b


class Lines:
    """A line per device: a constant time per layer, and a factor of the roofline time.

    A device that was not learnt from has the medians of the others.
    """

    def __init__(self) -> None:
        self.of: dict[str, Line] = {}

    def fit(self, table: LayerTable) -> None:
        """Learn from measured layers."""
        assert table.ms is not None
        bound = roofline_ms(table)
        self.of = {name: fitted_line(bound[rows], table.ms[rows]) for name, rows in table.by_device()}

    def log_ms(self, table: LayerTable, line: Line | None = None, without: str | None = None) -> Floats:
        """Predict the natural logarithm of the times in ms (n,).

        Parameters
        ----------
        line : (float, float), optional
            Takes the place of the devices' lines.
        without : str, optional
            A device as if it had not been learnt from.
        """
        known = {name: own for name, own in self.of.items() if name != without}
        usual = tuple(np.median(list(known.values()), axis=0))
        own = [line or known.get(device.name, usual) for device in table.devices]
        lines: Floats = np.array(own, np.float64)[table.device]
        found: Floats = np.log(lines[:, 0] + lines[:, 1] * roofline_ms(table))
        return found

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors."""
        return {"devices": list(self.of)}, {"lines": np.array(list(self.of.values()))}

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Lines:
        """Restore what `to_file` returned."""
        made, names = cls(), tensorfile.entry(path, metadata, "devices", list)
        rows = tensorfile.take(path, tensors, "lines", (len(names), 2), np.float64)
        made.of = {str(name): (float(a), float(b)) for name, (a, b) in zip(names, rows, strict=True)}
        return made


class Roofline:
    """The line of every device alone, see `Lines`."""

    errors: ErrorQuantiles

    def __init__(self, seed: int) -> None:
        self.seed, self.lines = seed, Lines()

    def fit(self, table: LayerTable) -> None:
        """Learn from measured layers."""
        learnt, held = divided(table, self.seed)
        self.lines.fit(learnt)
        parts = {name: held.take(rows) for name, rows in held.by_device()}
        known = {name: error_quantiles(part, self.log_ms(part)) for name, part in parts.items()}
        other = [
            error_quantiles(part, self.lines.log_ms(part, without=name))
            for name, part in parts.items()
            if len(parts) > 1
        ]
        self.errors = ErrorQuantiles(known, pooled(other))

    def log_ms(self, table: LayerTable, line: Line | None = None) -> Floats:
        """Predict the natural logarithm of the times in ms (n,), with that line in place of the devices'."""
        return self.lines.log_ms(table, line)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors."""
        return joined(self.lines.to_file(), self.errors.to_file())

    def from_file(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take them from a file."""
        self.lines = Lines.from_file(path, metadata, tensors)
        self.errors = ErrorQuantiles.from_file(path, metadata, tensors)


def joined(*parts: tuple[dict[str, Any], dict[str, NDArray[Any]]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Join metadata, and tensors, of several parts of a file."""
    return (
        {name: value for metadata, _ in parts for name, value in metadata.items()},
        {name: array for _, tensors in parts for name, array in tensors.items()},
    )


class Residual:
    """Networks of what a roofline leaves over: of log(ms / roofline), trained in the core.

    Members that know the device serve the devices that were learnt from. All others have members that see
    only times at peak rates, tiles and sizes, each trained without one of the devices: what it says of that
    device tells how far off a device never seen is.

    Parameters
    ----------
    seed : int
    members : int
        Networks that know the device; their mean is taken.
    steps : int
        Training steps of a network.
    width : int
        Columns of its layers.
    """

    errors: ErrorQuantiles

    def __init__(self, seed: int, members: int = 2, steps: int = 6000, width: int = 128) -> None:
        for name, value in (("members", members), ("steps", steps), ("width", width)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}: expected a whole number from 1 on, got {value!r}")
        self.seed, self.members, self.steps, self.width = seed, members, steps, width
        self.lines = Lines()
        self.known: list[Ranker] = []
        self.other: list[Ranker] = []

    @property
    def names(self) -> tuple[str, ...]:
        """Devices that were learnt from."""
        return tuple(self.lines.of)

    def fit(self, table: LayerTable) -> None:
        """Learn from measured layers."""
        learnt, held = divided(table, self.seed)
        self.lines.fit(learnt)
        self.known = [self._trained(learnt, self.lines, True, i) for i in range(self.members)]
        parts = {name: held.take(rows) for name, rows in held.by_device()}
        known = {name: error_quantiles(part, self.log_ms(part)) for name, part in parts.items()}
        self.other, other = [], []
        for i, (name, rows) in enumerate(table.by_device() if len(parts) > 1 else ()):
            rest, lines, part = table.take(~rows), Lines(), parts[name]
            lines.fit(rest)
            self.other.append(self._trained(rest, lines, False, self.members + i))
            found = lines.log_ms(part) + self._mean(self.other[-1:], part, False)
            other.append(error_quantiles(part, found))
        self.errors = ErrorQuantiles(known, pooled(other))

    def log_ms(self, table: LayerTable, line: Line | None = None) -> Floats:
        """Predict the natural logarithm of the times in ms (n,), with that line in place of the devices'."""
        found = self.lines.log_ms(table, line)
        learnt = np.isin(table.per_device_name(), self.names)
        for members, rows, told in ((self.known, learnt, True), (self.other or self.known, ~learnt, False)):
            if rows.any():
                found[rows] += self._mean(members, table.take(rows), told or not self.other)
        return found

    def _mean(self, members: Sequence[Ranker], table: LayerTable, told: bool) -> Floats:
        graph = self._graph(table, told)
        found: Floats = np.mean([one.predict(graph, verbose=False) for one in members], 0, dtype=np.float64)
        return found

    def _trained(self, table: LayerTable, lines: Lines, told: bool, number: int) -> Ranker:
        assert table.ms is not None
        ranker = Ranker(
            "graph-config",
            seed=1000 * self.seed + number,
            width=self.width,
            blocks=2,
            steps=self.steps,
            configs=1024,
            target="log-runtime",
            loss=[{"loss": "quantile"}],  # the median: half the mean absolute error
            noise=0.0,
            dropout=0.0,
            powers=False,
            weight_decay=0.0,
            learning_rate=2e-3,
            average="ema",
            ema_decay=0.995,
        )
        graph = self._graph(table, told, table.ms / np.exp(lines.log_ms(table)))
        pass_on_interrupt(ranker.fit([graph], verbose=False))
        return ranker

    def _graph(self, table: LayerTable, told: bool, ratio: Floats | None = None) -> Graph:
        """Return layers as the configs of a graph; `told`: with columns of the devices."""
        columns = features(table)
        if told:
            names = table.per_device_name()
            columns |= {f"device={name}": (names == name).astype(np.float32) for name in self.names}
        schema = Schema(config=tuple(Column(name) for name in columns))
        return Graph(config_feat=np.stack(list(columns.values()), 1), runtime=ratio, schema=schema)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors."""
        members, tensors = filekinds.write_members([*self.known, *self.other])
        return joined(self.lines.to_file(), self.errors.to_file(), ({"members": members}, tensors))

    def from_file(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take them from a file."""
        self.lines = Lines.from_file(path, metadata, tensors)
        self.errors = ErrorQuantiles.from_file(path, metadata, tensors)
        members = filekinds.read_members(path, metadata, tensors)
        expected = self.members + (len(self.names) if len(self.names) > 1 else 0)
        if len(members) != expected or not all(isinstance(one, Ranker) for one in members):
            raise tensorfile.fail(path, "members", f"{expected} rankers", f"{len(members)} members")
        self.known, self.other = members[: self.members], members[self.members :]


METHODS: dict[str, Callable[..., Method]] = {"residual": Residual, "roofline": Roofline}
"""Ways to predict, by name."""
