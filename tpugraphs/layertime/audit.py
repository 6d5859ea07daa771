"""Audit of measured layers: shifts of the level, repeated and impossible layers, by device."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpugraphs.errors import ConfigError
from tpugraphs.layertime.costs import Costs
from tpugraphs.layertime.devices import Device
from tpugraphs.layertime.features import roofline_ms
from tpugraphs.layertime.kinds import Floats
from tpugraphs.layertime.table import Layers, LayerTable, read_table
from tpugraphs.system import counted, tables

_STEP = math.log(1.5)  # smallest change of the log level between two stretches
_CLEAR = 2.5  # threshold of |CUSUM| / sqrt(n): chance exceeds it once in 100,000 tables
_LEAST = 30  # fewest rows of a stretch
_LONG = 0.2  # share of the rows that the rate of a stretch is taken from: those with most work


@dataclass(frozen=True)
class Stretch:
    """Rows of a device that were measured at one level.

    Attributes
    ----------
    first, last : int
        Rows of the table, both included; rows of other devices may lie between.
    layers : int
    level : float
        Median of measured / fitted over all of the device's rows.
    gflops : float
        Median rate of the layers with most work.
    """

    first: int
    last: int
    layers: int
    level: float
    gflops: float


@dataclass(frozen=True)
class DeviceAudit:
    """Rows of one device.

    Attributes
    ----------
    device : str
    layers : int
    stretches : tuple of Stretch
        One, unless the level shifts.
    impossible : int
        Layers faster than the peak rates of the device.
    repeated : int
        Rows that measure a layer again.
    spread : float
        Median of largest / smallest time of the same layer, 1 where none is repeated.
    """

    device: str
    layers: int
    stretches: tuple[Stretch, ...]
    impossible: int
    repeated: int
    spread: float

    @property
    def shifted(self) -> bool:
        """Whether the level shifts."""
        return len(self.stretches) > 1


@dataclass(frozen=True)
class LayerAudit:
    """Findings of `audit`.

    Attributes
    ----------
    kind : str
    devices : tuple of DeviceAudit
    """

    kind: str
    devices: tuple[DeviceAudit, ...]

    @property
    def shifted(self) -> tuple[str, ...]:
        """Names of devices whose level shifts."""
        return tuple(one.device for one in self.devices if one.shifted)

    def __str__(self) -> str:
        """Return a line per device, and one per stretch where the level shifts."""
        lines = []
        for one in self.devices:
            notes = [counted(one.layers, "layer")]
            if one.repeated:
                notes.append(f"{one.repeated:,} repeated, times up to {one.spread:.2f}x apart in the median")
            if one.impossible:
                notes.append(f"{one.impossible:,} faster than the device's peak")
            if one.shifted:
                notes.append("the level shifts:")
            lines.append(f"{one.device}: {', '.join(notes)}")
            lines += [
                f"  rows {part.first:,} to {part.last:,}: {part.level:.2f}x as long as fitted, "
                f"{part.gflops:,.0f} GFLOP/s where most is to do ({counted(part.layers, 'layer')})"
                for part in one.stretches
                if one.shifted
            ]
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per stretch of a device: one, unless its level shifts.

        Raises
        ------
        ConfigError
            pandas is not installed.
        """
        about = ("device", "layers", "impossible", "repeated", "spread", "shifted")
        return tables.frame(
            {name: getattr(one, name) for name in about}
            | {f"stretch_{name}": value for name, value in asdict(part).items()}
            for one in self.devices
            for part in one.stretches
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain dicts, lists, numbers and words."""
        return asdict(self)


def audit(table: Layers, kind: str | None = None, device: str | Device | None = None) -> LayerAudit:
    """Look for suspicious measurements of layers.

    Throttling, or a change of settings, shows as a step of the level along a device's rows. The level is
    measured time / time by a linear roofline that is fitted to all of the device's rows. A step is placed
    where the cumulative sum of signs is farthest from 0 (CUSUM; Page 1954), and counts from a factor of 1.5.

    Parameters
    ----------
    table : path, dict of arrays, DataFrame or LayerTable
        In the order of measurement.
    kind : str, optional
        Kind of the layers; required unless `table` is a `LayerTable`.
    device : name or Device, optional

    Returns
    -------
    LayerAudit
        What was found, device by device.

    Raises
    ------
    ConfigError, DataError
        As `read_table`.
    """
    if kind is None:
        if not isinstance(table, LayerTable):
            raise ConfigError("kind: say which, for a table that does not know its kind")
        kind = table.kind.name
    layers = read_table(table, kind, device)
    work = layers.kind.work(layers.columns)
    found = []
    for name, mask in layers.by_device():
        rows = np.flatnonzero(mask)
        own = layers.take(rows)
        ms, (fixed, working) = own.times, Costs.fit(own).parts(own)
        level, rate = np.log(ms / (fixed + working)), work.flops[rows] / ms * 1e-6
        stretches = []
        for part in _stretches(level, np.arange(rows.size)):
            longest = np.argsort(-working[part], kind="stable")[: max(1, int(_LONG * part.size))]
            about = np.exp(np.median(level[part])), np.median(rate[part][longest])
            stretches.append(Stretch(int(rows[part[0]]), int(rows[part[-1]]), part.size, *map(float, about)))
        impossible = int((ms < roofline_ms(own)).sum())
        found.append(DeviceAudit(name, rows.size, tuple(stretches), impossible, *_repeated(own)))
    return LayerAudit(layers.kind.name, tuple(found))


def _stretches(level: Floats, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Divide rows (n,) where the level steps, recursively."""
    sums = np.cumsum(np.sign(level[rows] - np.median(level[rows])))
    place = int(np.argmax(np.abs(sums))) + 1
    left, right = rows[:place], rows[place:]
    clear = min(left.size, right.size) >= _LEAST and abs(sums[place - 1]) >= _CLEAR * np.sqrt(rows.size)
    if clear and abs(np.median(level[left]) - np.median(level[right])) >= _STEP:
        return [*_stretches(level, left), *_stretches(level, right)]
    return [rows]


def _repeated(own: LayerTable) -> tuple[int, float]:
    """Return how many rows measure a layer again, and the median of largest / smallest time of a layer."""
    codes = [np.unique(values, return_inverse=True)[1] for values in own.columns.values()]
    _, layer, count = np.unique(np.stack(codes, 1), axis=0, return_inverse=True, return_counts=True)
    order = np.lexsort((own.times, layer.ravel()))
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    times = own.times[order]
    ratios = (times[first + count - 1] / times[first])[count > 1]
    return int((count - 1).sum()), float(np.median(ratios)) if ratios.size else 1.0
