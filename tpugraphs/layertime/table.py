"""Tables of measured layers, one row per layer and device, and their splits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs.data.frames import Table
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.devices import DEVICES, FIGURES, LIMITS, Device, get_device
from tpugraphs.layertime.kinds import KINDS, Column, Kind
from tpugraphs.system import check_choice, check_share, counted, csv_columns, name_of

TIMES = ("time_median_ms", "ms")  # columns that hold the time, the first found
_DESCRIBED_BY = ("peak_gflops", "bandwidth_gbps")  # the other figures may be columns of something else
_NONE = ("None", "", "nan", "<NA>")  # pandas reads that word as NaN, and writes None as an empty text


@dataclass(frozen=True)
class LayerTable:
    """Layers of one kind and their devices, with measured times if there are any.

    Attributes
    ----------
    kind : Kind
    columns : dict of str to (n,) array
        Whole numbers as int64, words as str.
    devices : tuple of Device
        Every device once.
    device : (n,) int64
        Index of a row's device in `devices`.
    ms : (n,) float64 or None
        Measured times in milliseconds.
    """

    kind: Kind
    columns: dict[str, NDArray[Any]]
    devices: tuple[Device, ...]
    device: NDArray[np.int64]
    ms: NDArray[np.float64] | None

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.device.size

    @property
    def times(self) -> NDArray[np.float64]:
        """Measured times in milliseconds (n,).

        Raises
        ------
        ConfigError
            The table has none.
        """
        if self.ms is None:
            raise ConfigError("table: expected measured times, this one has none")
        return self.ms

    def take(self, rows: ArrayLike | slice) -> LayerTable:
        """Return some of the rows, by numbers, by a mask or by a slice.

        Parameters
        ----------
        rows : slice, (m,) int or (n,) bool
            Which rows, in which order.

        Returns
        -------
        LayerTable
            Of the same kind.
        """
        if not isinstance(rows, slice):
            rows = np.atleast_1d(rows) if np.size(rows) else slice(0)  # an empty list has no type
        columns = {name: values[rows] for name, values in self.columns.items()}
        ms = None if self.ms is None else self.ms[rows]
        return replace(self, columns=columns, device=self.device[rows], ms=ms)

    def per_device(self, name: str) -> NDArray[np.float64]:
        """Return a figure of every row's device, such as ``"bandwidth_gbps"``: (n,).

        Parameters
        ----------
        name : str
            A field of `Device`.

        Returns
        -------
        (n,) float64
            In the unit of the field.
        """
        return np.array([getattr(one, name) for one in self.devices], np.float64)[self.device]

    def by_device(self) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yield name and mask (n,) of the rows of every device that has rows."""
        for i, device in enumerate(self.devices):
            rows = self.device == i
            if rows.any():
                yield device.name, rows

    def per_device_name(self) -> NDArray[np.str_]:
        """Return the name of every row's device: (n,)."""
        return np.array([one.name for one in self.devices])[self.device]


_Source = str | os.PathLike[str] | Table | LayerTable
Layers = _Source | Sequence[_Source]
"""Measured layers: the path of a CSV file, columns by name, a table, or several of these."""
Where = str | Device | Sequence[str] | None
"""A device by its name or itself, a name per layer, or None: the layers say it."""


def read_table(
    source: Layers, kind: str, device: Where = None, timed: bool = True, known: Sequence[Device] = ()
) -> LayerTable:
    """Read layers of one kind.

    Parameters
    ----------
    source : path, open file, dict of arrays, DataFrame, LayerTable, or a list of them
        A path names a CSV file, which may be compressed (``.gz``). A file that is open gives bytes of CSV.
    kind : str
        One of `KINDS`.
    device : name, Device or (n,) names, optional
        Where the layers run. By default, the column ``device`` or the end of the file's name says it:
        ``conv2d_K40.csv.gz``. A table with `FIGURES` as columns describes its own devices, under any names.
    timed : bool
        Whether times are required, in the column ``time_median_ms`` or ``ms``.
    known : sequence of Device
        Devices that names may refer to besides `DEVICES`, such as those of a model.

    Returns
    -------
    LayerTable
        All rows in their order.

    Raises
    ------
    ConfigError
        No such kind or device; a `LayerTable` of another kind, without rows, or without the times that are
        needed.
    DataError
        A column is missing or has a wrong value, a layer has no output, or two rows give
        a device different figures; the message names file, column and row.
    """
    check_choice("kind", kind, KINDS)
    if isinstance(source, LayerTable):
        if source.kind.name != kind:
            raise ConfigError(f"the table holds layers of kind {source.kind.name!r}, expected {kind!r}")
        if not len(source):
            raise ConfigError("table: expected at least one layer, got none")
        if timed and source.ms is None:
            raise ConfigError("table: expected measured times, this one has none")
        return source
    if isinstance(source, (list, tuple)):
        if not source:
            raise ConfigError("table: expected at least one file or table, got an empty list")
        return join([read_table(one, kind, device, timed, known) for one in source])
    columns, named = KINDS[kind].columns, None
    if isinstance(source, (str, os.PathLike)):
        source = Path(source)
        stem = source.name.partition(".")[0]
        named = stem.removeprefix(f"{kind}_") if stem.startswith(f"{kind}_") else None
    if isinstance(source, Path) or hasattr(source, "read"):
        wanted = {name for column in columns for name in (column.name, *column.aliases)}
        found = Columns(csv_columns(source, {*wanted, *TIMES, "device", *FIGURES}), name_of(source))
    elif hasattr(source, "keys"):
        found = Columns({str(name): source[name] for name in source.keys()}, "table")
    else:
        raise ConfigError(f"table: expected a path, dict of arrays or DataFrame, got {type(source).__name__}")
    layers = {column.name: found.of(column) for column in columns}
    found.check_outputs(KINDS[kind], layers)
    ms = found.times() if timed else None
    if device is None and any(name in found.values for name in _DESCRIBED_BY):
        return LayerTable(KINDS[kind], layers, *found.described_devices(), ms)
    names = found.values.get("device", named) if device is None else device
    if names is None:
        raise ConfigError(f"{found.where}: no column 'device'; say it by device=")
    return LayerTable(KINDS[kind], layers, *found.devices(names, known), ms)


def one_layer(kind: Kind) -> LayerTable:
    """Return one dummy row, used to count features."""
    columns = {column.name: np.array([column.values[0] if column.values else 1]) for column in kind.columns}
    return LayerTable(kind, columns, tuple(DEVICES.values())[:1], np.zeros(1, np.int64), None)


def join(tables: Sequence[LayerTable]) -> LayerTable:
    """Join tables of one kind, in their order."""
    devices = tuple(dict.fromkeys(device for table in tables for device in table.devices))
    names = [device.name for device in devices]
    if again := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ConfigError(f"device {again[0]!r}: two tables give it different figures")
    places = [np.array([devices.index(d) for d in table.devices], np.int64)[table.device] for table in tables]
    ms = [table.ms for table in tables if table.ms is not None]
    times = np.concatenate(ms) if len(ms) == len(tables) else None
    columns = {name: np.concatenate([table.columns[name] for table in tables]) for name in tables[0].columns}
    return LayerTable(tables[0].kind, columns, devices, np.concatenate(places), times)


class Columns:
    """Columns of a table by name, of one length. Errors name the table, the column and the row.

    Parameters
    ----------
    values : dict of str to (n,) values
    where : str
        What errors call the table.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values, self.where = values, where
        for name, column in values.items():
            if isinstance(column, str) or not hasattr(column, "__len__") or getattr(column, "ndim", 1) != 1:
                raise DataError(f"{where}: column {name!r}: expected one value per row, found {column!r:.60}")
        self.rows = max(map(len, values.values()), default=0)
        for name, column in values.items():
            if len(column) != self.rows:
                expected = f"{counted(self.rows, 'row')} as in the others"
                raise DataError(f"{where}: column {name!r}: expected {expected}, found {len(column)}")
        if self.rows == 0:
            raise DataError(f"{where}: no rows")

    def error(self, name: str, row: int, expected: str, found: str) -> DataError:
        """Return an error about a row."""
        return DataError(f"{self.where}: column {name!r}, row {row}: expected {expected}, found {found:.80}")

    def of(self, column: Column) -> NDArray[Any]:
        """Return a column of a kind of layers."""
        name = self._first_of(column.name, *column.aliases)
        if name is None:
            if column.default is None:
                raise DataError(f"{self.where}: no column {column.name!r}; found {', '.join(self.values)}")
            return np.full(self.rows, column.default)
        if column.values:
            return self._words(name, column)
        expected = f"a whole number from {column.low} to {column.high}"
        return self._numbers(name, column.low, column.high, expected, whole=True).astype(np.int64)

    def _first_of(self, *names: str) -> str | None:
        return next((name for name in names if name in self.values), None)

    def _words(self, name: str, column: Column) -> NDArray[np.str_]:
        missing = _NONE if "None" in column.values else ()
        words = ["None" if str(value) in missing else str(value) for value in self.values[name]]
        for row, word in enumerate(words):
            if word not in column.values:
                raise self.error(name, row, f"one of {', '.join(column.values)}", repr(word))
        return np.array(words, np.array(column.values).dtype)

    def _numbers(
        self, name: str, low: float, high: float, expected: str, whole: bool = False
    ) -> NDArray[np.float64]:
        try:
            found = np.asarray(self.values[name], np.float64)
        except (TypeError, ValueError, OverflowError):
            found = np.empty((0, 0))
        if found.ndim != 1:
            self._refuse_first(name)
        wrong = ~((found >= low) & (found <= high))
        if whole:
            wrong |= found != np.floor(found)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self.error(name, row, expected, str(list(self.values[name])[row]))
        return found

    def _refuse_first(self, name: str) -> NoReturn:
        """Raise an error about the first value that cannot be read as a number."""
        for row, value in enumerate(self.values[name]):
            try:
                float(value)
            except (OverflowError, TypeError, ValueError) as error:
                found = "one beyond all ranges" if isinstance(error, OverflowError) else repr(value)
                raise self.error(name, row, "a number", found) from None
        raise DataError(f"{self.where}: column {name!r}: expected one number per row")

    def _positive(self, name: str, what: str) -> NDArray[np.float64]:
        low, high = LIMITS
        return self._numbers(name, low, high, f"{what} above 0, from {low:g} to {high:g}")

    def times(self) -> NDArray[np.float64]:
        """Return the measured times in milliseconds (n,)."""
        name = self._first_of(*TIMES)
        if name is None:
            expected = f"one of {', '.join(TIMES)}, in milliseconds"
            raise DataError(f"{self.where}: no column of times; expected {expected}")
        return self._positive(name, "milliseconds")

    def check_outputs(self, kind: Kind, layers: Mapping[str, NDArray[Any]]) -> None:
        """Raise DataError for a layer without outputs: its kernel is larger than what it slides over."""
        wrong = np.flatnonzero(~(kind.work(layers).written > 0))
        if wrong.size:
            layer = ", ".join(f"{name} {values[wrong[0]]}" for name, values in layers.items())
            expected = f"expected a layer with outputs, found none of {layer}"
            raise DataError(f"{self.where}: row {wrong[0]}: {expected}")

    def devices(self, names: Any, known: Sequence[Device]) -> tuple[tuple[Device, ...], NDArray[np.int64]]:
        """Return the devices of these names, or of one name, and the index of every row's device: (n,)."""
        if isinstance(names, (str, Device)):
            return (get_device(names, known),), np.zeros(self.rows, np.int64)
        words, _, places = _distinct(names)
        if places.size != self.rows:
            expected = counted(self.rows, "name")
            raise DataError(f"{self.where}: device: expected {expected}, found {places.size}")
        found = [get_device(word, known) for word in words]
        devices = tuple(dict.fromkeys(found))  # one may go by several names
        return devices, np.array([devices.index(one) for one in found], np.int64)[places]

    def described_devices(self) -> tuple[tuple[Device, ...], NDArray[np.int64]]:
        """Return the devices that columns describe, and the index of every row's device: (n,)."""
        names = ("device", *FIGURES)
        if missing := [name for name in names if name not in self.values]:
            todo = f"a table that describes its devices has {', '.join(names)}"
            raise DataError(f"{self.where}: no column {missing[0]!r}; {todo}")
        figures = {name: self._positive(name, "a number") for name in FIGURES}
        figures["units"] = self.of(Column("units", 1 << 30))
        words, first, places = _distinct(self.values["device"])
        for name, values in figures.items():
            other = np.flatnonzero(values != values[first][places])
            if other.size:
                row, before = other[0], first[places[other[0]]]
                expected = f"{values[before]:g} as in row {before} of the same device {words[places[row]]!r}"
                raise self.error(name, row, expected, f"{values[row]:g}")
        devices = []
        for word, row in zip(words, first, strict=True):
            try:
                devices.append(Device(word, **{name: values[row].item() for name, values in figures.items()}))
            except ConfigError as error:
                raise DataError(f"{self.where}: column 'device', row {row}: {error}") from None
        return tuple(devices), places


def _distinct(names: Any) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct names, sorted, the first row of each, and the index of every row's name: (n,)."""
    listed = [str(name) for name in (names.astype(str) if isinstance(names, np.ndarray) else names)]
    words, first, places = np.unique(np.array(listed, object), return_index=True, return_inverse=True)
    return words.tolist(), first, places


def unseen_layers(table: LayerTable, share: float = 0.1, seed: int = 0) -> tuple[LayerTable, LayerTable]:
    """Divide the layers of every device at random.

    Parameters
    ----------
    table : LayerTable
    share : float
        Share of held-out layers, above 0 and below 1. Both parts have at least one layer of each device.
    seed : int

    Returns
    -------
    known, unseen : LayerTable

    Raises
    ------
    ConfigError
        A wrong share, or a device of a single layer.
    """
    check_share("share", share)
    rng, held_out = np.random.default_rng(seed), np.zeros(len(table), bool)
    for name, rows in table.by_device():
        own = rng.permutation(np.flatnonzero(rows))
        if own.size < 2:
            raise ConfigError(f"device {name!r}: expected at least two layers to divide, got {own.size}")
        held_out[own[: min(own.size - 1, max(1, round(share * own.size)))]] = True
    return table.take(~held_out), table.take(held_out)


def unseen_devices(table: LayerTable) -> Iterator[tuple[str, LayerTable, LayerTable]]:
    """Leave out every device in turn.

    Parameters
    ----------
    table : LayerTable
        Layers that ran on several devices.

    Yields
    ------
    device : str
    known, unseen : LayerTable
        Layers of the other devices, and of this one.

    Raises
    ------
    ConfigError
        Layers of one device only.
    """
    found = dict(table.by_device())
    if len(found) < 2:
        raise ConfigError(f"table: expected layers of at least two devices, got {', '.join(found) or 'none'}")
    for name, rows in found.items():
        yield name, table.take(~rows), table.take(rows)
