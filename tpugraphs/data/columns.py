"""Columns of graphs and of tables: their meaning (:class:`Column`, :class:`Digit`) and their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpugraphs import _core
from tpugraphs.data.arrays import CHECK, AnyArray, check_mask, fail
from tpugraphs.errors import ConfigError
from tpugraphs.system.arguments import check_whole
from tpugraphs.system.words import counted

__all__ = ["KINDS", "Column", "Digit"]

#: Kinds of columns: how a ranker encodes their values.
KINDS = ("number", "log", "category", "flag")
MOST_DIGIT_VALUES = _core.SCHEMA["most_digit_values"]


def plain(value: Any) -> Any:
    """Turn a NumPy scalar into Python's own type."""
    return value.item() if isinstance(value, np.generic) else value


def _title(what: str, name: Any) -> str:
    """Return the title of a column or digit in errors; refuse an invalid name."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{what}: expected a name of one character or more, found {name!r}")
    _check_text(f"{what} {name!r}", name)
    return f"{what} {name!r}"


def _check_text(title: str, text: str) -> None:
    """Refuse lone surrogates, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{title}: expected text that UTF-8 can write, found {text!r:.80}") from None


@dataclass(frozen=True)
class Column:
    """One column of node, graph or config features.

    Attributes
    ----------
    name : str
    kind : {"number", "log", "category", "flag"}
        ``number`` is standardised; ``log`` is a number >= 0, of which ln(1 + x) is standardised; ``category``
        is one of ``values``; ``flag`` is 0 or 1.
    values : tuple
        The values of a category: all strings, all whole numbers or all floats, each once.
    """

    name: str
    kind: str = "number"
    values: tuple[str | float | bool, ...] = ()

    def __post_init__(self) -> None:
        title = _title("column", self.name)
        if self.kind not in KINDS:
            raise ConfigError(f"{title}: expected a kind of {', '.join(KINDS)}, found {self.kind!r}")
        if isinstance(self.values, (str, bytes)) or not isinstance(self.values, Iterable):
            raise ConfigError(f"{title}: expected a tuple of values, found {self.values!r}")
        values = tuple(plain(value) for value in self.values)
        object.__setattr__(self, "values", values)
        if bool(values) != (self.kind == "category"):
            wanted = "values" if self.kind == "category" else "no values"
            raise ConfigError(f"{title}: a {self.kind} column has {wanted}, found {values!r}")
        types = {type(value) for value in values}
        if len(types) > 1 or not types <= {str, int, float}:
            wanted, found = "all strings, all whole numbers or all floats", sorted(t.__name__ for t in types)
            raise ConfigError(f"{title}: expected values that are {wanted}, found {', '.join(found)}")
        for value in values if types == {str} else ():
            _check_text(title, str(value))
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            raise ConfigError(f"{title}: expected finite values, found {values!r}")
        if len(set(values)) < len(values):
            twice = next(value for i, value in enumerate(values) if value in values[:i])
            raise ConfigError(f"{title}: the value {twice!r} stands there twice")

    def difference(self, other: Column) -> str | None:
        """Describe the first difference from this column to the other.

        Parameters
        ----------
        other : Column
            The one to compare with.

        Returns
        -------
        str or None
            None if they are equal.
        """
        if self.name != other.name:
            return f"expected {self.name!r}, found {other.name!r}"
        if self.kind != other.kind:
            return f"{self.name!r} is a {self.kind} column, found a {other.kind} column"
        for mine, theirs in zip(self.values, other.values, strict=False):
            if mine != theirs or type(mine) is not type(theirs):
                return f"{self.name!r} has the value {mine!r}, found {theirs!r} in its place"
        if len(self.values) != len(other.values):
            return f"{self.name!r} has {counted(len(self.values), 'value')}, found {len(other.values)}"
        return None


@dataclass(frozen=True)
class Digit:
    """One small choice per configurable node: int8 in ``-1..values-1``, -1 for "not set".

    Attributes
    ----------
    name : str
    values : int
        Number of values besides "not set": 2 to 32.
    """

    name: str
    values: int

    def __post_init__(self) -> None:
        title = _title("digit", self.name)
        values = check_whole(f"{title}: values", self.values, 2, MOST_DIGIT_VALUES)
        object.__setattr__(self, "values", values)

    def difference(self, other: Digit) -> str | None:
        """Describe the first difference from this digit to the other.

        Parameters
        ----------
        other : Digit
            The one to compare with.

        Returns
        -------
        str or None
            None if they are equal.
        """
        if self.name != other.name:
            return f"expected {self.name!r}, found {other.name!r}"
        if self.values != other.values:
            return f"{self.name!r} has {counted(self.values, 'value')}, found {other.values}"
        return None


def objects(values: Sequence[Any]) -> AnyArray:
    """Return values (n,) unchanged: NumPy would turn mixed ones into strings, and lists into rows."""
    return np.fromiter(values, object, len(values))


Place = Callable[[int], str]  # row -> where it is, for errors
_TYPES = {str: "string", bool: "bool", int: "number", float: "number"}
REPAIR = "drop or repair this row"


def in_row(row: int) -> str:
    """Return where a row is, by its number alone."""
    return f"row {row}"


def refuse_rows(
    where: str, name: str, bad: AnyArray, values: AnyArray, expected: str, place: Place, todo: str = CHECK
) -> None:
    """Refuse a column with bad rows; the error names the first."""
    if bad.any():
        row = int(np.argmax(bad))
        raise fail(name, expected, f"{plain(values[row])!r} in {place(row)}", todo, where)


def typed(where: str, name: str, given: Any, place: Place = in_row, todo: str | None = None) -> AnyArray:
    """Return values (n,) of one column, all of one type: bool, int64, float64 or strings (object).

    `todo` is the remedy that errors give.

    Raises
    ------
    DataError
        Values are missing, not finite, of other types or of mixed types, naming column and row.
    """
    where = f"{where}: column"
    check_mask(name, given, where)
    array: AnyArray = objects(given) if isinstance(given, (list, tuple)) else np.asarray(given)
    if array.ndim != 1:
        raise fail(name, "one value per row", f"an array of shape {array.shape}", where=where)
    if array.dtype.kind not in "OUSbiuf":
        raise fail(name, "strings, numbers or bools", f"dtype {array.dtype}", "convert it before", where)
    if array.dtype.kind in "OUS":
        return _typed_objects(where, name, array, place, todo)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind == "f":
        wide: AnyArray = array.astype(np.float64)
        wrong, expected = ~np.isfinite(wide), "a finite number"
    else:
        wide = array.astype(np.int64)
        wrong, expected = (wide < 0) & (array > 0), "a number below 2^63"
    refuse_rows(where, name, wrong, array, expected, place, todo or REPAIR)
    return wide


def _typed_objects(where: str, name: str, array: AnyArray, place: Place, todo: str | None) -> AnyArray:
    """Return the values of Python objects, which must all have the type of the first."""
    values = objects([plain(value) for value in array.tolist()])
    first = _TYPES.get(type(values[0])) if len(values) else "string"
    for row, value in enumerate(values):
        kind = _TYPES.get(type(value))
        if kind is None or (type(value) is float and not math.isfinite(value)):
            expected, found, fix = "a string, a bool or a finite number", repr(value), REPAIR
        elif kind != first:
            expected, found = f"values of one type, {first}s as in {place(0)}", f"{value!r} ({kind})"
            fix = "make all of them strings or all numbers"
        else:
            continue
        raise fail(name, expected, f"{found} in {place(row)}", todo or fix, where)
    if first == "string":
        return values
    whole = all(type(value) is int for value in values)
    try:
        return values.astype(np.bool_ if first == "bool" else np.int64 if whole else np.float64)
    except OverflowError:
        raise fail(name, "numbers below 2^63", "a larger one", where=where) from None


def infer_column(name: str, array: AnyArray, kind: str | None = None) -> Column:
    """Infer the kind of a column of a table, unless it is given; its values come from :func:`typed`.

    See :func:`tpugraphs.from_frame`.
    """
    if kind is None and array.dtype.kind in "Ob":
        kind = "category" if array.dtype.kind == "O" else "flag"
    if kind is None:
        some = array[array > 0]
        spread = len(some) > 0 and array.min() >= 0 and array.max() >= max(1.0, 16.0 * float(some.min()))
        kind = "log" if spread else "number"
    return Column(name, kind, tuple(sorted(set(array.tolist()))) if kind == "category" else ())


def encoded(where: str, column: Column, array: AnyArray, place: Place = in_row) -> AnyArray:
    """Return values (n,) as numbers; for a category, check them and return positions among its values."""
    where = f"{where}: column"
    if column.kind == "category":
        known = {value: number for number, value in enumerate(column.values)}
        numbers = [-1 if type(value) is bool else known.get(value, -1) for value in array.tolist()]
        result: AnyArray = np.array(numbers, np.int64)
        some = ", ".join(map(repr, column.values[:8])) + (", ..." if len(column.values) > 8 else "")
        todo = "a category that the schema does not know; drop the row or train with it"
        refuse_rows(where, column.name, result < 0, array, f"one of {some}", place, todo)
        return result
    if array.dtype.kind == "O":
        found = f"{array[0]!r} in {place(0)}" if len(array) else "strings"
        raise fail(column.name, f"numbers ({column.kind})", found, where=where)
    return array


def check_values(where: str, columns: Sequence[Column], values: AnyArray, place: Place = in_row) -> None:
    """Refuse float32 or float64 values (n, columns) that the kind of their column does not allow."""
    misfit = _core.column_misfit(tuple((column.kind, len(column.values)) for column in columns), values)
    if misfit is not None:
        row, number, expected = misfit
        column = columns[number]
        expected += f", 0..{len(column.values) - 1}" if column.kind == "category" else ""
        raise fail(
            column.name, expected, f"{values[row, number]:g} in {place(row)}", where=f"{where}: column"
        )
