"""Config digits of layout graphs: one byte each, in memory or still in a file, and their face as floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tpugraphs import _core, arrays
from tpugraphs.arrays import AnyArray
from tpugraphs.errors import DataError

DIGITS = 18  # of a configurable node: three layouts of up to six dimensions

_BLOCK = 16 << 20  # bytes that are converted at a time


def packed_digits(field: str, value: Any) -> npt.NDArray[np.int8]:
    """Digits (C, K, 18) of any number type as a new int8 array, checked; no other copy of all of them."""
    array = arrays.shaped(field, value, ("C", "K", DIGITS))
    if array.flags.c_contiguous and array.dtype.isnative:
        return _core.pack_digits(array)
    packed = np.empty(array.shape, np.int8)
    step = max(1, _BLOCK // max(1, array[:1].nbytes))
    for i in range(0, len(array), step):
        block = np.ascontiguousarray(array[i : i + step])
        try:
            packed[i : i + step] = _core.pack_digits(block.astype(block.dtype.newbyteorder("="), copy=False))
        except DataError:
            break
    else:
        return packed
    # Packing all at once finds it again, and tells its place.
    return _core.pack_digits(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))))


class Digits:
    """Digits (C, K, 18) int8, in memory or still in a file."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        array: npt.NDArray[np.int8] | None = None,
        path: str | None = None,
        stamp: tuple[int, int, int, int] | None = None,
    ) -> None:
        self.shape, self._array, self._path, self._stamp = shape, array, path, stamp

    def get(self) -> npt.NDArray[np.int8]:
        """All of them, inflated from the file on first use; DataError naming the file."""
        if self._array is None:
            assert self._path is not None and self._stamp is not None
            try:
                array = _core.npz_digits(self._path, self._stamp, self.shape)
            except DataError as error:
                raise arrays.with_file(error, self._path) from None
            array.flags.writeable = False
            self._array = array.view()
        return self._array

    @classmethod
    def of(cls, value: Any) -> Digits:
        """From an array-like of any number type, checked."""
        if isinstance(value, ConfigFeatures):
            return value._digits
        packed = packed_digits("node_config_feat", value)
        packed.flags.writeable = False
        return cls((packed.shape[0], packed.shape[1], DIGITS), packed.view())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._array is not None:
            self._array.flags.writeable = False


class ConfigFeatures(np.lib.mixins.NDArrayOperatorsMixin):
    """Layout configs as an array (C, K, 18) of float32 that is made on demand.

    ``x[rows]`` gives a float32 copy of those rows; ``numpy.asarray(x)`` of all of them, and so does any
    arithmetic. The digits themselves are kept as int8, see :attr:`LayoutGraph.config_digits`.
    """

    __slots__ = ("_digits",)

    def __init__(self, digits: Digits) -> None:
        self._digits = digits

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, K, 18)."""
        return self._digits.shape

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """float32."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """3."""
        return 3

    @property
    def size(self) -> int:
        """C·K·18."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes that all of it would take as float32."""
        return 4 * self.size

    @property
    def digits(self) -> npt.NDArray[np.int8]:
        """The configs as they are kept, read-only int8."""
        return self._digits.get()

    def astype(self, dtype: npt.DTypeLike) -> AnyArray:
        """Make an array of another dtype."""
        return self._digits.get().astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self._digits.get()[key], dtype=np.float32)

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
