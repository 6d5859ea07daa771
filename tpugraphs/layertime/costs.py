"""Costs of layers: a sum of terms at peak rates, each times a factor that is fitted per device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tpugraphs import _core
from tpugraphs.errors import DataError
from tpugraphs.layertime.devices import FIGURES, Device
from tpugraphs.layertime.files import File
from tpugraphs.layertime.kinds import Floats, Kind, Work
from tpugraphs.layertime.table import LayerTable, one_layer

Scales = tuple[float, float]  # factors of the fixed overhead and of the work-dependent time

_TILES = (64, 128)  # rows and columns that products are padded to
_WAVE = (128, 64)  # rows and columns that a unit computes at a time
_FIXED = 2  # terms of the fixed overhead: the first two
_ALIKE = 1.0  # distance of two devices' log figures at which one predicts the other poorly
_OTHERS = 0.01  # weight of other devices' layers next to a device's own, for terms that its layers lack
_ROUNDS = 15
_SWEEPS = 400
_BINS = 12  # of log time, weighted alike
_MOST_FITTED = 4000  # layers of a device, evenly spaced
_LEAST_MS = 1e-6
_MOST_COST = 1e100  # of a term, in ms
_FIGURES = [figure for figure in FIGURES if figure != "memory_gb"]


def cost_terms(table: LayerTable) -> Floats:
    """Return milliseconds of every layer by term (n, T), at the peak rates of its device.

    The first two are 1: per layer, and per trained layer. The others are operations, the roofline (operations
    or bytes, whichever is longer), bytes, bytes beyond the last-level cache, operations of products padded to
    tiles, full waves of tiles, and the bytes of the optimizer. Bytes count at the bandwidth, and again at the
    rate of operations, which bounds short loops. All terms but the optimizer's come twice: for all layers,
    and for trained layers alone.
    """
    work = table.kind.work(table.columns)
    operations = 1 / (table.per_device("peak_gflops") * 1e6)
    moving = 1 / (table.per_device("bandwidth_gbps") * 1e6)
    moved = work.moved - work.update
    terms = [
        np.ones(len(table)),
        work.flops * operations,
        np.maximum(work.flops * operations, work.moved * moving),
        moved * moving,
        moved * operations,
        np.maximum(moved - table.per_device("cache_mb") * 1e6, 0) * moving,
        *(product * operations for product in _padded(work, table.per_device("units"))),
    ]
    trained = work.passes > 1
    both = [column for term in terms for column in (term, term * trained)]
    return np.stack([*both, work.update * moving, work.update * operations], 1)


def _padded(work: Work, units: Floats) -> list[Floats]:
    """Return the operations of products padded to tiles, and to waves of tiles on all units."""
    if work.product is None:
        return []
    rows, cols, depth, count = work.product
    each = 2 * depth * work.passes
    padded = [each * np.ceil(rows / tile) * np.ceil(cols / tile) * count * tile**2 for tile in _TILES]
    high, wide = _WAVE
    waves = np.ceil(np.ceil(rows / high) * np.ceil(cols / wide) * count / units)
    return [*padded, each * waves * units * high * wide]


def fitted(terms: Floats, ms: Floats) -> tuple[Floats, Floats, Floats]:
    """Fit ms = terms @ c, c >= 0, by least absolute relative errors (reweighted least squares).

    Short and long layers weigh alike: the weight of a layer's squared error falls with the root of the number
    of layers in its bin of log time.

    Returns
    -------
    found : (T,) float64
    products : (T, T) float64
    moments : (T,) float64
        Normal equations of the weighted least squares; those of several devices may be added.
    """
    logarithm = np.log(ms)
    edges = np.linspace(logarithm.min(), logarithm.max(), _BINS + 1)[1:-1]
    place = np.searchsorted(edges, logarithm)
    weights = np.bincount(place, minlength=_BINS)[place] ** -0.25 / ms
    weights /= np.sqrt(np.mean((weights * ms) ** 2))
    scaled = weights
    for _ in range(_ROUNDS):
        rows = terms * scaled[:, None]
        # einsum, not BLAS: the same bits with any number of threads
        products = np.einsum("ni,nj->ij", rows, rows) / ms.size
        moments = np.einsum("ni,n->i", rows, ms * scaled) / ms.size
        found = _core.nonnegative(products, moments, _SWEEPS)
        error = np.abs(terms @ found - ms) / ms
        scaled = weights / np.sqrt(np.maximum(error, 1e-2))
    return found, products, moments


def fitted_scales(fixed: Floats, working: Floats, ms: Floats) -> Scales:
    """Fit ms = a fixed + b working, a and b > 0."""
    terms = np.stack([fixed, working], 1)
    size = np.maximum(terms.max(0), _LEAST_MS)
    a, b = np.maximum(fitted(terms / size, ms)[0] / size, 1e-3)
    return float(a), float(b)


class Costs:
    """Factors of the terms, per device: time over time at peak rates.

    An unseen device has the factors that fit the layers of all others, weighted by how alike the figures are.
    """

    def __init__(self, size: Floats, fits: Mapping[Device, tuple[Floats, Floats]]) -> None:
        self.size, self._fits = size, fits
        self.names = tuple(device.name for device in fits)
        self._factors: dict[tuple[Device, str | None], Floats] = {}

    @classmethod
    def fit(cls, table: LayerTable) -> Costs:
        """Learn from measured layers."""
        terms = cost_terms(table)
        size = np.maximum(terms.max(0), _LEAST_MS)
        fits = {}
        for i in np.unique(table.device):
            rows = np.flatnonzero(table.device == i)
            rows = rows[evenly(rows.size, _MOST_FITTED)]
            fits[table.devices[i]] = fitted(terms[rows] / size, table.times[rows])[1:]
        return cls(size, fits)

    def factors(self, device: Device, without: str | None = None) -> Floats:
        """Return the factor of every term (T,) on a device; `without`: fit without that training device."""
        if (device, without) not in self._factors:
            self._factors[device, without] = self._solved(device, without)
        return self._factors[device, without]

    def _solved(self, device: Device, without: str | None) -> Floats:
        used = {one: fit for one, fit in self._fits.items() if one.name != without}
        apart = np.array([_apart(one, device) for one in used])
        weights = np.exp(-(apart - apart.min()) / (2 * _ALIKE**2))
        own = [one.name == device.name for one in used]
        if any(own):
            weights = np.where(own, 1.0, _OTHERS * weights)
        weighted = [(weight * a, weight * b) for weight, (a, b) in zip(weights, used.values(), strict=True)]
        products, moments = (np.sum(part, 0) for part in zip(*weighted, strict=True))
        found: Floats = _core.nonnegative(products, moments, _SWEEPS) / self.size
        if not (found < _MOST_COST).all():  # also of NaN
            wrong = "the model has no finite costs; its file is damaged: fit it again"
            raise DataError(f"device {device.name!r}: {wrong}")
        return found

    def parts(self, table: LayerTable, without: str | None = None) -> tuple[Floats, Floats]:
        """Return fixed overhead and work-dependent time in ms: (n,) each, their sum at least 1e-6."""
        terms = self._terms(table, without)
        fixed = terms[:, :_FIXED].sum(1)
        return fixed, np.maximum(terms[:, _FIXED:].sum(1), _LEAST_MS - fixed)

    def shares(self, table: LayerTable, without: str | None = None) -> Floats:
        """Return the share of every term in the time (n, T)."""
        terms = self._terms(table, without)
        found: Floats = terms / np.maximum(terms.sum(1, keepdims=True), _LEAST_MS)
        return found

    def _terms(self, table: LayerTable, without: str | None) -> Floats:
        factors: Floats = np.array([self.factors(device, without) for device in table.devices])
        return cost_terms(table) * factors[table.device]

    def write(self, file: File) -> None:
        """Add the fits to a file."""
        products, moments = map(np.array, zip(*self._fits.values(), strict=True))
        file.put(size=self.size, products=products, moments=moments)

    @classmethod
    def read(cls, file: File, devices: Sequence[Device], kind: Kind) -> Costs:
        """Restore what `write` added, for these devices."""
        count, terms = len(devices), cost_terms(one_layer(kind)).shape[1]
        products, moments = file.get("products", count, terms, terms), file.get("moments", count, terms)
        size = file.get("size", terms)
        file.check((size > 0).all(), "size", "numbers above 0", size.min())
        return cls(size, dict(zip(devices, zip(products, moments, strict=True), strict=True)))


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of `count` numbers, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _apart(one: Device, other: Device) -> float:
    """Return the squared distance of the log figures of two devices."""
    return float(sum(math.log(getattr(one, name) / getattr(other, name)) ** 2 for name in _FIGURES))
