"""Config digits of layout graphs and other schemas as an array of floats."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tpugraphs import _core
from tpugraphs.data.arrays import AnyArray


class ConfigFeatures(np.lib.mixins.NDArrayOperatorsMixin):
    """Configs per node as a float32 array (C, K, D), made on demand; D is 18 in layout graphs.

    ``x[rows]`` returns a float32 copy of those rows. ``numpy.asarray(x)`` and any arithmetic copy all of
    them. The digits themselves are kept as int8, see :attr:`LayoutGraph.config_digits`.

    Parameters
    ----------
    digits : _core.Digits
        Digits of the graph.
    """

    __slots__ = ("_digits",)

    def __init__(self, digits: _core.Digits) -> None:
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
            digits = self._digits.take(key)
        elif isinstance(first, SupportsIndex) and not isinstance(first, (bool, np.ndarray)):
            digits = self._digits.take([first.__index__()])[(0, *rest)]
        else:
            digits = self._digits.get()[key]
        return np.asarray(digits, dtype=np.float32)

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
