"""Arrays from outside: conversions keep every value or raise :class:`DataError`, naming field and place."""

import os
from collections.abc import Iterator
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


def numbers(field: str, value: Any) -> AnyArray:
    """Return an array of numbers of at most eight bytes each; the core calls this for other objects."""
    check_mask(field, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise fail(field, "an array of numbers", f"something that is not an array ({error})") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise fail(field, "an array of numbers", f"dtype {array.dtype}", "convert it before")
    return array


def refuse(field: str, bad: AnyArray, array: AnyArray, expected: str, todo: str = CHECK) -> None:
    """Raise DataError if an entry of an array (n,) is bad, with the value and position of the first one."""
    if bad.any():
        at = int(np.argmax(bad))
        raise fail(field, expected, f"{array[at].item()!r} at {at}", todo)
