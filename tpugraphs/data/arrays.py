"""Arrays from outside: conversions keep every value or raise :class:`DataError`, naming field and place."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tpugraphs.errors import DataError
from tpugraphs.system.files import no_memory

AnyArray = npt.NDArray[Any]
Rows = slice | npt.ArrayLike
"""Configs: a slice, a mask (C,), row numbers (n,), or, for scoring, the configs themselves."""
CHECK = "check the program that wrote it"


def fail(field: str, expected: str, found: str, todo: str = CHECK, where: str = "") -> DataError:
    """Return an error about a field or a column; `where` names what it belongs to."""
    error = DataError.of(f"{where} {field!r}" if where else field, expected, found, todo)
    error.field = field
    return error


def with_file(error: DataError, file: str | None) -> DataError:
    """Add the file, if there is one, to errors that do not name one."""
    if error.file is not None or file is None:
        return error
    return DataError(str(error), file=file, field=error.field, found=error.found, expected=error.expected)


@contextmanager
def naming(file: str | None) -> Iterator[None]:
    """Name the file, if there is one, in a DataError, OSError or MemoryError that the block raises."""
    try:
        yield
    except DataError as error:
        raise with_file(error, file) from None
    except OSError as error:
        raise type(error)(error.errno, os.strerror(error.errno or 0), file) from None
    except MemoryError as error:
        raise no_memory(file, error) from None


def with_graph(error: DataError, name: str) -> DataError:
    """Add the graph to errors that do not name one."""
    text = str(error)
    if error.file is not None or text.startswith("graph "):
        return error
    return DataError(f"graph {name!r}: {text}", field=error.field, found=error.found, expected=error.expected)


def column_names(table: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a table (pandas, Polars, Arrow); None if there are none.

    Raises
    ------
    DataError
        Some are strings and others are not.
    """
    names = getattr(table, "column_names", None)  # Arrow, whose columns are arrays
    names = getattr(table, "columns", None) if names is None else names
    if names is None and hasattr(table, "__dataframe__"):
        names = table.__dataframe__().column_names()
    listed = [] if names is None or callable(names) else list(names)
    kinds = sorted({type(name).__name__ for name in listed})
    if not any(isinstance(name, str) for name in listed):
        return None
    if not all(isinstance(name, str) for name in listed):
        # in scikit-learn's words
        raise DataError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{kinds} as feature name / column name types; use table.columns.astype(str)"
        )
    return tuple(map(str, listed))


def check_mask(field: str, value: Any, where: str = "") -> None:
    """Raise DataError if an array, or one in a list, is masked: NumPy drops masks silently."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    count = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if count:
        todo = "leave them out, or fill them with numpy.ma.filled"
        raise fail(field, "values without a mask", f"{count} masked", todo, where)


def from_member(member: tuple[Any, str, tuple[int, ...], int]) -> AnyArray:
    """Return the array of a member from `_core.npz_load`: bytes, dtype, shape, whether in Fortran order."""
    data, dtype, shape, fortran = member
    data.flags.writeable = False
    array: AnyArray = data.view(dtype).reshape(shape, order="F" if fortran else "C")
    return array


def numbers(field: str, value: Any) -> AnyArray:
    """Return an array of numbers of any type of at most eight bytes."""
    check_mask(field, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise fail(field, "an array of numbers", f"something that is not an array ({error})") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise fail(field, "an array of numbers", f"dtype {array.dtype}", "convert it before")
    return array


def shaped(field: str, value: Any, shape: tuple[int | str, ...]) -> AnyArray:
    """Return an array of numbers of this shape; a letter stands for any length."""
    array = numbers(field, value)
    fits = array.ndim == len(shape) and all(
        isinstance(want, str) or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        text = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        turned = array.ndim == 2 and len(shape) == 2 and shape[1] == array.shape[0]
        todo = "transpose it" if turned else CHECK
        raise fail(field, f"shape {text}", f"shape {array.shape}", todo)
    return array


def refuse(
    field: str, bad: AnyArray, array: AnyArray, expected: str, todo: str = CHECK, columns: Sequence[str] = ()
) -> None:
    """Refuse an array with bad entries; the error names value, position and column of the first."""
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        name = f", column {columns[at[-1]]!r}" if at and at[-1] < len(columns) else ""
        where = f" at {at[0] if len(at) == 1 else at}" if at else ""
        found = f"{array[at].item()!r}{where}{name}"
        raise fail(field, expected, found, todo)


def integers(field: str, value: Any) -> npt.NDArray[np.int64]:
    """Return exact int64; raise DataError for values that are not whole numbers."""
    array = numbers(field, value)
    if array.dtype.kind == "f":
        wide = array.astype(np.float64, copy=False)
        bad = ~((wide >= -(2.0**63)) & (wide < 2.0**63) & (np.floor(wide) == wide))
        refuse(field, bad, array, "whole numbers")
    elif array.dtype.kind == "u" and array.dtype.itemsize == 8:
        refuse(field, array > np.uint64(2**63 - 1), array, "numbers below 2^63")
    return np.ascontiguousarray(array.astype(np.int64, copy=False))


def in_range(field: str, array: npt.NDArray[np.integer], low: int, high: int, what: str) -> None:
    """Check that all are in low..high."""
    refuse(field, (array < low) | (array > high), array, f"{what} in {low}..{high}")


def floats(field: str, value: Any, columns: Sequence[str] = ()) -> npt.NDArray[np.float32]:
    """Return finite float32; wider numbers are rounded to nearest. `columns`: names for errors."""
    array = numbers(field, value)
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(array.astype(np.float32, copy=False))
    bad = ~np.isfinite(result).reshape(array.shape)
    refuse(field, bad, array, "finite numbers", "drop or repair what it belongs to", columns)
    return result


def times(field: str, value: Any, good: npt.NDArray[np.bool_]) -> AnyArray:
    """Return runtimes (n,) as int64 or float64. Those that are not `good` are not read and become 0 or NaN.

    All zeros mean "not measured".
    """
    array = shaped(field, value, good.shape)
    if array.dtype.kind == "b":
        raise fail(field, "times, as numbers", "bools")
    whole = array.dtype.kind in "iu"
    result: AnyArray = np.array(array, np.int64 if whole else np.float64)
    result[~good] = 0 if whole else np.nan
    bad = good & ~((result > 0) & np.isfinite(result)) & result[good].any()
    todo = "drop this config, measure it again, or say in valid= that it failed"
    refuse(field, bad, array, "times > 0", todo)
    return result


def frozen(array: AnyArray, source: Any) -> AnyArray:
    """Return a read-only array that no other reference can write to."""
    if array.flags.writeable and (array is source or array.base is not None):
        array = array.copy()
    array.flags.writeable = False
    return array.view()
