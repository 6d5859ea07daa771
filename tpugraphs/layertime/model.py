"""Models of the time of one layer on one device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tpugraphs import __version__
from tpugraphs.data.columns import Column
from tpugraphs.data.graph import Graph
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError
from tpugraphs.layertime.calibration import Calibration, Space, choose
from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.features import features, roofline_ms
from tpugraphs.layertime.kinds import KINDS
from tpugraphs.layertime.table import LayerTable, read_table
from tpugraphs.ranker import filekinds
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.system import tensorfile
from tpugraphs.system.files import file_name

__all__ = ["METHODS", "LayerTimeModel"]

Floats = NDArray[np.float64]
Line = tuple[float, float]  # ms = first + second * roofline
_FILE_KIND = "layer-time"


LEVELS = np.linspace(0, 1, 101)
"""Levels of the quantiles that errors are kept at."""
_HELD = 0.1  # share of the layers that are not learnt from, for the errors


@dataclass
class Errors:
    """Quantiles of log(measured / predicted), at the levels `LEVELS`.

    Attributes
    ----------
    known : dict of str to (101,)
        By device, of layers that were not learnt from.
    other : (101,) or None
        Of devices that were not learnt from, each left out in turn; None if there is only one device.
    """

    known: dict[str, Floats]
    other: Floats | None

    def bounds(self, table: LayerTable, level: float) -> Floats:
        """Return what to add to the predicted logarithms for a central interval (n, 2)."""
        rows = []
        for device in table.devices:
            own = self.known.get(device.name, self.other)
            if own is None:
                raise ConfigError(
                    f"device {device.name!r}: no interval for a device that was not learnt from: that takes "
                    "measurements of at least two others"
                )
            rows.append(np.interp([(1 - level) / 2, (1 + level) / 2], LEVELS, own))
        found: Floats = np.array(rows)[table.device]
        return found

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors."""
        other = {} if self.other is None else {"other_errors": self.other}
        return {"judged": list(self.known)}, {"errors": np.array(list(self.known.values())), **other}

    @classmethod
    def from_file(cls, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Errors:
        """Restore what `to_file` returned."""
        names = tensorfile.entry(path, metadata, "judged", list)
        rows = tensorfile.take(path, tensors, "errors", (len(names), LEVELS.size), np.float64)
        other = None
        if "other_errors" in tensors:
            other = tensorfile.take(path, tensors, "other_errors", LEVELS.shape, np.float64)
        return cls({str(name): row for name, row in zip(names, rows, strict=True)}, other)


class Method(Protocol):
    """What a model does inside: logarithms of times from tables."""

    errors: Errors

    def fit(self, table: LayerTable) -> None:
        """Learn from measured layers."""

    def log_ms(self, table: LayerTable, line: Line | None = None) -> Floats:
        """Predict the natural logarithm of the times in ms (n,), with that line in place of the devices'."""

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors."""

    def from_file(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take them from a file."""


def _quantiles(table: LayerTable, log_ms: Floats) -> Floats:
    assert table.ms is not None
    found: Floats = np.quantile(np.log(table.ms) - log_ms, LEVELS)
    return found


def _by_device(table: LayerTable) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the name and rows of every device that has rows."""
    for i, device in enumerate(table.devices):
        rows = table.device == i
        if rows.any():
            yield device.name, rows


def _divided(table: LayerTable, seed: int) -> tuple[LayerTable, LayerTable]:
    """Return layers to learn from, and layers to judge by: some of every device."""
    rng, held = np.random.default_rng(seed), np.zeros(len(table), bool)
    for name, rows in _by_device(table):
        own = rng.permutation(np.flatnonzero(rows))
        if own.size < 2:
            raise ConfigError(f"device {name!r}: expected at least two layers to learn from, got {own.size}")
        held[own[: max(1, int(_HELD * own.size))]] = True
    return table.take(~held), table.take(held)


class Roofline:
    """A constant time per layer plus the roofline time, by a factor: both fitted to every device's layers.

    A device that was not learnt from has the medians of the others.
    """

    errors: Errors

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.lines: dict[str, Line] = {}

    def fit(self, table: LayerTable) -> None:
        """Learn from measured layers."""
        learnt, held = _divided(table, self.seed)
        self.learn(learnt)
        whole, found, others = self.lines, {}, []
        for name, rows in _by_device(held):
            found[name] = _quantiles(held.take(rows), self.log_ms(held.take(rows)))
            self.lines = {other: line for other, line in whole.items() if other != name}
            if self.lines:
                others.append(_quantiles(held.take(rows), self.log_ms(held.take(rows))))
        self.lines = whole
        self.errors = Errors(found, np.quantile(np.concatenate(others), LEVELS) if others else None)

    def learn(self, table: LayerTable) -> None:
        """Fit the lines alone."""
        assert table.ms is not None
        bound = roofline_ms(table)
        self.lines = {name: _line(bound[rows], table.ms[rows]) for name, rows in _by_device(table)}

    def log_ms(self, table: LayerTable, line: Line | None = None) -> Floats:
        """Predict the natural logarithm of the times in ms (n,), with that line in place of the devices'."""
        usual = tuple(np.median(list(self.lines.values()), axis=0))
        own = [line or self.lines.get(device.name, usual) for device in table.devices]
        lines: Floats = np.array(own, np.float64)[table.device]
        found: Floats = np.log(lines[:, 0] + lines[:, 1] * roofline_ms(table))
        return found

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return metadata and tensors."""
        names, errors = self.errors.to_file()
        return {"devices": list(self.lines), **names}, {
            "lines": np.array(list(self.lines.values())),
            **errors,
        }

    def from_file(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take them from a file."""
        names = tensorfile.entry(path, metadata, "devices", list)
        lines = tensorfile.take(path, tensors, "lines", (len(names), 2), np.float64)
        self.lines = {str(name): (float(a), float(b)) for name, (a, b) in zip(names, lines, strict=True)}
        self.errors = Errors.from_file(path, metadata, tensors)


def _line(bound: Floats, ms: Floats, rounds: int = 50) -> Line:
    """Fit ms = a + b bound with a, b > 0, by least absolute relative errors (reweighted least squares)."""
    rows, weights = np.stack([np.ones_like(bound), bound], 1), 1 / ms
    a = b = 0.0
    for _ in range(rounds):
        scale = weights / np.sqrt(np.maximum(np.abs(a + b * bound - ms) / ms, 1e-3))
        solved = np.linalg.lstsq(rows * scale[:, None], ms * scale, rcond=None)[0]
        a, b = float(max(solved[0], 1e-6)), float(max(solved[1], 1e-6))
    return a, b


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

    errors: Errors

    def __init__(self, seed: int, members: int = 2, steps: int = 6000, width: int = 128) -> None:
        for name, value in (("members", members), ("steps", steps), ("width", width)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}: expected a whole number from 1 on, got {value!r}")
        self.seed, self.members, self.steps, self.width = seed, members, steps, width
        self.line = Roofline(seed)
        self.known: list[Ranker] = []
        self.other: list[Ranker] = []

    @property
    def names(self) -> tuple[str, ...]:
        """Devices that were learnt from."""
        return tuple(self.line.lines)

    def fit(self, table: LayerTable) -> None:
        """Learn from measured layers."""
        learnt, held = _divided(table, self.seed)
        self.line.fit(table)
        self.known = [self._trained(learnt, self.line, True, i) for i in range(self.members)]
        found = {
            name: _quantiles(held.take(rows), self.log_ms(held.take(rows))) for name, rows in _by_device(held)
        }
        self.other, others = [], []
        for i, (name, rows) in enumerate(_by_device(table) if len(found) > 1 else ()):
            line = Roofline(self.seed)
            line.learn(table.take(~rows))
            self.other.append(self._trained(table.take(~rows), line, False, self.members + i))
            unseen = held.take(held.per_device_name() == name)
            others.append(
                _quantiles(unseen, self._mean(self.other[-1:], unseen, False) + line.log_ms(unseen))
            )
        self.errors = Errors(found, np.quantile(np.concatenate(others), LEVELS) if others else None)

    def log_ms(self, table: LayerTable, line: Line | None = None) -> Floats:
        """Predict the natural logarithm of the times in ms (n,), with that line in place of the devices'."""
        found = self.line.log_ms(table, line)
        learnt = np.isin(table.per_device_name(), self.names)
        for members, rows, told in ((self.known, learnt, True), (self.other or self.known, ~learnt, False)):
            if rows.any():
                found[rows] += self._mean(members, table.take(rows), told or not self.other)
        return found

    def _mean(self, members: Sequence[Ranker], table: LayerTable, told: bool) -> Floats:
        graph = self._graph(table, told)
        found: Floats = np.mean([one.predict(graph, verbose=False) for one in members], 0, dtype=np.float64)
        return found

    def _trained(self, table: LayerTable, line: Roofline, told: bool, number: int) -> Ranker:
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
        ranker.fit([self._graph(table, told, table.ms / np.exp(line.log_ms(table)))], verbose=False)
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
        line, lines = self.line.to_file()
        names, errors = self.errors.to_file()
        return {**line, **names, "members": members}, tensors | lines | errors

    def from_file(self, path: str, metadata: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take them from a file."""
        self.line.from_file(path, metadata, tensors)
        self.errors = Errors.from_file(path, metadata, tensors)
        members = filekinds.read_members(path, metadata, tensors)
        expected = self.members + (len(self.names) if len(self.names) > 1 else 0)
        if len(members) != expected or not all(isinstance(one, Ranker) for one in members):
            raise tensorfile.fail(path, "members", f"{expected} rankers", f"{len(members)} members")
        self.known, self.other = members[: self.members], members[self.members :]


METHODS: dict[str, Callable[..., Method]] = {"residual": Residual, "roofline": Roofline}
"""Ways to predict, by name."""


class LayerTimeModel:
    """Predict how long a layer takes on a device.

    Parameters
    ----------
    kind : str
        Kind of the layers, see `tpugraphs.layertime.KINDS`.
    method : {"residual", "roofline"}
        ``roofline``: a constant plus the time at peak rates by a factor, fitted per device. ``residual``:
        networks of what that leaves over, trained in the C core.
    seed : int
        Same seed, same bits.
    **fields
        Of the method: `members`, `steps` and `width` of ``residual``.

    Raises
    ------
    ConfigError
        No such kind, method or field.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> model = tg.layertime.LayerTimeModel("dense").fit(["dense_K40.csv.gz"])  # doctest: +SKIP
    >>> layer = {"batch": [32], "dim_input": [1024], "dim_output": [4096]}
    >>> model.predict(layer, device="K40")  # milliseconds  # doctest: +SKIP
    """

    def __init__(self, kind: str, method: str = "residual", seed: int = 0, **fields: Any) -> None:
        if kind not in KINDS:
            raise ConfigError(f"kind {kind!r}: unknown; expected one of {', '.join(KINDS)}")
        if method not in METHODS:
            raise ConfigError(f"method {method!r}: unknown; expected one of {', '.join(METHODS)}")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 40:
            raise ConfigError(f"seed: expected a whole number from 0 on, got {seed!r}")
        self.kind, self.method, self.seed = kind, method, seed
        try:
            self._method = METHODS[method](seed, **fields)
        except TypeError as error:
            raise ConfigError(f"method {method!r}: {error}") from None
        self.fields = fields
        self.devices: tuple[str, ...] = ()
        self._space: Space | None = None
        self._calibrated: dict[str, Calibration] = {}

    def fit(self, table: Any, device: str | Device | Sequence[str] | None = None) -> Self:
        """Learn from measured layers.

        Parameters
        ----------
        table : path, dict of arrays, DataFrame, LayerTable, or a list of them
            See `read_table`.
        device : name, Device or (n,) names, optional
            Where the layers ran, if the table does not say it.

        Raises
        ------
        ConfigError, DataError
            As `read_table`.
        """
        layers = read_table(table, self.kind, device)
        self._method.fit(layers)
        self._space, self._calibrated = Space.of(layers), {}
        self.devices = tuple(name for name, _ in _by_device(layers))
        return self

    def calibrate(self, table: Any, device: str | Device | Sequence[str] | None = None) -> Self:
        """Adapt the model to a device by a few of its layers; what it says of other devices stays.

        The device gets a line of its own (time without work, factor of the roofline), and a Gaussian process
        corrects what is left over near the measured layers. A second call replaces the first.

        Parameters
        ----------
        table : path, dict of arrays, DataFrame or LayerTable
            Measured layers: 10 to 100, of the sizes that matter. See `suggest`.
        device : name, Device or (n,) names, optional

        Raises
        ------
        ConfigError
            The model is not trained; no such device; fewer than three layers of a device.
        DataError
            As `read_table`.
        """
        space = self._check_trained()
        layers = read_table(table, self.kind, device)
        found = {}
        for name, rows in _by_device(layers):
            own = layers.take(rows)
            assert own.ms is not None
            if len(own) < 3:
                raise ConfigError(f"device {name!r}: expected at least three layers, got {len(own)}")
            shape = self._method.log_ms(own, (1.0, 0.0))
            line = _line(roofline_ms(own), own.ms / np.exp(shape))
            residuals = np.log(own.ms) - self._method.log_ms(own, line)
            found[name] = Calibration.fit(line, space.place(own), residuals)
        self._calibrated |= found
        return self

    def suggest(
        self, count: int, table: Any, device: str | Device | Sequence[str] | None = None
    ) -> NDArray[np.int64]:
        """Choose layers to measure next, so that `calibrate` learns most from them.

        Parameters
        ----------
        count : int
            At most as many as there are layers in the table.
        table : path, dict of arrays, DataFrame or LayerTable
            Candidates on one device; times in it are not read.
        device : name, Device or (n,) names, optional

        Returns
        -------
        (count,) int64
            Row numbers, the most telling first. Layers that the device was calibrated by count as known.

        Raises
        ------
        ConfigError
            The model is not trained; candidates on several devices; a wrong count.
        DataError
            As `read_table`.
        """
        space = self._check_trained()
        layers = read_table(table, self.kind, device, timed=False)
        names = [name for name, _ in _by_device(layers)]
        if len(names) != 1:
            raise ConfigError(f"suggest: expected layers on one device, got {', '.join(names)}")
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= len(layers):
            raise ConfigError(f"count: expected a whole number from 1 to {len(layers)}, got {count!r}")
        known = self._calibrated.get(names[0])
        return choose(count, space.place(layers), None if known is None else known.places)

    def _log_ms(self, layers: LayerTable, space: Space) -> Floats:
        """Predict logarithms of milliseconds (n,), calibrations included."""
        found = self._method.log_ms(layers)
        for name, rows in _by_device(layers):
            own = self._calibrated.get(name)
            if own is not None:
                part = layers.take(rows)
                found[rows] = self._method.log_ms(part, own.line) + own.correction(space.place(part))
        return found

    def _errors(self) -> Errors:
        """Return the errors of the method, and of calibrated devices those of each layer by the others.

        These are widened by a part for the two numbers of the line.
        """
        own = {
            name: np.quantile(one.left, LEVELS) * (1 + 2 / one.left.size)
            for name, one in self._calibrated.items()
        }
        return Errors({**self._method.errors.known, **own}, self._method.errors.other)

    def predict(self, table: Any, device: str | Device | Sequence[str] | None = None) -> Floats:
        """Return the time of every layer in milliseconds: (n,) float64.

        Parameters
        ----------
        table : path, dict of arrays, DataFrame or LayerTable
            Times in it are not read.
        device : name, Device or (n,) names, optional

        Raises
        ------
        ConfigError
            The model is not trained; no such device.
        DataError
            As `read_table`.
        """
        space = self._check_trained()
        found: Floats = np.exp(self._log_ms(read_table(table, self.kind, device, timed=False), space))
        return found

    def predict_interval(
        self, table: Any, level: float = 0.8, device: str | Device | Sequence[str] | None = None
    ) -> Floats:
        """Return intervals that hold the time of a layer with probability `level`, in ms: (n, 2) float64.

        Their ends are quantiles of the relative errors on layers that were not learnt from: of the same
        device, or, for a device never seen, of devices that were left out (split conformal prediction).

        Parameters
        ----------
        table : path, dict of arrays, DataFrame or LayerTable
        level : float
            Above 0 and below 1.
        device : name, Device or (n,) names, optional

        Raises
        ------
        ConfigError
            The model is not trained; no such device; a wrong level; a device never seen, and a model that
            learnt from one device alone.
        DataError
            As `read_table`.
        """
        space = self._check_trained()
        if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
            raise ConfigError(f"level: expected a number above 0 and below 1, got {level!r}")
        layers = read_table(table, self.kind, device, timed=False)
        middle = self._log_ms(layers, space)[:, None]
        found: Floats = np.exp(middle + self._errors().bounds(layers, level))
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which appears when it is complete."""
        space = self._check_trained()
        metadata, tensors = self._method.to_file()
        own = {
            "kind_of_layer": self.kind,
            "method": self.method,
            "seed": self.seed,
            "fields": self.fields,
            "calibrated": list(self._calibrated),
        }
        tensors = {**tensors, "center": space.center, "spread": space.spread}
        for i, calibration in enumerate(self._calibrated.values()):
            tensors |= {f"calibration.{i}.{name}": array for name, array in calibration.to_file().items()}
        tensorfile.write(path, _FILE_KIND, {"package": __version__, **own, **metadata}, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote.

        Raises
        ------
        CheckpointError
            Not such a file, or damaged; the message names the field.
        """
        name = file_name(path)
        metadata, tensors = tensorfile.read(name, _FILE_KIND)
        kind, method = (tensorfile.entry(name, metadata, entry, str) for entry in ("kind_of_layer", "method"))
        seed = tensorfile.entry(name, metadata, "seed", int)
        fields = tensorfile.entry(name, metadata, "fields", dict)
        try:
            model = cls(kind, method, seed, **fields)
        except ConfigError as error:
            raise tensorfile.fail(
                name, "method", "a kind, method and fields that exist", str(error)
            ) from None
        model._method.from_file(name, metadata, tensors)
        model.devices = tuple(str(one) for one in tensorfile.entry(name, metadata, "devices", list))
        columns = tensors["center"].size if "center" in tensors else 0
        center, spread = (
            tensorfile.take(name, tensors, part, (columns,), np.float64) for part in ("center", "spread")
        )
        model._space = Space(center, spread)
        for i, device in enumerate(tensorfile.entry(name, metadata, "calibrated", list)):
            model._calibrated[str(device)] = Calibration.from_file(
                name, tensors, f"calibration.{i}.", columns
            )
        return model

    def _check_trained(self) -> Space:
        if self._space is None:
            raise ConfigError("the model is not trained; call fit first, or LayerTimeModel.load")
        return self._space
