"""Tables of measured layers: one row per layer and device, from CSV files, dicts of arrays or DataFrames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpugraphs.data.frames import Table
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.layertime.devices import DEVICES, FIGURES, LIMITS, Device, get_device
from tpugraphs.layertime.kinds import KINDS, Choice, Kind, Size
from tpugraphs.system.files import name_of
from tpugraphs.system.texts import csv_columns
from tpugraphs.system.words import counted

__all__ = ["LayerTable", "described_devices", "one_layer", "read_table"]

TIMES = ("time_median_ms", "ms")  # columns that hold the time, the first found
_DESCRIBED_BY = ("peak_gflops", "bandwidth_gbps")  # the other figures may be columns of something else
_NONE = ("None", "", "nan", "<NA>")  # pandas reads that word as NaN, and writes None as an empty text
_LEAST, _MOST = LIMITS  # of times in milliseconds, too


@dataclass(frozen=True)
class LayerTable:
    """Layers of one kind, on the devices they ran or shall run on.

    Attributes
    ----------
    kind : Kind
    columns : dict of str to (n,) array
        Whole numbers as int64, words as str.
    devices : tuple of Device
        Every device once.
    device : (n,) int64
        Place of a row's device in `devices`.
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
        chosen = rows if isinstance(rows, slice) else np.atleast_1d(rows)
        if not isinstance(chosen, slice) and not chosen.size:
            chosen = slice(0)  # an empty list has no type
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return LayerTable(
            self.kind,
            columns,
            self.devices,
            self.device[chosen],
            None if self.ms is None else self.ms[chosen],
        )

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


def read_table(
    source: Layers,
    kind: str,
    device: str | Device | Sequence[str] | None = None,
    timed: bool = True,
    known: Sequence[Device] = (),
) -> LayerTable:
    """Read layers of one kind.

    Parameters
    ----------
    source : path, open file, dict of arrays, DataFrame, LayerTable, or a list of them
        A path names a CSV file, which may be compressed (``.gz``). A file that is open gives bytes of CSV.
    kind : str
        One of `KINDS`.
    device : name, Device or (n,) names, optional
        Where the layers run. Otherwise the column ``device`` says it, or the end of the file's name:
        ``conv2d_K40.csv.gz``. A table that has `FIGURES` as columns describes its devices by them: of any
        name, one or several.
    timed : bool
        Whether times are needed; they stand in ``time_median_ms`` or ``ms``.
    known : sequence of Device
        Devices that names may stand for, next to `DEVICES`: those of a model.

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
        A column is missing or holds something else than it should, a layer has no output, or two rows give
        a device different figures; the message names file, column and row.
    """
    if kind not in KINDS:
        raise ConfigError(f"kind {kind!r}: unknown; expected one of {', '.join(KINDS)}")
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
    if hasattr(source, "read"):
        return _table(_read_csv(source, KINDS[kind]), KINDS[kind], name_of(source), device, timed, known)
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return _table(
            _read_csv(path, KINDS[kind]), KINDS[kind], str(path), device, timed, known, _named(path, kind)
        )
    return _table(_given(source), KINDS[kind], "table", device, timed, known)


def one_layer(kind: Kind) -> LayerTable:
    """Return the least layer of a kind on any device, to count what is made of layers."""
    columns: dict[str, NDArray[Any]] = {
        column.name: np.array([column.values[0] if isinstance(column, Choice) else 1])
        for column in kind.columns
    }
    return LayerTable(kind, columns, tuple(DEVICES.values())[:1], np.zeros(1, np.int64), None)


def join(tables: Sequence[LayerTable]) -> LayerTable:
    """Join tables of one kind, in their order."""
    devices = tuple(dict.fromkeys(device for table in tables for device in table.devices))
    names = [device.name for device in devices]
    if again := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ConfigError(f"device {again[0]!r}: two tables give it different figures")
    place = {device: i for i, device in enumerate(devices)}
    numbers = [np.array([place[d] for d in table.devices], np.int64)[table.device] for table in tables]
    ms = [table.ms for table in tables if table.ms is not None]
    return LayerTable(
        tables[0].kind,
        {name: np.concatenate([table.columns[name] for table in tables]) for name in tables[0].columns},
        devices,
        np.concatenate(numbers),
        np.concatenate(ms) if len(ms) == len(tables) else None,
    )


def _named(path: Path, kind: str) -> str | None:
    """Return the device that a file's name ends with, None if it does not begin with the kind."""
    name = path.name.partition(".")[0]
    return name[len(kind) + 1 :] if name.startswith(f"{kind}_") else None


def _read_csv(source: Any, kind: Kind) -> dict[str, list[str]]:
    """Read the columns of a CSV file that layers of a kind can have."""
    own = [name for column in kind.columns for name in (column.name, *column.aliases)]
    return csv_columns(source, {*own, *TIMES, "device", *FIGURES})


def _given(source: Any) -> dict[str, Any]:
    """Return the columns of a dict or DataFrame."""
    names = source.keys() if hasattr(source, "keys") else None
    if names is None:
        raise ConfigError(f"table: expected a path, dict of arrays or DataFrame, got {type(source).__name__}")
    return {str(name): source[name] for name in names}


def _table(
    found: Mapping[str, Any],
    kind: Kind,
    where: str,
    device: Any,
    timed: bool,
    known: Sequence[Device],
    named: str | None = None,
) -> LayerTable:
    lengths = {name: _length(values, name, where) for name, values in found.items()}
    count = max(lengths.values(), default=0)
    for name, length in lengths.items():
        if length != count:
            raise DataError(
                f"{where}: column {name!r}: expected {counted(count, 'row')} as in the others, found {length}"
            )
    if count == 0:
        raise DataError(f"{where}: no rows")
    columns = {column.name: _column(found, column, count, where) for column in kind.columns}
    _check_possible(kind, columns, where)
    times = next((name for name in TIMES if name in found), None) if timed else None
    if times is None and timed:
        raise DataError(f"{where}: no column of times; expected one of {', '.join(TIMES)}, in milliseconds")
    ms = None if times is None else _positive(found[times], times, where, "milliseconds")
    if device is None and any(name in found for name in _DESCRIBED_BY):
        return LayerTable(kind, columns, *described_devices(found, where), ms)
    names = found.get("device", named) if device is None else device
    if names is None:
        raise ConfigError(f"{where}: no column 'device'; say it by device=")
    return LayerTable(kind, columns, *_devices(names, count, where, known), ms)


def _length(values: Any, name: str, where: str) -> int:
    if isinstance(values, str) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) != 1:
        raise DataError(f"{where}: column {name!r}: expected one value per row, found {values!r:.60}")
    return len(values)


def _check_possible(kind: Kind, columns: Mapping[str, NDArray[Any]], where: str) -> None:
    """Raise DataError for a layer without outputs: its kernel is larger than what it slides over."""
    wrong = np.flatnonzero(~(kind.work(columns).written > 0))
    if wrong.size:
        said = ", ".join(f"{name} {values[wrong[0]]}" for name, values in columns.items())
        raise DataError(f"{where}: row {wrong[0]}: expected a layer with outputs, found none of {said}")


def _devices(
    names: Any, count: int, where: str, known: Sequence[Device]
) -> tuple[tuple[Device, ...], NDArray[np.int64]]:
    if isinstance(names, (str, Device)):
        return (get_device(names, known),), np.zeros(count, np.int64)
    words, _, numbers = _distinct(names)
    if numbers.size != count:
        raise DataError(f"{where}: device: expected {counted(count, 'name')}, found {numbers.size}")
    found = [get_device(word, known) for word in words]
    devices = tuple(dict.fromkeys(found))  # one may go by several names
    return devices, np.array([devices.index(one) for one in found], np.int64)[numbers]


def _distinct(names: Any) -> tuple[list[str], list[int], NDArray[np.int64]]:
    """Return the different names, sorted, the first row of each, and every row's place in them: (n,)."""
    listed = [str(name) for name in (names.astype(str) if isinstance(names, np.ndarray) else names)]
    first: dict[str, int] = {}
    for row, name in enumerate(listed):
        first.setdefault(name, row)
    places = {name: place for place, name in enumerate(sorted(first))}
    return (
        list(places),
        [first[name] for name in places],
        np.array([places[name] for name in listed], np.int64),
    )


def described_devices(found: Mapping[str, Any], where: str) -> tuple[tuple[Device, ...], NDArray[np.int64]]:
    """Return the devices that a table describes by its columns, and the place of every row's in them: (n,).

    Raises
    ------
    DataError
        A figure is missing, wrong, or not the same in all rows of a device.
    """
    for name in ("device", *FIGURES):
        if name not in found:
            expected = ", ".join(("device", *FIGURES))
            raise DataError(f"{where}: no column {name!r}; a table that describes its devices has {expected}")
    figures = np.stack([_positive(found[name], name, where, "a number") for name in FIGURES])
    words, first, numbers = _distinct(found["device"])
    for name, values in zip(FIGURES, figures, strict=True):
        other = np.flatnonzero(values != values[first][numbers])
        if other.size:
            row, before = other[0], first[numbers[other[0]]]
            raise DataError(
                f"{where}: column {name!r}, row {row}: expected {values[before]:g} as in row {before} of the "
                f"same device {words[numbers[row]]!r}, found {values[row]:g}"
            )
    units = _column(found, Size("units", 1 << 30), numbers.size, where)
    devices = []
    for word, row in zip(words, first, strict=True):
        own = dict(zip(FIGURES, figures[:, row].tolist(), strict=True)) | {"units": int(units[row])}
        try:
            devices.append(Device(word, **own))
        except ConfigError as error:
            raise DataError(f"{where}: column 'device', row {row}: {error}") from None
    return tuple(devices), numbers


def _column(found: Mapping[str, Any], column: Size | Choice, count: int, where: str) -> NDArray[Any]:
    name = next((name for name in (column.name, *column.aliases) if name in found), None)
    if name is None:
        if column.default is None:
            raise DataError(f"{where}: no column {column.name!r}; found {', '.join(found)}")
        return np.full(count, column.default)
    if isinstance(column, Choice):
        missing = _NONE if "None" in column.values else ()
        codes = {word: code for code, word in enumerate(column.values)}
        places = np.empty(count, np.int64)
        for row, value in enumerate(found[name]):
            word = "None" if str(value) in missing else str(value)
            if word not in codes:
                raise DataError(
                    f"{where}: column {name!r}, row {row}: expected one of {', '.join(codes)}; "
                    f"found {word!r:.80}"
                )
            places[row] = codes[word]
        return np.array(column.values)[places]
    numbers = _numbers(found[name], name, where)
    wrong = np.flatnonzero(
        ~((numbers >= column.low) & (numbers <= column.high) & (numbers == np.floor(numbers)))
    )
    if wrong.size:
        raise DataError(
            f"{where}: column {name!r}, row {wrong[0]}: expected a whole number from {column.low} to "
            f"{column.high}, found {list(found[name])[wrong[0]]!s:.80}"
        )
    return numbers.astype(np.int64)


def _numbers(values: Iterable[Any], name: str, where: str) -> NDArray[np.float64]:
    try:
        found = np.asarray(values, np.float64)
        if found.ndim == 1:
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    for i, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            raise DataError(
                f"{where}: column {name!r}, row {i}: expected a number, found {value!r:.80}"
            ) from None
        except OverflowError:
            raise DataError(f"{where}: column {name!r}, row {i}: a number beyond all ranges") from None
    raise DataError(f"{where}: column {name!r}: expected one number per row")


def _positive(values: Any, name: str, where: str, what: str) -> NDArray[np.float64]:
    numbers = _numbers(values, name, where)
    wrong = np.flatnonzero(~((numbers >= _LEAST) & (numbers <= _MOST)))
    if wrong.size:
        raise DataError(
            f"{where}: column {name!r}, row {wrong[0]}: expected {what} above 0, from {_LEAST:g} to "
            f"{_MOST:g}, found {numbers[wrong[0]]}"
        )
    return numbers
