"""The time of a network on a device, or on several, as the sum of its layers; links fitted to steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from tpugraphs.errors import ConfigError, Error
from tpugraphs.layertime.devices import Device, get_device
from tpugraphs.layertime.kinds import Floats, optimizer_named
from tpugraphs.layertime.networks.layer import Layer, in_kinds, table_of
from tpugraphs.layertime.table import LayerTable
from tpugraphs.system import check_choice, check_number, check_share, check_whole, counted, few, tables

STEP = "step"  # kind of the row with the fixed cost
_SHOWN = 10  # layers in the text of an estimate
_SGD_PASSES = 3  # SGD reads weights and gradients, and writes weights
_MOST_GBPS, _MOST_MS = 1e4, 1e3  # of a link that is fitted


class LayerTime(NamedTuple):
    """The time of a layer: milliseconds, with the ends of their interval, and the share of the whole.

    Attributes
    ----------
    name, kind : str
        Of the layer.
    ms, low, high : float
        Milliseconds, and the ends of their interval.
    share : float
        Of the time of the whole network, from 0 to 1.
    out_of_range : bool
        A size or word is outside the training range, and the interval is less reliable.
    """

    name: str
    kind: str
    ms: float
    low: float
    high: float
    share: float
    out_of_range: bool = False


@dataclass(frozen=True)
class Estimate:
    """The time of a step of a network.

    Attributes
    ----------
    ms : float
        Milliseconds of a step: of a batch, forward alone with the optimizer ``None``, trained otherwise.
    interval : (float, float)
        Its ends in ms. They are sums over the layers, since on one device all layers tend to be off in the
        same direction. NaN if no level was given.
    per_layer : list of LayerTime
        In the order of the network; their `ms` sum up to `ms`. The fixed cost of a step, if there is one, is
        a row of kind ``step``; communication that computing does not hide is the last, of kind ``link``.
    batch_size, replicas : int
    device, optimizer : str
    level : float or None
    """

    ms: float
    interval: tuple[float, float]
    per_layer: list[LayerTime]
    batch_size: int
    replicas: int
    device: str
    optimizer: str
    level: float | None

    def to_frame(self) -> Any:
        """Return `per_layer` as a pandas DataFrame.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        return tables.frame(self.per_layer, LayerTime._fields)

    def epoch_s(self, samples: int) -> float:
        """Return the seconds of an epoch; the last batch counts as a full one.

        Parameters
        ----------
        samples : int
            Size of the data set.

        Returns
        -------
        float
            Seconds.

        Raises
        ------
        ConfigError
            Not a whole number from 1 on.
        """
        return math.ceil(check_whole("samples", samples, 1) / self.batch_size) * self.ms / 1000

    def run_s(self, samples: int, epochs: int) -> float:
        """Return the seconds of several epochs.

        Parameters
        ----------
        samples, epochs : int
            Size of the data set, and how often it is seen.

        Returns
        -------
        float
            Seconds.

        Raises
        ------
        ConfigError
            Not whole numbers from 1 on.
        """
        return check_whole("epochs", epochs, 1) * self.epoch_s(samples)

    def __str__(self) -> str:
        low, high = self.interval
        known = "" if self.level is None else f" ({100 * self.level:g} %: {low:.3g} to {high:.3g})"
        where = self.device if self.replicas == 1 else f"{self.replicas} x {self.device}"
        what = "inference" if self.optimizer == "None" else f"training with {self.optimizer}"
        first = f"{self.ms:.4g} ms{known} for a batch of {self.batch_size:,} on {where}, {what}"
        slowest = sorted(self.per_layer, key=lambda row: -row.ms)
        lines = [(row.name + "*" * row.out_of_range, row.kind, row.ms, row.share) for row in slowest[:_SHOWN]]
        if rest := slowest[_SHOWN:]:
            sums = sum(row.ms for row in rest), sum(row.share for row in rest)
            lines.append((counted(len(rest), "other"), "", *sums))
        cells = [[name, kind, f"{ms:.3g}", f"{100 * share:.1f}"] for name, kind, ms, share in lines]
        beyond = [row.share for row in self.per_layer if row.out_of_range]
        count = counted(len(beyond), "layer")
        note = f"\n* beyond what the model learnt from: {count}, {100 * sum(beyond):.0f} % of the time"
        return f"{first}\n{tables.text('', ['layer', 'kind', 'ms', '%'], cells)}{note if beyond else ''}"


def network_time(
    models: Mapping[str, Any],
    layers: Sequence[Layer],
    batch_size: int,
    optimizer: str | None = "None",
    device: str | Device | None = None,
    replicas: int = 1,
    *,
    factor: float = 1.0,
    link_gbps: float | None = None,
    latency_ms: float = 0.0,
    overlap: float = 0.0,
    method: str = "ring",
    last_model: Any | None = None,
    level: float | None = 0.8,
    without: Collection[str] = (),
    step_ms: float = 0.0,
    layer_ms: float = 0.0,
) -> Estimate:
    """Predict the time of a step of a network: the sum of its layers.

    With replicas, every device computes a share of the batch. The time is that of the largest share: the
    batch divided by the replicas, rounded up. In training, a ring all-reduce then sums the gradients, see
    `ring_ms`.

    ``ring``: all layers at the share of the batch, plus the all-reduce. ``last-layer``: the last layer at the
    whole batch instead of its share, as the MirroredStrategy extension of ml-performance-prediction proposes.

    Parameters
    ----------
    models : dict of str to LayerTimeModel
        By kind; anything with `predict` and `predict_interval` will do. A dense layer is predicted by a model
        of ``linear`` if there is none of ``dense``, and the other way round; so are ``conv2d`` and ``conv``.
        If the other kind has no column for activations, they become layers of kind ``elementwise``. Without
        a model of ``attention``, that is two layers of ``bmm`` and one of ``softmax``. All layers of a kind
        are predicted in one call.
    layers : sequence of Layer
        As `read_layers` returns them.
    batch_size : int
        Of all replicas together.
    optimizer : str
        Upper and lower case are the same. ``None``: the forward pass alone. Otherwise forward, backward and
        update. AdamW is predicted as Adam.
    device : name or Device
        Each model looks a name up among the devices that it knows.
    replicas : int
    factor : float
        Divisor of the sum of layers, see `fit_factor`; it does not apply to the last layer of ``last-layer``.
    link_gbps : float, optional
        Bandwidth of the all-reduce, in 1e9 bytes per second; needed to train with replicas. May be infinite.
    latency_ms, overlap : float
        See `ring_ms` and `exposed_ms`.
    method : {"ring", "last-layer"}
    last_model : LayerTimeModel, optional
        Model of the last layer in ``last-layer``, such as one that was measured on several devices.
    level : float or None
        Of the interval; None: no intervals.
    without : collection of str
        Layers to leave out, by name, kind or source. Layers without a kind must be named here.
    step_ms, layer_ms : float
        Fixed cost of a step, and of each of its layers, in milliseconds; see `calibrate_network`.

    Returns
    -------
    Estimate
        The time of a step in milliseconds, with its interval and its layers.

    Raises
    ------
    ConfigError
        A kind without a model, or layers without a kind; the message names the layers. An unknown device, or
        one that a model has no intervals for. A number out of its range.
    DataError
        A layer is too large at this batch size.

    Examples
    --------
    >>> import tpugraphs as tg
    >>> layers = [
    ...     tg.layertime.Layer("hidden", "dense", {"dim_input": 784, "dim_output": 1024}),
    ...     tg.layertime.Layer("last", "dense", {"dim_input": 1024, "dim_output": 10}),
    ... ]
    >>> models = tg.layertime.load_models("tensorflow-gpu")
    >>> found = tg.layertime.network_time(models, layers, 32, "SGD", "V100")
    >>> [one.name for one in found.per_layer], found.interval[0] < found.ms < found.interval[1]
    (['hidden', 'last'], True)
    """
    if device is None:
        raise ConfigError("device: expected the name of a device or a Device, got None")
    known = [one for model in models.values() for one in getattr(model, "known_devices", ())]

    def place(model: Any, device: str | Device = device) -> Device:
        """Return the device that a model knows by that name, or else the one that other models know."""
        return get_device(device, (*getattr(model, "known_devices", ()), *known))

    name = place(None).name
    optimizer = optimizer_named(optimizer)
    batch_size = check_whole("batch_size", batch_size, 1)
    replicas = check_whole("replicas, at most the batch size", replicas, 1, batch_size)
    check_choice("method", method, ("ring", "last-layer"))
    check_number("factor", factor, 0, 1e6, above=True)
    check_number("latency_ms", latency_ms, 0, 1e6)
    check_number("overlap", overlap, 0, 1)
    fixed = check_number("step_ms", step_ms, 0, 1e6), check_number("layer_ms", layer_ms, 0, 1e6)
    if level is not None:
        check_share("level", level)
    if method == "ring" and last_model is not None:
        raise ConfigError("last_model: only the method 'last-layer' has one")
    kept, last = _kept(layers, without), models
    before = len(kept) if method == "ring" else -1
    if last_model is not None:  # activations may be separate layers
        last = {kind: model for kind, model in models.items() if kind == "elementwise"}
        last[str(getattr(last_model, "kind", kept[-1].kind))] = last_model

    def times(
        models: Mapping[str, Any], layers: Sequence[Layer], batch: int, factor: float
    ) -> list[LayerTime]:
        parts = _parts(models, layers, without)
        found: dict[int, LayerTime] = {}
        for kind in dict.fromkeys(str(part.kind) for part in parts):
            rows = [i for i, part in enumerate(parts) if part.kind == kind]
            some = [parts[i] for i in rows]
            table = table_of(kind, some, batch, optimizer, place(models[kind]))
            try:
                found |= zip(rows, _times(models[kind], some, table, level, factor), strict=True)
            except Error as error:
                raise type(error)(f"model of kind {kind!r}: {error}") from None
        return [found[i] for i in range(len(parts))]

    rows = times(models, kept[:before], -(batch_size // -replicas), factor)
    rows += times(last, kept[before:], batch_size, 1.0)

    def add(name: str, kind: str, ms: float) -> None:
        ends = ms if level is not None else math.nan
        rows.append(LayerTime(name, kind, ms, ends, ends, 0.0))

    if any(fixed):
        add("fixed cost", STEP, fixed[0] + len(rows) * fixed[1])
    if replicas > 1 and optimizer != "None":
        if link_gbps is None:
            raise ConfigError("link_gbps: expected the bandwidth between the replicas, got None")
        check_number("link_gbps", link_gbps, 0, math.inf, above=True)
        link = ring_ms(gradient_bytes(kept), replicas, link_gbps, latency_ms)
        add("all-reduce", "link", exposed_ms(link, sum(row.ms for row in rows), overlap))
    total = sum(row.ms for row in rows)
    interval = sum(row.low for row in rows), sum(row.high for row in rows)
    rows = [row._replace(share=row.ms / total) for row in rows]
    return Estimate(total, interval, rows, batch_size, replicas, name, optimizer, level)


def _kept(layers: Sequence[Layer], without: Collection[str]) -> list[Layer]:
    """Return the layers that are to be predicted."""
    if isinstance(without, str):
        raise ConfigError(f"without: expected a list of names, got the word {without!r}")
    if wrong := [one for one in layers if not isinstance(one, Layer)]:
        raise ConfigError(f"layers: expected Layers, got {type(wrong[0]).__name__}; see read_layers")
    kept = [one for one in layers if not {one.name, one.kind, one.source} & set(without)]
    if unknown := [one for one in kept if one.kind is None]:
        found = few([f"{one.name} ({one.source})" for one in unknown])
        raise ConfigError(f"layers without a kind: {found}; leave them out by without=, by name or source")
    if not kept:
        raise ConfigError("layers: expected at least one to predict, got none")
    return kept


def _parts(models: Mapping[str, Any], layers: Sequence[Layer], without: Collection[str]) -> list[Layer]:
    """Split layers into parts of kinds that have a model, and leave out those in `without`."""
    parts = [part for layer in layers for part in in_kinds(layer, models)]
    parts = [part for part in parts if not {part.name, part.kind} & set(without)]
    if missing := dict.fromkeys(str(part.kind) for part in parts if part.kind not in models):
        found = "; ".join(f"{kind}: {few([p.name for p in parts if p.kind == kind])}" for kind in missing)
        todo = "Add a model of that kind, or leave it out by without="
        raise ConfigError(f"models: none for layers of kind {found}. {todo}")
    return parts


def _times(
    model: Any, layers: Sequence[Layer], table: LayerTable, level: float | None, factor: float
) -> list[LayerTime]:
    """Return the times of layers of one kind, divided by the factor."""
    middle = _finite(model.predict(table), (len(layers),))
    ends = np.full((len(layers), 2), math.nan)
    if level is not None:
        ends = _finite(model.predict_interval(table, level), (len(layers), 2))
    beyond = model.out_of_range(table) if hasattr(model, "out_of_range") else np.zeros(len(layers), bool)
    rows = (np.column_stack([middle, ends]) / factor).tolist()
    return [
        LayerTime(one.name, str(one.kind), ms, low, high, 0.0, bool(out))
        for one, (ms, low, high), out in zip(layers, rows, beyond, strict=True)
    ]


def _finite(found: Any, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(found, np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ConfigError(f"expected finite milliseconds of shape {shape}, found shape {array.shape}")
    return array


# ---- data parallelism


@overload
def ring_ms(gradient_bytes: float, replicas: int, link_gbps: float, latency_ms: float = 0.0) -> float: ...
@overload
def ring_ms(
    gradient_bytes: ArrayLike, replicas: ArrayLike, link_gbps: ArrayLike, latency_ms: ArrayLike = 0.0
) -> float | Floats: ...
def ring_ms(
    gradient_bytes: ArrayLike, replicas: ArrayLike, link_gbps: ArrayLike, latency_ms: ArrayLike = 0.0
) -> float | Floats:
    """Return the time of a ring all-reduce in milliseconds.

    Each of n replicas sends and receives 2 (n - 1) / n of the bytes, in 2 (n - 1) turns: Patarasuk and Yuan,
    Bandwidth optimal all-reduce algorithms for clusters of workstations (2009).

    Parameters
    ----------
    gradient_bytes : float or array
    replicas : int or array
    link_gbps : float or array
        1e9 bytes per second, in each direction, of the slowest link in the ring.
    latency_ms : float or array
        Latency of a turn.

    Returns
    -------
    float or array
        Of the shape that the arguments broadcast to; 0 for a single replica.
    """
    n = np.asarray(replicas, np.float64)
    sent = 2 * (n - 1) / n * np.asarray(gradient_bytes, np.float64)
    found = sent / (np.asarray(link_gbps, np.float64) * 1e6) + 2 * (n - 1) * np.asarray(latency_ms)
    return float(found) if found.ndim == 0 else found


@overload
def exposed_ms(link_ms: float, compute_ms: float, overlap: float = 0.0) -> float: ...
@overload
def exposed_ms(link_ms: ArrayLike, compute_ms: ArrayLike, overlap: ArrayLike = 0.0) -> float | Floats: ...
def exposed_ms(link_ms: ArrayLike, compute_ms: ArrayLike, overlap: ArrayLike = 0.0) -> float | Floats:
    """Return the part of the communication that computing does not hide, in ms.

    Parameters
    ----------
    link_ms, compute_ms : float or array
    overlap : float or array
        Share of the time of computing, 0 to 1, in which gradients are already sent.

    Returns
    -------
    float or array
        Milliseconds.
    """
    found = np.maximum(0.0, np.asarray(link_ms) - np.asarray(overlap) * np.asarray(compute_ms))
    return float(found) if found.ndim == 0 else found


def gradient_bytes(layers: Sequence[Layer]) -> float:
    """Return the bytes of the gradients of layers of known kinds, from the work of their kinds.

    Weights are float32. Biases are left out; tables of embeddings count whole. Weights that two layers share
    count twice.
    """
    total = 0.0
    for layer in layers:
        if layer.kind is not None:
            table = table_of(layer.kind, [layer], 1, "SGD")
            total += float(table.kind.work(table.columns).update[0]) / _SGD_PASSES
    return total


def fit_factor(predicted_ms: ArrayLike, measured_ms: ArrayLike) -> float:
    """Return how much sums of layers over-estimate whole networks: the median of predicted / measured.

    Layers are measured one by one, and each waits for its own start, which a network hides. Divide by the
    factor: ``network_time(..., factor=...)``.

    Parameters
    ----------
    predicted_ms, measured_ms : (n,) float
        Of the same networks.

    Returns
    -------
    float
        Above 1 if sums are too large.

    Raises
    ------
    ConfigError
        Different lengths, none at all, or a time that is not a finite number above 0.
    """
    predicted, measured = positive(predicted_ms=predicted_ms, measured_ms=measured_ms)
    return float(np.median(predicted / measured))


@dataclass(frozen=True)
class Scaling:
    """A link between devices, and how much of its time is hidden.

    Attributes
    ----------
    link_gbps : float
        1e9 bytes per second.
    latency_ms : float
    overlap : float
        See `exposed_ms`.
    """

    link_gbps: float
    latency_ms: float = 0.0
    overlap: float = 0.0

    def together_per_s(
        self, replicas: ArrayLike, alone_per_s: ArrayLike, gradient_bytes: ArrayLike
    ) -> Floats:
        """Return steps per second of all replicas together (n,), each with the batch it has alone.

        Parameters
        ----------
        replicas : (n,) int
        alone_per_s : (n,) float
            Steps per second of one device alone.
        gradient_bytes : (n,) float

        Returns
        -------
        (n,) float64
            Steps per second, summed over the replicas.

        Raises
        ------
        ConfigError
            As `fit_scaling`.
        """
        n, alone, size = positive(replicas=replicas, alone_per_s=alone_per_s, gradient_bytes=gradient_bytes)
        return self._together(n, alone, size)

    def _together(self, n: Floats, alone: Floats, size: Floats) -> Floats:
        compute = 1000 / alone
        link = ring_ms(size, n, self.link_gbps, self.latency_ms)
        found: Floats = 1000 * n / (compute + exposed_ms(link, compute, self.overlap))
        return found


def fit_scaling(
    replicas: ArrayLike,
    alone_per_s: ArrayLike,
    together_per_s: ArrayLike,
    gradient_bytes: ArrayLike,
    overlap: float | None = 0.0,
) -> Scaling:
    """Fit a link to measured throughputs, each replica with the batch that one device has alone.

    A step takes its time on one device plus the exposed part of a ring all-reduce; see `ring_ms` and
    `exposed_ms`. The fit minimises the mean of |log(predicted / measured)| on a grid that is refined around
    the best point, without random numbers.

    Parameters
    ----------
    replicas : (n,) int
        From 2 on.
    alone_per_s : (n,) float
        Steps per second of one device alone.
    together_per_s : (n,) float
        Sum over the replicas.
    gradient_bytes : (n,) float
        Four times the number of weights, in float32.
    overlap : float or None
        From 0 to 1. None: fitted, too. That did not improve predictions for other networks in
        docs/results/layertime-scaling.md.

    Returns
    -------
    Scaling
        The link, as `network_time` takes its parts.

    Raises
    ------
    ConfigError
        Different lengths, fewer than 3 rows, or a number out of its range.
    """
    columns = {"alone_per_s": alone_per_s, "together_per_s": together_per_s, "gradient_bytes": gradient_bytes}
    n, alone, together, size = positive(replicas=replicas, **columns)
    if n.size < 3:
        raise ConfigError(f"fit_scaling: expected 3 rows or more, got {n.size}")
    if overlap is not None:
        check_number("overlap", overlap, 0, 1)

    def error(one: Scaling) -> float:
        return float(np.mean(np.abs(np.log(one._together(n, alone, size) / together))))

    shares = np.linspace(0, 1, 11) if overlap is None else np.array([float(overlap)])
    points = itertools.product(np.geomspace(0.01, 1000, 31), [0.0, *np.geomspace(1e-3, 100, 16)], shares)
    best = min((Scaling(*map(float, point)) for point in points), key=error)
    step = 0.3
    while step > 1e-3:
        factors = (math.exp(-step), math.exp(step))
        near = [replace(best, link_gbps=min(best.link_gbps * by, _MOST_GBPS)) for by in factors]
        near += [replace(best, latency_ms=min(best.latency_ms * by, _MOST_MS)) for by in factors]
        if overlap is None:
            near += [replace(best, overlap=min(1.0, max(0.0, best.overlap + d / 3))) for d in (-step, step)]
        found = min(near, key=error)
        if error(found) < error(best) - 1e-12:
            best = found
        else:
            step /= 2
    return best


def positive(**columns: ArrayLike) -> list[Floats]:
    """Return columns of equal length as float64; ConfigError unless all are finite and above 0."""
    found: list[Floats] = []
    for name, values in columns.items():
        try:
            array = np.asarray(values, np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"{name}: expected numbers, got {type(values).__name__}") from None
        if array.ndim != 1 or not array.size or (found and array.size != found[0].size):
            as_before = f", as in {next(iter(columns))}"
            expected = counted(found[0].size, "number") + as_before if found else "a list of numbers"
            raise ConfigError(f"{name}: expected {expected}, got an array of shape {array.shape}")
        wrong = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
        if wrong.size:
            got = f"{array[wrong[0]]} in row {wrong[0]}"
            raise ConfigError(f"{name}: expected finite numbers above 0, got {got}")
        if name == "replicas" and ((array != np.floor(array)).any() or array.min() < 2):
            raise ConfigError("replicas: expected whole numbers from 2 on")
        found.append(array)
    return found
