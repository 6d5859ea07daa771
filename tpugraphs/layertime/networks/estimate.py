"""The time of a network on a device, or on several, as the sum of its layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError, Error
from tpugraphs.layertime.devices import Device, get_device
from tpugraphs.layertime.kinds import OPTIMIZERS
from tpugraphs.layertime.networks.layer import Layer, table_of
from tpugraphs.layertime.networks.parallel import exposed_ms, gradient_bytes, ring_ms
from tpugraphs.layertime.networks.translate import in_kinds
from tpugraphs.layertime.table import LayerTable
from tpugraphs.system import tables
from tpugraphs.system.arguments import check_choice, check_number, check_share, check_whole
from tpugraphs.system.words import counted, few

if TYPE_CHECKING:
    import pandas

__all__ = ["Estimate", "LayerTime", "network_time"]

Floats = NDArray[np.float64]
_METHODS = ("ring", "last-layer")
_SHOWN = 10  # layers in the text of an estimate


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
        In the order of the network; their `ms` sum up to `ms`. Communication that computing does not hide is
        the last row, of kind ``link``.
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

    def to_frame(self) -> pandas.DataFrame:
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
        cells = [
            [r.name + "*" * r.out_of_range, r.kind, f"{r.ms:.3g}", f"{100 * r.share:.1f}"]
            for r in slowest[:_SHOWN]
        ]
        if rest := slowest[_SHOWN:]:
            total, share = sum(row.ms for row in rest), sum(row.share for row in rest)
            cells.append([counted(len(rest), "other"), "", f"{total:.3g}", f"{100 * share:.1f}"])
        beyond = [row.share for row in self.per_layer if row.out_of_range]
        count = counted(len(beyond), "layer")
        note = f"\n* beyond what the model learnt from: {count}, {100 * sum(beyond):.0f} % of the time"
        return f"{first}\n{tables.text('', ['layer', 'kind', 'ms', '%'], cells)}{note if beyond else ''}"


class TimeModel(Protocol):
    """A model of times of layers, such as :class:`tpugraphs.layertime.LayerTimeModel`."""

    def predict(self, table: LayerTable) -> NDArray[np.float64]:
        """Return milliseconds (n,)."""
        ...

    def predict_interval(self, table: LayerTable, level: float) -> NDArray[np.float64]:
        """Return intervals (n, 2) in milliseconds."""
        ...


def network_time(
    models: Mapping[str, TimeModel],
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
    last_model: TimeModel | None = None,
    level: float | None = 0.8,
    without: Collection[str] = (),
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
        If the other kind has no column for activations, they become layers of kind ``elementwise``. All
        layers of a kind are predicted in one call.
    layers : sequence of Layer
        As `read_layers` returns them.
    batch_size : int
        Of all replicas together.
    optimizer : str
        ``None``: the forward pass alone. Otherwise forward, backward and update.
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
    known = [one for model in models.values() for one in _known_to(model)]

    def place(model: Any, device: str | Device = device) -> Device:
        """Return the device that a model knows by that name, or else the one that other models know."""
        return get_device(device, (*_known_to(model), *known))

    name = place(None).name
    optimizer = "None" if optimizer is None else optimizer
    batch_size = check_whole("batch_size", batch_size, 1)
    replicas = check_whole("replicas, at most the batch size", replicas, 1, batch_size)
    check_choice("optimizer", optimizer, OPTIMIZERS)
    check_choice("method", method, _METHODS)
    check_number("factor", factor, 0, 1e6, above=True)
    check_number("latency_ms", latency_ms, 0, 1e6)
    check_number("overlap", overlap, 0, 1)
    if level is not None:
        check_share("level", level)
    kept = _kept(layers, without)
    share = -(batch_size // -replicas)
    if method == "ring":
        if last_model is not None:
            raise ConfigError("last_model: only the method 'last-layer' has one")
        rows = _predicted(models, kept, share, optimizer, place, level, without, factor)
    else:
        last = models
        if last_model is not None:  # activations may be separate layers
            last = {kind: model for kind, model in models.items() if kind == "elementwise"}
            last[str(getattr(last_model, "kind", kept[-1].kind))] = last_model
        rows = _predicted(models, kept[:-1], share, optimizer, place, level, without, factor)
        rows += _predicted(last, kept[-1:], batch_size, optimizer, place, level, without, 1.0)
    if replicas > 1 and optimizer != "None":
        if link_gbps is None:
            raise ConfigError("link_gbps: expected the bandwidth between the replicas, got None")
        check_number("link_gbps", link_gbps, 0, math.inf, above=True)
        link = ring_ms(gradient_bytes(kept), replicas, link_gbps, latency_ms)
        shown = exposed_ms(link, sum(row.ms for row in rows), overlap)
        ends = shown if level is not None else math.nan
        rows.append(LayerTime("all-reduce", "link", shown, ends, ends, 0.0))
    total = sum(row.ms for row in rows)
    return Estimate(
        total,
        (sum(row.low for row in rows), sum(row.high for row in rows)),
        [row._replace(share=row.ms / total) for row in rows],
        batch_size,
        replicas,
        name,
        optimizer,
        level,
    )


def _known_to(model: Any) -> Sequence[Device]:
    found: Sequence[Device] = getattr(model, "known_devices", ())
    return found


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


def _predicted(
    models: Mapping[Any, Any],
    layers: Sequence[Layer],
    batch_size: int,
    optimizer: str,
    place: Callable[[Any], Device],
    level: float | None,
    without: Collection[str],
    factor: float,
) -> list[LayerTime]:
    """Return the times of layers, divided by the factor."""
    parts = [part for layer in layers for part in in_kinds(layer, models)]
    parts = [part for part in parts if not {part.name, part.kind} & set(without)]
    kinds = list(dict.fromkeys(str(part.kind) for part in parts))
    if missing := [kind for kind in kinds if kind not in models]:
        found = "; ".join(f"{kind}: {few([p.name for p in parts if p.kind == kind])}" for kind in missing)
        raise ConfigError(
            f"models: none for layers of kind {found}. Add a model of that kind, or leave it out by without="
        )
    times, ends = np.empty(len(parts)), np.full((len(parts), 2), math.nan)
    beyond = np.zeros(len(parts), bool)
    for kind in kinds:
        rows = [i for i, part in enumerate(parts) if part.kind == kind]
        table = table_of(kind, [parts[i] for i in rows], batch_size, optimizer, place(models[kind]))
        try:
            times[rows] = _finite(kind, models[kind].predict(table), (len(rows),))
            if level is not None:
                ends[rows] = _finite(kind, models[kind].predict_interval(table, level), (len(rows), 2))
            if hasattr(models[kind], "out_of_range"):
                beyond[rows] = models[kind].out_of_range(table)
        except Error as error:
            raise type(error)(f"model of kind {kind!r}: {error}") from None
    both = zip(parts, times / factor, ends / factor, beyond, strict=True)
    return [
        LayerTime(part.name, str(part.kind), float(ms), float(end[0]), float(end[1]), 0.0, bool(out))
        for part, ms, end, out in both
    ]


def _finite(kind: str, found: Any, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(found, np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ConfigError(f"expected finite milliseconds of shape {shape}, found shape {array.shape}")
    return array
