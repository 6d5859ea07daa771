"""Ways to predict times of layers, and their intervals: a row of `METHODS` each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import numpy as np

from tpugraphs.data import Column, Graph, Schema
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.costs import Costs
from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.features import Space, matrix
from tpugraphs.layertime.files import File
from tpugraphs.layertime.kinds import Floats, Kind
from tpugraphs.layertime.table import LayerTable, one_layer, unseen_layers
from tpugraphs.ranker.ranker import Ranker
from tpugraphs.system import Progress, check_whole
from tpugraphs.training.callbacks import pass_on_interrupt

LEVELS = np.linspace(0, 1, 101)
"""Levels of the quantiles that errors are kept at."""
_FAR = math.log(2)  # scale of the excess, in log size or log operations, over which a device turns unseen
_GROWTH = 2.0  # of errors, per e-fold beyond the training range
_MOST_LOG = 100.0  # bound of log(measured / predicted)
_HELD_OUT = 0.1  # share of the layers, for the errors


class ErrorQuantiles(NamedTuple):
    """Quantiles of log(measured / predicted), at the levels `LEVELS`.

    Attributes
    ----------
    known : dict of str to (101,)
        By device, on its held-out layers.
    other : (101,) or None
        On unseen devices, each left out in turn; None if there is only one device.
    """

    known: dict[str, Floats]
    other: Floats | None

    def bounds(self, table: LayerTable, level: float, excess: Floats) -> Floats:
        """Return what to add to the predicted logarithms for a central interval (n, 2).

        `excess` (n,) is how far layers are outside the training range (`Space.excess`). There, errors on a
        training device grow by twice their size per e-fold, or by those on unseen devices, faded in. The
        wider interval counts.
        """
        found = np.empty((len(table), 2))
        levels = [(1 - level) / 2, (1 + level) / 2]
        for name, rows in table.by_device():
            own = self.known.get(name, self.other)
            if own is None:
                wrong = "no interval for a device that was not learnt from"
                why = "that takes measurements of at least two others"
                todo = "level=None (--level none) gives times alone"
                raise ConfigError(f"device {name!r}: {wrong}: {why}; {todo}")
            found[rows] = ends = np.interp(levels, LEVELS, own)
            beyond = excess[rows, None]
            if name in self.known and beyond.any():
                wide = ends * (1 + _GROWTH * beyond)
                if self.other is not None:
                    faded = ends + (1 - np.exp(-beyond / _FAR)) * np.interp(levels, LEVELS, self.other)
                    wide = np.stack([np.minimum(wide, faded)[:, 0], np.maximum(wide, faded)[:, 1]], 1)
                found[rows] = np.where(beyond > 0, wide, ends)
        return found

    def write(self, file: File) -> None:
        """Add names and quantiles to a file."""
        file.metadata["judged"] = list(self.known)
        other = {} if self.other is None else {"other_errors": self.other}
        file.put(errors=np.array(list(self.known.values())), **other)

    @classmethod
    def read(cls, file: File) -> ErrorQuantiles:
        """Restore what `write` added."""
        names = file.entry("judged", list)
        rows = file.get("errors", len(names), LEVELS.size)
        other = file.get("other_errors", LEVELS.size) if "other_errors" in file.tensors else None
        every = rows if other is None else np.vstack([rows, other])
        right = (np.diff(every) >= -1e-9).all() and np.abs(every).max(initial=0) <= _MOST_LOG
        file.check(right, "errors", "quantiles in ascending order", "others")
        return cls({str(name): row for name, row in zip(names, rows, strict=True)}, other)


def error_quantiles(table: LayerTable, log_ms: Floats) -> Floats:
    """Return the quantiles (101,) of log(measured / predicted), from predicted logarithms (n,)."""
    return np.quantile(np.log(table.times) - log_ms, LEVELS)


LeftOut = tuple[Floats, Floats | float]
"""Logarithms of the predicted times of layers (n,), and a correction of which a share is added."""


class Method(ABC):
    """A way to predict, evaluated on held-out layers and on left-out devices.

    Attributes
    ----------
    devices : tuple of Device
        Training devices.
    errors : ErrorQuantiles
    networks : int
        Number of networks that `_learn` trains.
    shares : tuple of float
        Candidates for the share of a correction that is added on unseen devices. The one that serves left-out
        devices best is taken, or the middle one if no device can be left out.
    share : float
        The one taken.
    """

    devices: tuple[Device, ...]
    errors: ErrorQuantiles
    networks: int = 0
    shares: tuple[float, ...] = (0.0,)
    share: float = 0.0

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, table: LayerTable, verbose: bool | None) -> None:
        """Learn from measured layers, with a progress bar if networks are trained."""
        learnt, unseen = unseen_layers(table, _HELD_OUT, self.seed)
        self.devices = tuple(learnt.devices[i] for i in np.unique(learnt.device))
        several = self.devices if len(self.devices) > 1 else ()
        shown = verbose if self.networks else False
        left_out = []
        with Progress(self.networks + len(several), "fit", "member", shown) as bar:
            self._learn(learnt, bar)
            for number, device in enumerate(several):
                others = learnt.take(learnt.per_device_name() != device.name)
                own = unseen.take(unseen.per_device_name() == device.name)
                left_out.append((own, *self._leave_out(number, device.name, others, own)))
                bar.update(1)

        def errors(share: float) -> list[Floats]:
            return [error_quantiles(own, log_ms + share * more) for own, log_ms, more in left_out]

        def off(share: float) -> float:
            return float(np.mean(np.abs(np.expm1(-np.stack(errors(share))))))

        self.share = min(self.shares, key=off) if left_out else self.shares[len(self.shares) // 2]
        log_ms = log_of(self.parts(unseen))
        known = {name: error_quantiles(unseen.take(rows), log_ms[rows]) for name, rows in unseen.by_device()}
        other = np.quantile(np.concatenate(errors(self.share)), LEVELS) if left_out else None
        self.errors = ErrorQuantiles(known, other)

    @abstractmethod
    def _learn(self, layers: LayerTable, bar: Progress) -> None:
        """Learn from layers; update the bar after each network."""

    @abstractmethod
    def _leave_out(self, number: int, name: str, others: LayerTable, own: LayerTable) -> LeftOut:
        """Predict layers of a device from those of the others."""

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
        file.check(self.devices, "devices", "at least one", "none")
        self.errors = ErrorQuantiles.read(file)


def log_of(parts: tuple[Floats, Floats]) -> Floats:
    """Return the logarithm of predicted times (n,)."""
    return np.log(parts[0] + parts[1])


def _configs(names: Sequence[str], columns: Floats, runtime: Floats | None) -> Graph:
    """Return layers, rows of named columns (n, F), as the configs of a graph."""
    schema = Schema(config=tuple(Column(name) for name in names))
    return Graph(config_feat=columns.astype(np.float32), runtime=runtime, schema=schema)


class Roofline(Method):
    """The fitted costs of every device, without networks; see `Costs`."""

    costs: Costs

    def _learn(self, layers: LayerTable, bar: Progress) -> None:
        self.costs = Costs.fit(layers)

    def _leave_out(self, number: int, name: str, others: LayerTable, own: LayerTable) -> LeftOut:
        return log_of(self.costs.parts(own, without=name)), 0.0

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


_EPOCHS = 60  # at most, of tables with few layers
_FEWEST = 150  # steps, however few layers there are
_BATCH = 1024  # layers in a step


class Member(NamedTuple):
    """A network, and the space of the layers it was trained on."""

    ranker: Ranker
    space: Space

    def graph(self, columns: Floats, ratio: Floats | None = None) -> Graph:
        """Return layers (n, F) as the network sees them."""
        placed = self.space.place(columns, clipped=True)
        return _configs([f"column {i}" for i in range(placed.shape[1])], placed, ratio)


class Residual(Roofline):
    """Networks of log(ms / linear roofline), trained in the core.

    Members with device flags predict layers in range on the training devices. Smooth members, trained with
    noise and dropout and without device flags, predict all others; beyond the range, the former give way to
    the latter gradually. Further smooth members are each trained without one of the devices. Their errors
    stand for those on an unseen device, and set the share of the correction that serves it best: 0 leaves the
    roofline alone.

    Parameters
    ----------
    seed : int
    members : int
        Networks of each sort; their mean is taken.
    steps : int
        Training steps of a network at most; tables with few layers take fewer.
    width : int
        Columns of its layers.
    """

    shares = (0.0, 0.25, 0.5, 0.75, 1.0)

    def __init__(self, seed: int, members: int = 2, steps: int = 4000, width: int = 128) -> None:
        super().__init__(seed)
        self._set(members=members, steps=steps, width=width)

    def _set(self, **fields: int) -> None:
        self.fields = {name: check_whole(name, value, 1) for name, value in fields.items()}
        self.count = self.fields["members"]
        self.networks = 2 * self.count  # of both sorts

    def _learn(self, layers: LayerTable, bar: Progress) -> None:
        super()._learn(layers, bar)
        self.members = []
        for number in range(self.networks):
            self.members.append(self._trained(layers, number, smooth=number >= self.count))
            bar.update(1)

    def _leave_out(self, number: int, name: str, others: LayerTable, own: LayerTable) -> LeftOut:
        member = self._trained(others, self.networks + number, smooth=True)
        plain, _ = super()._leave_out(number, name, others, own)
        return plain, _mean([member], self._columns(own, name))

    def parts(self, table: LayerTable) -> tuple[Floats, Floats]:
        """Predict fixed overhead and work-dependent time in ms: (n,) each."""
        columns, known = self._columns(table), np.isin(table.per_device_name(), self.costs.names)
        near = np.exp(-self.members[0].space.excess(columns, table.kind) / _FAR)
        factor, smooth = np.zeros(len(table)), (near < 1) | ~known
        if smooth.any():
            share = self.share * np.where(known, 1 - near, 1)
            factor[smooth] = share[smooth] * _mean(self.members[self.count :], columns[smooth])
        if known.any():
            flagged = self._with_device_flags(columns[known], table.take(known))
            factor[known] += near[known] * _mean(self.members[: self.count], flagged)
        fixed, working = self.costs.parts(table)
        return fixed * np.exp(factor), working * np.exp(factor)

    def _trained(self, table: LayerTable, number: int, smooth: bool) -> Member:
        columns = self._columns(table)
        if not smooth:
            columns = self._with_device_flags(columns, table)
        member = Member(self._ranker(1000 * self.seed + number, len(table), smooth), Space.of(columns))
        if not member.space.varying.size:
            found = f"found {len(table)} that are alike; the method 'roofline' learns from such layers"
            raise DataError(f"table: expected layers that differ, {found}")
        ratio = table.times / np.exp(log_of(self.costs.parts(table)))
        pass_on_interrupt(member.ranker.fit([member.graph(columns, ratio)], verbose=False))
        return member

    def _columns(self, table: LayerTable, without: str | None = None) -> Floats:
        """Return features and shares of the costs (n, F)."""
        return np.concatenate([matrix(table), self.costs.shares(table, without)], 1)

    def _with_device_flags(self, columns: Floats, table: LayerTable) -> Floats:
        """Return columns and a flag per device (n, F + D)."""
        return np.concatenate([columns, table.per_device_name()[:, None] == np.array(self.costs.names)], 1)

    def _ranker(self, seed: int, layers: int, smooth: bool) -> Ranker:
        """Return an untrained member, to learn from that number of layers."""
        steps = min(self.fields["steps"], max(_FEWEST, _EPOCHS * layers // _BATCH))
        return Ranker(
            "graph-config",
            seed=seed,
            width=self.fields["width"],
            blocks=2,
            steps=min(steps, max(_FEWEST, self.fields["steps"] // 4)) if smooth else steps,
            configs=_BATCH,
            target="log-runtime",
            loss=[{"loss": "quantile"}],  # the median: half the mean absolute error
            noise=0.4 if smooth else 0.0,
            dropout=0.2 if smooth else 0.0,
            powers=False,
            weight_decay=0.05 if smooth else 0.0,
            learning_rate=2e-3,
            average="ema",
            ema_decay=0.995,
        )

    def write(self, file: File) -> None:
        """Add the method to a file."""
        super().write(file)
        file.metadata["share"] = self.share
        file.put_rankers([member.ranker for member in self.members])
        file.put(**{f"{i}.space": np.stack(member.space) for i, member in enumerate(self.members)})

    def read(self, file: File, kind: Kind) -> None:
        """Restore what `write` added, of a model of that kind of layers."""
        super().read(file, kind)
        self.share = file.entry("share", float)
        file.check(0 <= self.share <= 1, "share", "a number from 0 to 1", self.share)
        smooth = self._columns(replace(one_layer(kind), devices=self.devices[:1])).shape[1]
        self.members = []
        for i, ranker in enumerate(file.get_rankers(self.networks)):
            columns = smooth + (len(self.devices) if i < self.count else 0)
            self.members.append(Member(ranker, Space.read(file, f"{i}.space", columns)))


class Trees(Residual):
    """Boosted trees in place of the networks; only `fit` needs LightGBM (the extra ``[lightgbm]``).

    Parameters
    ----------
    seed : int
    members : int
        Of each sort, as in `Residual`.
    rounds : int
        Trees of a member.
    leaves : int
        Leaves of a tree, at most.
    """

    def __init__(self, seed: int, members: int = 1, rounds: int = 600, leaves: int = 63) -> None:
        super().__init__(seed)
        self._set(members=members, rounds=rounds, leaves=leaves)

    def _ranker(self, seed: int, layers: int, smooth: bool) -> Ranker:
        return Ranker(
            "eighth-lightgbm",
            seed=seed,
            steps=max(1, self.fields["rounds"] // (3 if smooth else 1)),
            num_leaves=max(2, self.fields["leaves"] // (2 if smooth else 1)),
            configs=1 << 20,
            objective="l1",
            target="log-runtime",
        )


def _mean(members: Sequence[Member], columns: Floats) -> Floats:
    """Return the mean of the members' predictions for layers (n, F)."""
    scores = [member.ranker.predict(member.graph(columns), verbose=False) for member in members]
    found: Floats = np.mean(scores, 0, dtype=np.float64)
    return found


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
        self._options: dict[str, Any] = {} if steps is None else {"steps": check_whole("steps", steps, 1)}
        self._options["preset"] = preset
        self._network, self._least_ms = Ranker("mlpredict", **self._options), math.nan

    def _learn(self, layers: LayerTable, bar: Progress) -> None:
        self._least_ms = float(layers.times.min())
        self._network = self._trained(layers, 0)
        bar.update(1)

    def _leave_out(self, number: int, name: str, others: LayerTable, own: LayerTable) -> LeftOut:
        return np.log(self._ms(self._trained(others, 1 + number), own)), 0.0

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
        file.check(0 < self._least_ms < math.inf, "least_ms", "a number above 0", self._least_ms)
        (self._network,) = file.get_rankers(1)


def inputs(table: LayerTable) -> dict[str, Floats]:
    """Return the inputs of the network by name, (n,) each."""
    found: dict[str, Floats] = {}
    for column in table.kind.columns:
        values = table.columns[column.name]
        if column.values:
            found |= {f"{column.name}={word}": 1.0 * (values == word) for word in column.values[1:]}
        else:
            found[column.name] = values.astype(np.float64) ** column.dimensions
    bandwidth, peak, clock = map(table.per_device, ("bandwidth_gbps", "peak_gflops", "clock_mhz"))
    return found | {"bandwidth_gbps": bandwidth, "cores": peak / (2e-3 * clock), "clock_mhz": clock}


def _graph(table: LayerTable, ms: Floats | None = None) -> Graph:
    columns = inputs(table)
    return _configs(list(columns), np.stack(list(columns.values()), 1), ms)


class MethodFields(TypedDict, total=False):
    """Fields of the methods, of which each has some."""

    leaves: int
    members: int
    preset: str
    rounds: int
    steps: int | None
    width: int


METHODS: dict[str, Callable[..., Method]] = {
    "residual": Residual,
    "roofline": Roofline,
    "lightgbm": Trees,
    "mlpredict": MLPredict,
}
"""Ways to predict, by name."""
