"""Config digits of layout graphs and other schemas: one byte each, in memory or in a file, and as floats."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tpugraphs import _core
from tpugraphs.data import arrays
from tpugraphs.data.arrays import AnyArray
from tpugraphs.errors import DataError

DIGITS = _core.SCHEMA["digits"]  # of a configurable node: three layouts of up to six dimensions

_BLOCK = 16 << 20  # bytes that are converted at a time


def packed_digits(field: str, value: Any) -> npt.NDArray[np.int8]:
    """Return digits (C, K, 18) of any number type as a new int8 array, checked, without another full copy."""
    array = arrays.shaped(field, value, ("C", "K", DIGITS))
    native = array.dtype.newbyteorder("=")
    if array.flags.c_contiguous and array.dtype.isnative:
        return _core.pack_digits(array)
    packed = np.empty(array.shape, np.int8)
    step = max(1, _BLOCK // max(1, array[:1].nbytes))
    try:
        for i in range(0, len(array), step):
            packed[i : i + step] = _core.pack_digits(np.ascontiguousarray(array[i : i + step], native))
    except DataError:  # packing all at once finds it again and names the place
        return _core.pack_digits(np.ascontiguousarray(array, native))
    return packed


class Digits:
    """Digits (C, K, D) int8: in memory, still in an .npz (`path`, `stamp`), or in a mapped pack (`handle`).

    Digits of a file are checked when they are first read. `values` is the number of values of each column of
    a schema; None stands for the 18 columns of a layout graph.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        array: npt.NDArray[np.int8] | None = None,
        path: str | None = None,
        stamp: tuple[int, int, int, int] | None = None,
        handle: Any = None,
        values: tuple[int, ...] | None = None,
    ) -> None:
        self.shape, self._array, self._path, self._stamp, self._handle = shape, array, path, stamp, handle
        self.values, self._unchecked = values, array is not None and handle is not None

    def get(self) -> npt.NDArray[np.int8]:
        """Return all digits, read and checked on first use and kept; DataError naming the file."""
        if self._unchecked:
            self.validate()
        if self._array is None:
            array = self._read()
            array.flags.writeable = False
            self._array = array.view()
        return self._array

    def _read(self) -> npt.NDArray[np.int8]:
        assert self._path is not None and self._stamp is not None
        with arrays.naming(self._path):
            if self.values is None:
                return _core.npz_digits(self._path, self._stamp, self.shape)
            name = "node_config_feat"
            members, stamp = _core.npz_load(self._path, (name,), (), 2**63 - 1)
            if stamp != self._stamp or name not in members or tuple(members[name][2]) != self.shape:
                raise arrays.fail(name, "the file that was loaded", "a file changed since", "load it again")
            return as_digits(name, arrays.from_member(members[name]), self.values)

    @property
    def in_file(self) -> bool:
        """Whether `read_distinct` can read them from an .npz, which needs less memory than `distinct`."""
        return self._array is None and self._stamp is not None and self.values is None

    def read_distinct(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Inflate only the distinct configs: return digits (U, K, 18), and the results of `distinct`.

        The digits are not kept, and never all in memory at once.
        """
        assert self._path is not None and self._stamp is not None
        with arrays.naming(self._path):
            return _core.npz_distinct(self._path, self._stamp, self.shape)

    def take(self, rows: slice | AnyArray) -> npt.NDArray[np.int8]:
        """Return digits (n, K, D) of these rows (index array, mask or slice); packs read no others."""
        if not self._unchecked or self._array is None:
            return np.ascontiguousarray(self.get()[rows])
        self._intact()
        chosen = np.ascontiguousarray(self._array[rows])
        with arrays.naming(self._path):
            check_digits("node_config_feat", chosen, self.values or (), np.arange(self.shape[0])[rows])
        return chosen

    def select(self, rows: slice | AnyArray) -> Digits:
        """Make a copy of these rows only."""
        digits = self.take(rows)
        digits.flags.writeable = False
        return Digits((len(digits), *self.shape[1:]), digits, values=self.values)

    def blocks(self) -> Iterator[npt.NDArray[np.int8]]:
        """Yield all digits, some rows at a time."""
        step = max(1, _BLOCK // max(1, self.shape[1] * self.shape[2]))
        return (self.take(slice(i, i + step)) for i in range(0, self.shape[0], step))

    def stored(self) -> Any:
        """Return the digits in the form for `_core.ModelGraph`."""
        return self.get()

    def source(self) -> Any:
        """Return the digits in the form for `_core.pack_write`."""
        return (self._path, self._stamp, self.shape) if self.in_file else self.get()

    def distinct(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Find equal configs: rows (U,) of first copies, and for every row (C,) its place among them."""
        return _core.dedup_configs(self.get())

    def validate(self) -> None:
        """Check all digits, some at a time."""
        for _ in self.blocks():
            pass
        self._unchecked = False

    @property
    def mapped(self) -> bool:
        """Whether the digits stay in a file and take no memory."""
        return self._handle is not None

    def _intact(self) -> None:
        """Check the digits of a pack on first use; DataError naming the file."""
        if self._handle is not None:
            _core.pack_check_configs(self._handle)

    @property
    def nbytes(self) -> int:
        """Bytes that `stored` takes, in memory or in the file."""
        return math.prod(self.shape)

    def release(self) -> None:
        """Free the memory of pages of the file that were read."""
        if self._handle is not None:
            _core.pack_release(self._handle)

    @classmethod
    def of(cls, value: Any) -> Digits:
        """Make it from layout digits of any number type, checked."""
        digits = value._digits if isinstance(value, ConfigFeatures) else value
        if isinstance(digits, Digits):
            if digits.values is None:
                return digits
            value = digits.get()
        packed = packed_digits("node_config_feat", value)
        packed.flags.writeable = False
        return cls((packed.shape[0], packed.shape[1], DIGITS), packed.view())

    def __getstate__(self) -> dict[str, Any]:
        self._intact()
        return {**self.__dict__, "_handle": None}  # the arrays are copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False


class CodedDigits(Digits):
    """Digits stored as numbers (C, K, 3) of entries of a table (T, 6), as in a pack: six times smaller.

    `handle` is the pack that holds them, None if they are in memory.
    """

    def __init__(
        self, codes: AnyArray, table: npt.NDArray[np.int8], path: str | None = None, handle: Any = None
    ) -> None:
        super().__init__((codes.shape[0], codes.shape[1], DIGITS), path=path, handle=handle)
        self._codes, self._table = codes, table

    def _read(self) -> npt.NDArray[np.int8]:
        return self.take(slice(None))

    def take(self, rows: slice | AnyArray) -> npt.NDArray[np.int8]:
        """Return digits (n, K, 18) of these rows; the others are not read."""
        self._intact()
        count = self.shape[0]
        if isinstance(rows, slice):
            chosen = np.arange(*rows.indices(count))
        else:  # np.arange(count)[rows] would take longer than to decode a few of them
            mask = rows.dtype.kind == "b"
            chosen = np.flatnonzero(rows) if mask else np.where(rows < 0, rows + count, rows)
        chosen = np.ascontiguousarray(chosen, np.int64)
        with arrays.naming(self._path):
            return _core.decode_rows(self._codes, self._table, chosen)

    def select(self, rows: slice | AnyArray) -> Digits:
        """Make a copy of these rows, in memory, coded as here."""
        self._intact()
        codes = self._codes[rows]
        codes = codes if codes.base is None else codes.copy()
        codes.flags.writeable = False
        return CodedDigits(codes, self._table.copy(), self._path)

    def stored(self) -> Any:
        """Return the digits in the form for `_core.ModelGraph`."""
        self._intact()
        return self._codes, self._table

    def distinct(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Find equal configs: entries of the table are all different, so numbers are compared."""
        self._intact()
        return _core.dedup_codes(self._codes)

    @property
    def nbytes(self) -> int:
        """Bytes that `stored` takes, in memory or in the file."""
        return int(self._codes.nbytes)


def check_digits(field: str, digits: AnyArray, values: tuple[int, ...], row: int | AnyArray = 0) -> None:
    """Refuse anything but whole numbers in -1..values-1; the error names config, node and column."""
    bad = ~((digits >= -1) & (digits < np.array(values)) & (np.floor(digits) == digits))
    if bad.any():
        c, k, d = (int(i) for i in np.argwhere(bad)[0])
        number = row + c if isinstance(row, int) else int(row[c])
        raise arrays.fail(
            field, f"whole numbers in -1..{values[d] - 1}",
            f"{digits[c, k, d].item()!r} at config {number}, node {k}, column {d}",
        )  # fmt: skip


def as_digits(field: str, value: Any, values: tuple[int, ...]) -> npt.NDArray[np.int8]:
    """Return digits (C, K, D) of any number type as int8, checked against the values of each column."""
    array = arrays.shaped(field, value, ("C", "K", len(values)))
    packed = np.empty(array.shape, np.int8)
    step = max(1, _BLOCK // max(1, array[:1].nbytes))
    for i in range(0, len(array), step):
        check_digits(field, array[i : i + step], values, i)
        packed[i : i + step] = array[i : i + step]
    return packed


class ConfigFeatures(np.lib.mixins.NDArrayOperatorsMixin):
    """Configs per node as a float32 array (C, K, D), made on demand; D is 18 in layout graphs.

    ``x[rows]`` returns a float32 copy of those rows. ``numpy.asarray(x)`` and any arithmetic copy all of
    them. The digits themselves are kept as int8, see :attr:`LayoutGraph.config_digits`.

    Parameters
    ----------
    digits : Digits
        Digits of the graph.
    """

    __slots__ = ("_digits",)

    def __init__(self, digits: Digits) -> None:
        self._digits = digits

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the array, (C, K, D)."""
        return self._digits.shape

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Type of the numbers, float32."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """Number of dimensions, 3."""
        return 3

    @property
    def size(self) -> int:
        """Number of digits, C·K·D."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the whole array would take as float32."""
        return 4 * self.size

    @property
    def digits(self) -> npt.NDArray[np.int8]:
        """The configs as stored, read-only int8."""
        return self._digits.get()

    def astype(self, dtype: npt.DTypeLike) -> AnyArray:
        """Make an array of another dtype.

        Parameters
        ----------
        dtype : dtype
            Of the result.

        Returns
        -------
        (C, K, D) array
            A copy.
        """
        return self._digits.get().astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        first, *rest = key if isinstance(key, tuple) and key else (key,)
        if isinstance(first, slice) and all(isinstance(index, (slice, SupportsIndex)) for index in rest):
            digits = self._digits.take(first)[(slice(None), *rest)]
        elif isinstance(key, (list, np.ndarray)) and np.ndim(key) == 1 and len(key):
            digits = self._rows(np.asarray(key))
        elif isinstance(first, SupportsIndex) and not isinstance(first, (bool, np.ndarray)):
            digits = self._rows(np.array([first.__index__()]))[(0, *rest)]
        else:
            digits = self._digits.get()[key]
        return np.asarray(digits, dtype=np.float32)

    def _rows(self, rows: AnyArray) -> npt.NDArray[np.int8]:
        """Return the digits of rows given as for NumPy's indexing, with its errors for missing rows."""
        np.broadcast_to(np.int8(0), self.shape[:1])[rows]
        return self._digits.take(rows)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        if copy is False:
            raise ValueError("node_config_feat is stored as int8: a float array of it is always a copy")
        return self._digits.get().astype(np.float32 if dtype is None else dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(out, ConfigFeatures) for out in options.get("out", ())):
            raise TypeError("node_config_feat is read-only: use numpy.asarray(g.node_config_feat)")
        plain = [np.asarray(x) if isinstance(x, ConfigFeatures) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __repr__(self) -> str:
        return f"ConfigFeatures(shape={self.shape}, dtype=float32)"
